//! The bench of the gateway measures what it says: real bytes, true counts, honest verdicts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use super::floor::{Pool, accept, listen};
use super::http1::{Ends, head};
use super::load::{Client, Request};
use super::metrics::{QUEUE_DEPTH, sum};
use super::origin::{Behaviour, EVENTS, Origin};
use super::process::Cores;
use super::proxies::{Fixture, Proxy};
use super::{
    auth_cost, bands, priorities, settings, shutdown, timeouts, tls_cost, trace_cost,
    without_priorities, workloads,
};
use crate::report::Table;
use crate::runner::Bench;

/// Runs `test` as the bench runs.
fn alone<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test)
}

/// A floor in front of `origin` that lets in so many.
fn floor(origin: &Origin, limit: Option<usize>) -> std::net::SocketAddr {
    let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let limit = limit.map(|limit| Arc::new(Semaphore::new(limit)));
    let pool = Pool { backend: origin.address, idle: RefCell::default(), limit };
    tokio::task::spawn_local(accept(listener, Rc::new(pool)));
    address
}

/// A hundredth of a benchmark, with the gateway that `cargo test` has built.
fn toy(measure: impl AsyncFnOnce(&mut Bench) -> anyhow::Result<Table>) -> Table {
    let program = std::env::current_exe().unwrap();
    let program = program.ancestors().nth(2).unwrap().join("tidegate");
    assert!(program.is_file(), "{} is missing: cargo build", program.display());
    let fixture =
        Fixture::of(program.to_str().unwrap().to_owned(), Cores::share().unwrap()).unwrap();
    let mut bench = Bench { divisor: 100, fixture, other_picker: None };
    let table = alone(measure(&mut bench));
    table.unwrap_or_else(|error| panic!("{error:#}\n{}", bench.fixture.logs()))
}

#[test]
fn a_head_determines_where_its_body_ends() {
    let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
    assert_eq!(head(plain).unwrap().unwrap().ends, Ends::After(12));
    assert_eq!(head(plain).unwrap().unwrap().length, plain.len());
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nrest";
    assert_eq!(head(chunked).unwrap().unwrap().ends, Ends::Chunked);
    assert!(head(b"HTTP/1.1 200 OK\r\ncontent-le").unwrap().is_none());
    assert!(head(b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n").is_err());
}

#[test]
fn the_origin_keeps_to_the_lengths_it_declares() {
    alone(async {
        let origin = Origin::start(Behaviour::default()).unwrap();
        let mut client = Client::connect(origin.address).await.unwrap();
        // A wrong length would leave bytes behind that spoil the next answer.
        for _ in 0..2 {
            let json = client.text(&Request::chat(false, "")).await.unwrap();
            assert_eq!(json.len(), 260);
            serde_json::from_str::<serde_json::Value>(&json).unwrap();
            let stream = client.text(&Request::chat(true, "")).await.unwrap();
            assert_eq!(stream.matches("data: {").count(), EVENTS);
        }
        assert_eq!(origin.answered(), 4);
        assert_eq!(origin.sent(), 2 + 2 * EVENTS as u64);
    });
}

#[test]
fn the_floor_passes_bodies_on_as_they_are() {
    alone(async {
        let origin = Origin::start(Behaviour::default()).unwrap();
        let mut direct = Client::connect(origin.address).await.unwrap();
        let mut through = Client::connect(floor(&origin, None)).await.unwrap();
        for streamed in [false, true, false] {
            let request = Request::chat(streamed, "");
            let expected = direct.text(&request).await.unwrap();
            let passed = through.text(&request).await.unwrap();
            assert_eq!(
                expected.matches("data: {").count(),
                passed.matches("data: {").count(),
                "{passed}"
            );
            assert!(streamed || expected == passed);
        }
    });
}

#[test]
fn the_floor_admits_its_configured_number_and_the_origin_counts_them() {
    alone(async {
        let delay = Some(Duration::from_millis(2));
        let origin = Origin::start(Behaviour { delay, ..Behaviour::default() }).unwrap();
        let address = floor(&origin, Some(3));
        let mut clients = JoinSet::new();
        for _ in 0..20 {
            clients.spawn_local(async move {
                let mut client = Client::connect(address).await.unwrap();
                client.ask_well(&Request::chat(false, "")).await.unwrap()
            });
        }
        assert_eq!(clients.join_all().await.len(), 20);
        assert_eq!((origin.in_flight_max(), origin.in_flight(), origin.answered()), (3, 0, 20));
        assert!(origin.gaps().len() >= 17 / 3);
        assert!(origin.gaps().is_empty(), "each gap is told once");
    });
}

#[test]
fn the_gateway_takes_every_configuration_that_is_measured() {
    let folder = std::env::temp_dir().join(format!("tidegate-settings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let all = [
        settings::flow_control(),
        settings::logged(),
        settings::queue_off(),
        settings::workloads(),
        settings::few_places("workload"),
        settings::few_places_by_wait(),
        settings::short_lived(),
        settings::one_at_a_time(),
        settings::patient(),
        settings::full(),
        settings::headline(),
        settings::traced(([127, 0, 0, 1], 4318).into(), 1.0),
        settings::no_prefix_cache(),
    ];
    for (at, config) in all.iter().enumerate() {
        let file = folder.join(format!("{at}.toml"));
        std::fs::write(&file, config).unwrap();
        let source = gateway::config::Source { file: Some(file), ..Default::default() };
        gateway::config::load(&source).unwrap_or_else(|error| panic!("{config}\n{error}"));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn p08_the_waits_of_both_bands_are_measured() {
    let table = toy(bands::measure);
    assert_eq!(table.rows.len(), 4);
    assert_eq!(table.figure("timed, high band", 0), 4.0);
    let [high, normal] = ["timed, high band", "the normal band beside it"].map(|row| {
        let mean = table.figure(row, 1);
        assert!(mean > 0.0, "{table}");
        mean
    });
    assert!(high < normal, "{table}");
}

#[test]
fn q08_late_responses_are_measured() {
    let table = toy(timeouts::measure);
    let counts: Vec<_> = table.rows.iter().map(|(_, figures)| figures[0]).collect();
    assert_eq!(counts, [50.0, 10.0, 50.0].map(Some));
    assert!(table.figure("five times as many", 4) > 0.0, "{table}");
}

#[test]
fn n07_the_responses_to_waiting_requests_are_measured() {
    let table = toy(shutdown::measure);
    assert!(table.figure("5 waiting", 3) > 0.0, "{table}");
    assert!(table.figure("50 waiting", 3) > 0.0, "{table}");
}

#[test]
fn w04_workloads_are_measured_beside_none() {
    let table = toy(workloads::measure);
    assert_eq!((table.rows.len(), table.targets.len()), (9, 18));
    assert!(table.targets.iter().all(|target| target.found.is_finite()), "{table}");
}

/// The gateway sends the traces before it ends, so a count of its instructions includes them.
#[test]
fn m02_traces_are_measured_with_a_receiver_that_gets_them() {
    toy(async |bench| {
        for (sample_ratio, batches) in [(0.0, 0), (1.0, 1)] {
            let backend = Origin::start(Behaviour::default())?;
            let receiver = Origin::start(Behaviour::default())?;
            let config = settings::traced(receiver.address, sample_ratio);
            let peer = Proxy::ours("traced", config);
            let gateway = bench.fixture.start(&peer, backend.address).await?;
            let mut client = Client::connect(gateway.address).await?;
            client.ask_well(&Request::chat(false, "")).await?;
            drop(client);
            gateway.end_beside().await?;
            assert_eq!(receiver.answered(), batches, "sample_ratio {sample_ratio}");
        }
        Ok(Table::default())
    });
}

#[test]
fn r09_two_builds_are_compared() {
    let table = toy(async |bench| {
        let same = bench.fixture.tidegate.clone();
        priorities::compare(bench, same).await
    });
    let names: Vec<_> = table.rows.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["priorities on", "without"]);
    assert!(table.targets.iter().all(|target| target.found.is_finite()), "{table}");
}

/// The build itself takes minutes; a site that is no longer in the code fails here.
#[test]
fn r09_the_code_of_the_priorities_can_be_left_out() {
    let copy = std::env::temp_dir().join(format!("tidegate-without-{}", std::process::id()));
    let written = without_priorities::write_copy(&copy);
    std::fs::remove_dir_all(&copy).unwrap();
    written.unwrap();
}

#[test]
fn the_series_of_one_metric_are_added_up() {
    let metrics = "# TYPE nexus_queue_depth gauge\nnexus_queue_depth{band=\"high\"} 3\n\
                   nexus_queue_depth{band=\"normal\"} 4\nnexus_queue_depth_max 9\n";
    assert_eq!(sum(metrics, QUEUE_DEPTH), Some(7.0));
    assert_eq!(sum("other 9\n", QUEUE_DEPTH), None);
}

/// Every row has requests.
#[test]
fn x04_requests_with_tls_are_measured_on_kept_and_on_new_connections() {
    let kept = toy(tls_cost::kept);
    let new = toy(tls_cost::new_connections);
    for row in ["gateway", "gateway, TLS"] {
        assert!(kept.figure(row, 0) > 0.0 && new.figure(row, 3) > 0.0, "{row}");
    }
}

#[test]
fn m02_requests_with_traces_are_measured() {
    for table in [toy(trace_cost::post), toy(trace_cost::stream)] {
        let names: Vec<_> = table.rows.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gateway", "gateway, sample_ratio 0", "gateway, sample_ratio 1"]);
        assert!(names.iter().all(|name| table.figure(name, 0) > 0.0), "{table}");
    }
}

#[test]
fn x05_requests_with_keys_and_tokens_are_measured() {
    let table = toy(auth_cost::measure);
    let names: Vec<_> = table.rows.iter().map(|(name, _)| name.as_str()).collect();
    let tokens = ["gateway, token, HS256", "gateway, token, ES256"];
    assert_eq!(names, ["gateway", "gateway, API key", tokens[0], tokens[1]]);
    assert!(names.iter().all(|name| table.figure(name, 0) > 0.0), "{table}");
}
