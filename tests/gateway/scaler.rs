//! An autoscaler asks the gateway as KEDA does.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::api_server::{ApiServer, pod, pool};
use crate::support::cluster::await_state;
use crate::support::gateway::{CONFIGURED, ONE, TWO, config};
use crate::support::keys::Keys;
use crate::support::tools::{python, run};
use crate::support::wait::{BOUND, eventually};
use crate::support::{Backend, Call, Gateway, chat};

const SCALER: &str = "[scaler]\nlisten = \"127.0.0.1:0\"\n";

/// What a verb of the client prints.
fn told(gateway: &Gateway, verb: &str, metadata: &[&str]) -> String {
    let address = gateway.process.addresses()[1].to_string();
    run(python("keda.py").args([verb, &address]).args(metadata)).trim_end().to_owned()
}

/// A stream of the client, which ends with its owner.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

// === impl Watch ===

impl Watch {
    fn open(gateway: &Gateway, metadata: &[&str]) -> Self {
        let address = gateway.process.addresses()[1].to_string();
        let mut command = python("keda.py");
        command.args(["watch", &address]).args(metadata).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (tell, lines) = channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let _ = lines.try_for_each(|line| tell.send(line));
        });
        Self { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(BOUND).unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_autoscaler_is_told_the_demand_of_a_model() {
    let backend = Backend::held();
    let gateway =
        Gateway::launch_scaled(&config(&format!("{SCALER}{ONE}"), &[("one", backend.address())]));
    gateway.await_ready(1);
    let quiet = [told(&gateway, "active", &["model=m"]), told(&gateway, "active", &[])];
    assert_eq!(quiet, ["false", "false"]);
    let running = gateway.send(&chat("m"));
    backend.await_running(1);
    let waiting: Vec<Call> = (0..3).map(|others| gateway.enqueue(&chat("m"), others)).collect();
    assert_eq!(told(&gateway, "active", &["model=m"]), "true");
    for (metric, value) in [("queue", "3 3.0"), ("running", "1 1.0"), ("backendsWanted", "5 5.0")] {
        let metric_key = format!("metric={metric}");
        for metadata in [&["model=m", &metric_key][..], &[&metric_key]] {
            let wanted = format!("s0-{metric} {value}");
            assert_eq!(told(&gateway, "metrics", metadata), wanted, "{metadata:?}");
        }
    }
    let tokens = told(&gateway, "metrics", &["model=m", "metric=tokens", "target=1000"]);
    assert!(tokens.starts_with("s0-tokens ") && !tokens.ends_with(" 0.0"), "{tokens}");
    let page = gateway.metrics();
    assert_eq!(page.sum("tidegate_backends_wanted"), 5.0);
    assert!(page.sum("tidegate_backlog_seconds") >= 3.0);
    assert_eq!(told(&gateway, "spec", &["metric=running"]), "running 16 16.0");
    assert_eq!(told(&gateway, "spec", &["metric=queue", "target=2.5"]), "queue 3 2.5");
    assert_eq!(told(&gateway, "tls", &["model=m"]), "true", "with TLS as well");
    backend.open();
    for call in waiting.into_iter().chain([running]) {
        assert_eq!(call.finish().status, 200);
    }
    gateway.await_idle();
}

#[test]
fn a_stream_says_at_once_that_a_request_waits_without_a_backend() {
    let backend = Backend::quick().lists(&["m"]);
    let sections = format!("{SCALER}quiet = \"0s\"\n{CONFIGURED}");
    let gateway = Gateway::launch_scaled(&sections);
    let watches = [&["model=m"][..], &[], &["model=m", "metric=queue"]]
        .map(|metadata| Watch::open(&gateway, metadata));
    assert_eq!(watches.each_ref().map(Watch::next), ["false"; 3]);
    let call = gateway.enqueue(&chat("m"), 0);
    assert_eq!(watches.each_ref().map(Watch::next), ["true"; 3]);
    gateway.list(&[&backend]);
    assert_eq!(call.finish().status, 200);
    assert_eq!(watches.each_ref().map(Watch::next), ["false"; 3], "after the quiet time");
    gateway.await_idle();
}

/// KEDA scales a workload by the trigger of its model, and the pool has no backend that lists one.
#[test]
fn o06_a_trigger_that_names_a_model_is_answered_while_its_pool_is_at_zero() {
    let (backend, api) = (Backend::quick().lists(&["m"]), ApiServer::start());
    api.put("inferencepools", pool("llama", &[backend.address().port()]));
    let section = api.section("pool = \"llama\"");
    let gateway = Gateway::launch_scaled(&format!("{SCALER}quiet = \"0s\"\n{TWO}{section}"));
    eventually("ready", || match gateway.get("/ready") {
        page if page.status == 200 => Ok(()),
        page => Err(page.text()),
    });
    let queue = |model: &str| told(&gateway, "metrics", &[model, "metric=queue"]);
    let wanted = |model: &str| told(&gateway, "metrics", &[model]);
    assert_eq!(told(&gateway, "active", &["model=m"]), "false");
    assert_eq!(
        [queue("model=m"), wanted("model=m")],
        ["s0-queue 0 0.0", "s0-backendsWanted 0 0.0"]
    );
    // No model is known, so the request may be for any of them.
    let call = gateway.enqueue(&chat("m"), 0);
    for model in ["model=m", "model=other"] {
        assert_eq!(told(&gateway, "active", &[model]), "true", "{model}");
        assert_eq!([queue(model), wanted(model)], ["s0-queue 1 1.0", "s0-backendsWanted 1 1.0"]);
    }
    api.put("pods", pod("pod-0", backend.address()));
    assert_eq!(call.finish().status, 200);
    assert!(told(&gateway, "active", &["model=other"]).starts_with("NOT_FOUND"));
    api.delete("pods", "pod-0");
    await_state(&gateway, "pod-0", None);
    // The pool had this model, so its demand is its own.
    let call = gateway.enqueue(&chat("m"), 0);
    for (model, active, count) in [("model=m", "true", "1 1.0"), ("model=other", "false", "0 0.0")]
    {
        assert_eq!(told(&gateway, "active", &[model]), active, "{model}");
        assert_eq!(queue(model), format!("s0-queue {count}"));
    }
    assert_eq!(wanted("model=m"), "s0-backendsWanted 1 1.0");
    api.put("pods", pod("pod-0", backend.address()));
    assert_eq!(call.finish().status, 200);
    gateway.await_idle();
}

/// A client has room for one message of its stream and takes none. At most one further message is
/// kept for it, however often the state changes.
#[test]
fn o06_a_slow_reader_of_a_stream_delays_nobody_and_costs_one_message() {
    let backend = Backend::quick().lists(&["m"]);
    let gateway = Gateway::launch_scaled(&format!("{SCALER}quiet = \"0s\"\n{CONFIGURED}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let slow = runtime.block_on(slow_stream(gateway.process.addresses()[1]));
    let watch = Watch::open(&gateway, &[]);
    assert_eq!(watch.next(), "false");
    for _ in 0..3 {
        let call = gateway.enqueue(&chat("m"), 0);
        assert_eq!(watch.next(), "true");
        gateway.list(&[&backend]);
        assert_eq!(call.finish().status, 200);
        assert_eq!(watch.next(), "false");
        gateway.list(&[]);
        gateway.await_ready(0);
    }
    gateway.process.signal("TERM");
    let heard = runtime.block_on(async { timeout(BOUND, slow.collect()).await });
    let heard = heard.unwrap().unwrap().to_bytes();
    // `false`, and at most one `true`. The other stream was told six changes.
    assert!(
        [&[0; 5][..], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 1]].contains(&&heard[..]),
        "{heard:?}"
    );
}

/// The body of a stream about all models, in a window of the size of its first message.
async fn slow_stream(address: SocketAddr) -> Incoming {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(5);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("http://scaler/externalscaler.ExternalScaler/StreamIsActive")
        .header("content-type", "application/grpc");
    let empty = Full::new(Bytes::from_static(&[0; 5]));
    let response = sender.send_request(request.body(empty).unwrap()).await.unwrap();
    // The connection lives as long as its sender.
    tokio::spawn(async move {
        let _sender = sender;
        std::future::pending::<()>().await;
    });
    response.into_body()
}

#[test]
fn metadata_that_is_not_understood_is_refused() {
    let gateway = Gateway::launch_scaled(&format!("{SCALER}{CONFIGURED}"));
    for (metadata, refusal) in [
        ("metric=length", "INVALID_ARGUMENT metric is \"length\", it must be one of: "),
        ("target=no", "INVALID_ARGUMENT target is \"no\", it must be a number above 0"),
        ("model=größer", "NOT_FOUND no backend lists the model \"größer\""),
    ] {
        for verb in ["active", "spec", "metrics", "watch"] {
            // The target of a model is known before its backends are.
            if (verb, metadata) != ("spec", "model=größer") {
                let said = told(&gateway, verb, &[metadata]);
                assert!(said.starts_with(refusal), "{verb}: {said}");
            }
        }
    }
}

#[test]
fn streams_are_bounded_and_a_cut_stream_gives_its_place_back() {
    let gateway = Gateway::launch_scaled(&format!("{SCALER}streams_max = 8\n{CONFIGURED}"));
    let mut watches: Vec<Watch> = (0..8).map(|_| Watch::open(&gateway, &["model=m"])).collect();
    assert!(watches.iter().all(|watch| watch.next() == "false"));
    let refused = "RESOURCE_EXHAUSTED 8 streams are open already (scaler.streams_max)";
    assert_eq!(Watch::open(&gateway, &["model=m"]).next(), refused);
    assert_eq!(told(&gateway, "active", &["model=m"]), "false", "calls need no place");
    watches.truncate(7);
    eventually("a free place", || {
        let watch = Watch::open(&gateway, &["model=m"]);
        match watch.next() {
            told if told == "false" => Ok(()),
            other => Err(other),
        }
    });
}

#[test]
fn a_thousand_streams_and_large_messages_keep_no_caller_away() {
    let gateway = Gateway::launch_scaled(&format!("{SCALER}{CONFIGURED}"));
    assert_eq!(told(&gateway, "crowd", &["model=m"]), "100 false");
    let large = format!("padding={}", "x".repeat(100_000));
    let refused = told(&gateway, "active", &["model=m", &large]);
    assert_eq!(refused, "RESOURCE_EXHAUSTED a message is larger than 65536 bytes");
    assert_eq!(told(&gateway, "active", &["model=m"]), "false");
}

#[test]
fn where_pages_need_a_key_an_autoscaler_needs_one() {
    let keys = Keys::new();
    let admin = keys.make(&["--admin", "read", "--name", "keda"]);
    let tenant = keys.tenant("alpha", "alpha");
    let sections = format!("{}[[tenants]]\nname = \"alpha\"\n{SCALER}", keys.section());
    let gateway = Gateway::launch_scaled(&format!("{sections}{CONFIGURED}"));
    let missing = told(&gateway, "active", &["model=m"]);
    assert!(missing.starts_with("UNAUTHENTICATED a key of an operator is needed"), "{missing}");
    for wrong in [tenant.as_str(), "tg-nobody"] {
        let said = told(&gateway, "active", &["model=m", &format!("token={wrong}")]);
        assert_eq!(said, "PERMISSION_DENIED the key is not an operator's");
    }
    for key in ["token", "tokenFromEnv"] {
        assert_eq!(told(&gateway, "active", &["model=m", &format!("{key}={admin}")]), "false");
    }
}
