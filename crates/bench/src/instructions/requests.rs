//! One request through a process under callgrind.

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;

use super::callgrind::{Counted, Counts};
use crate::epp::{Caller, picker_arguments};
use crate::gateway::auth_cost::api_key;
use crate::gateway::load::{Client, Crowd, Request};
use crate::gateway::metrics::await_depth;
use crate::gateway::origin::{Behaviour, Origin};
use crate::gateway::proxies::{floor as floor_arguments, ourselves};
use crate::gateway::{settings, without_priorities as build};
use crate::runner::Bench;

const WARM: usize = 200;
const COUNTED: usize = 400;
/// The least that each of many clients asks.
const EACH: usize = 2;
/// The size of the bodies; twice that shows what each byte costs.
const BODY: usize = 1024;
/// The events of a short stream and of a long one.
const STREAMS: [usize; 2] = [16, 272];
/// Longer than anyone waits here.
const NEVER: Duration = Duration::from_secs(3600);

const HIGH: &str = "x-team: blue\r\nx-priority: high\r\n";
const IN_WORKLOAD: &str = concat!(
    "x-team: blue\r\nx-priority: high\r\n",
    "x-workload-context: {\"workload_id\": \"nightly\", \"criticality\": 4}\r\n",
);

/// Through a proxy that only forwards bytes.
pub(super) async fn floor(bench: &mut Bench) -> Result<Counts> {
    let origin = Origin::start(Behaviour::default())?;
    let floor =
        Counted::start(bench, &ourselves()?, &floor_arguments(origin.address, None)).await?;
    one_by_one(floor, &Request::chat(false, HIGH)).await
}

/// Past an empty queue, with a choice of two backends.
pub(super) async fn passing(bench: &mut Bench) -> Result<Counts> {
    let origin = Origin::start(Behaviour::default())?;
    let config = settings::passing(origin.address.port());
    let gateway = start(bench, &config, &origin).await?;
    one_by_one(gateway, &Request::chat(false, HIGH)).await
}

/// The same by a build of the gateway that has no code of the priorities.
pub(super) async fn without_priorities(bench: &mut Bench) -> Result<Counts> {
    let ours = bench.fixture.tidegate.clone();
    bench.fixture.tidegate = build::program().unwrap_or_else(|| ours.clone());
    let counts = passing(bench).await;
    bench.fixture.tidegate = ours;
    counts
}

/// Of a workload, in the order by workload.
pub(super) async fn of_a_workload(bench: &mut Bench) -> Result<Counts> {
    let origin = Origin::start(Behaviour::default())?;
    let gateway = start(bench, &settings::workloads(), &origin).await?;
    one_by_one(gateway, &Request::chat(false, IN_WORKLOAD)).await
}

/// Of a workload, and of a tenant that is known by its API key.
pub(super) async fn with_a_key(bench: &mut Bench) -> Result<Counts> {
    let origin = Origin::start(Behaviour::default())?;
    let (tenant, key) = api_key(bench)?;
    let gateway = start(bench, &format!("{}{tenant}", settings::workloads()), &origin).await?;
    let headers = format!("{IN_WORKLOAD}authorization: Bearer {key}\r\n");
    one_by_one(gateway, &Request::chat(false, &headers)).await
}

/// In the default configuration, among so many clients that all wait.
pub(super) async fn waiting(bench: &mut Bench, clients: usize) -> Result<Counts> {
    let origin = Origin::start(Behaviour::default())?;
    let config = settings::waiting(origin.address.port());
    let gateway = start(bench, &config, &origin).await?;
    let crowd = Crowd::new(clients, vec![Request::chat(false, HIGH)]);
    let clients = crowd.connect(&gateway.process).await?;
    let (all, each) = (clients.len(), EACH.max(COUNTED / clients.len()));
    let ask = async {
        crowd.ask_of(clients, each).await?;
        Ok(())
    };
    Ok(gateway.count(ask).await?.of_each(all * each))
}

/// Refused, since the queue is full.
pub(super) async fn refused(bench: &mut Bench) -> Result<Counts> {
    let origin = Origin::start(Behaviour { delay: Some(NEVER), ..Behaviour::default() })?;
    let gateway = start(bench, &settings::full(), &origin).await?;
    let address = gateway.process.address;
    let request = Request::chat(false, "");
    // The first one must be at the backend before the next one comes.
    let mut holders = [Client::connect(address).await?, Client::connect(address).await?];
    holders[0].send(&request).await?;
    while origin.in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    holders[1].send(&request).await?;
    await_depth(address, 1).await?;
    let mut client = Client::connect(address).await?;
    let ask = async |client: &mut Client, count: usize| -> Result<()> {
        for _ in 0..count {
            let status = client.ask(&request).await?.status;
            ensure!(status == 503, "the answer is {status}, not 503");
        }
        Ok(())
    };
    ask(&mut client, WARM).await?;
    Ok(gateway.count(ask(&mut client, COUNTED)).await?.of_each(COUNTED))
}

/// Each event of a stream, of which the next one comes when the client has this one.
pub(super) async fn event(bench: &mut Bench) -> Result<Counts> {
    let mut counts = Vec::new();
    let request = Request::chat(true, HIGH);
    for events in STREAMS {
        let origin = Origin::start(Behaviour { stepped: Some(events), ..Behaviour::default() })?;
        let gateway = start(bench, &settings::flow_control(), &origin).await?;
        let mut client = Client::connect(gateway.process.address).await?;
        let follow = async |client: &mut Client, streams: usize| -> Result<()> {
            for _ in 0..streams {
                client.follow(&request, &origin, events).await?;
            }
            Ok(())
        };
        follow(&mut client, 2).await?;
        counts.push(gateway.count(follow(&mut client, 4)).await?.of_each(4));
    }
    Ok(counts[1].beyond(counts[0], STREAMS[1] - STREAMS[0]))
}

/// A decision of the picker, and what Envoy tells it of the response.
pub(super) async fn behind_envoy(bench: &mut Bench) -> Result<Counts> {
    let origin = Origin::start(Behaviour::default())?;
    let program = bench.fixture.tidegate.clone();
    let arguments = picker_arguments(bench, origin.address)?;
    let picker = Counted::start(bench, &program, &arguments).await?;
    let body = Bytes::from(Request::chat_of(2 * BODY, false, "").body());
    let caller = Caller::connect(picker.process.address, body).await?;
    let ask = async |count: usize| -> Result<()> {
        for _ in 0..count {
            caller.ask().await?;
        }
        Ok(())
    };
    ask(WARM).await?;
    Ok(picker.count(ask(COUNTED)).await?.of_each(COUNTED))
}

/// Of two kilobytes, with prefix caches and without.
pub(super) async fn larger(bench: &mut Bench, cached: bool) -> Result<Counts> {
    let origin = Origin::start(Behaviour::default())?;
    let config = if cached { settings::flow_control() } else { settings::no_prefix_cache() };
    let gateway = start(bench, &config, &origin).await?;
    one_by_one(gateway, &Request::chat_of(2 * BODY, false, HIGH)).await
}

async fn start(bench: &mut Bench, config: &str, origin: &Origin) -> Result<Counted> {
    let arguments = bench.fixture.ours(config, origin.address)?;
    let program = bench.fixture.tidegate.clone();
    Counted::start(bench, &program, &arguments).await
}

/// One client that sends one request after the other.
async fn one_by_one(counted: Counted, request: &Request) -> Result<Counts> {
    let mut client = Client::connect(counted.process.address).await?;
    let ask = async |client: &mut Client, count: usize| -> Result<()> {
        for _ in 0..count {
            client.ask_well(request).await?;
        }
        Ok(())
    };
    ask(&mut client, WARM).await?;
    Ok(counted.count(ask(&mut client, COUNTED)).await?.of_each(COUNTED))
}
