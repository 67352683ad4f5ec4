//! The largest batch that OpenAI allows, from the first byte of its file to its end.
//!
//! The origin responds at once, so the figures are the cost of batch work alone. The same gateway
//! also relays the same requests for clients that send them directly: durability apart, no batch
//! can be faster.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use super::api::{Api, chat, lines};
use super::settings::{Gate, bounds, work};
use crate::gateway::dialing::Dialing;
use crate::gateway::load::{ClosedLoop, Request};
use crate::gateway::origin::{Behaviour, Origin};
use crate::gateway::process::Process;
use crate::gateway::proxies::Proxy;
use crate::report::Table;
use crate::runner::Bench;

const LINES: usize = 50_000;
/// With what stands around it, a line of 300 bytes.
const PROMPT: usize = 120;
const CLIENTS: usize = 64;
const WITHIN: Duration = Duration::from_secs(300);
const ACCEPTED_MAX: f64 = 10.0;
const MEGABYTES_MAX: f64 = 150.0;

/// When a batch came how far, in seconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    uploaded: f64,
    accepted: f64,
    answered: f64,
    ended: f64,
}

/// How long a batch takes, and what it takes of memory.
pub(super) async fn measure(bench: &mut Bench) -> Result<Table> {
    let count = bench.count(LINES);
    let origin = Origin::start(Behaviour::default())?;
    let folder = bench.fixture.file("batches");
    let config = work(&folder, Gate::OPEN, "best-effort", None) + &bounds(None);
    let gateway = bench.fixture.start(&Proxy::ours("batch", config), origin.address).await?;
    let times = play(gateway.address, count).await?;
    let peak = gateway.peak_megabytes()?;
    let direct = relay(bench, &gateway, &origin).await?;
    gateway.end()?;
    let rate = count as f64 / (times.answered - times.accepted);
    let finalised = times.ended - times.answered;
    let columns = [
        ("uploaded s", 2),
        ("in progress s", 2),
        ("requests/s", 0),
        ("finalised in s", 2),
        ("peak MB", 0),
    ];
    let title = "A batch of 300-byte lines, and a backend that answers at once";
    let mut table = Table::new(title, &columns);
    let batch = [times.uploaded, times.accepted, rate, finalised, peak];
    table.push_all(format!("a batch of {count}"), batch);
    let direct = [None, None, Some(direct), None, None];
    table.push(format!("{CLIENTS} clients that ask themselves"), direct);
    table.target("s from the first byte to in_progress", ACCEPTED_MAX, times.accepted);
    table.target("MB of the gateway at most", MEGABYTES_MAX, peak);
    Ok(table)
}

async fn play(gateway: SocketAddr, count: usize) -> Result<Times> {
    let file = lines(count, || chat(PROMPT, 16, false));
    let mut api = Api::at(gateway).await?;
    let began = Instant::now();
    let seconds = || began.elapsed().as_secs_f64();
    let file = api.upload(&file).await?;
    let uploaded = seconds();
    let batch = api.create(&file).await?;
    api.wait(&batch, WITHIN, |progress| progress.status != "validating").await?;
    let accepted = seconds();
    let all = count as u64;
    api.wait(&batch, WITHIN, |progress| progress.completed + progress.failed == all).await?;
    let answered = seconds();
    let end = api.wait(&batch, WITHIN, |progress| progress.status == "completed").await?;
    if end.completed != all {
        bail!("of {count} requests {} were answered well", end.completed);
    }
    Ok(Times { uploaded, accepted, answered, ended: seconds() })
}

/// Requests per second that the gateway relays without a batch.
async fn relay(bench: &Bench, gateway: &Process, origin: &Origin) -> Result<f64> {
    let body = chat(PROMPT, 16, false).to_string();
    let kind = "content-type: application/json\r\n";
    let load = ClosedLoop {
        clients: CLIENTS,
        request: Request::post("/v1/chat/completions", kind, body.as_bytes()),
        dialing: Dialing::default(),
        warm: bench.seconds(1.0),
        counted: bench.seconds(5.0),
    };
    let stretch = load.run(gateway, origin).await?;
    Ok(stretch.sent as f64 / stretch.seconds)
}
