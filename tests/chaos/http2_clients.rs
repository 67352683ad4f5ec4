//! Clients over HTTP/2: many streams on a connection, some of which are reset, stall, or end with
//! their connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use super::ledger::{ClientOutcome, Entry};
use super::traffic::{Fresh, Traffic};
use crate::support::Random;
use crate::support::wait::BOUND;

const STREAMS_MAX: u64 = 12;
const STAY_MILLIS: u64 = 150;
const STALL_MILLIS: u64 = 1500;
/// The window of a stream, in bytes: less than the shortest response.
const WINDOW_SMALL: u32 = 16;

type Sender = SendRequest<Full<Bytes>>;

/// How the client of a stream acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Patient,
    /// Resets the stream after this time.
    Leaving(Duration),
    /// Reads nothing for this time after the head.
    Stalling(Duration),
}

/// Runs so many connections at a time until the traffic ends.
pub(super) fn run(traffic: &Arc<Traffic>, connections: usize, mut random: Random) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = LocalSet::new();
    for _ in 0..connections {
        let (traffic, mut random) = (Arc::clone(traffic), random.fork());
        local.spawn_local(async move {
            while !traffic.is_over() {
                connect(&traffic, &mut random).await;
            }
        });
    }
    runtime.block_on(local);
}

/// One connection with some streams at once. Sometimes it is closed before they end.
async fn connect(traffic: &Arc<Traffic>, random: &mut Random) {
    let stream = TcpStream::connect(traffic.address).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    // In a small window most of a response stays unread at the gateway while a client stalls.
    if random.below(2) == 0 {
        builder.initial_stream_window_size(WINDOW_SMALL);
    }
    let Ok((sender, connection)) = builder.handshake(TokioIo::new(stream)).await else { return };
    let connection = tokio::task::spawn_local(connection);
    let leaves = random.below(6) == 0;
    let mut streams = JoinSet::new();
    for _ in 0..=random.below(STREAMS_MAX) {
        let fresh = traffic.fresh(random);
        let manner = Manner::draw(random);
        let (traffic, sender) = (Arc::clone(traffic), sender.clone());
        streams.spawn_local(async move {
            let outcome = ask(sender, &fresh, manner).await;
            let left = leaves && !matches!(outcome.outcome, ClientOutcome::Answered(_));
            traffic.record(if left { Entry::of(&fresh, ClientOutcome::Left) } else { outcome });
        });
    }
    drop(sender);
    if leaves {
        sleep(Duration::from_millis(random.below(STAY_MILLIS))).await;
        connection.abort();
    }
    while let Some(ended) = streams.join_next().await {
        ended.unwrap();
    }
    connection.abort();
}

async fn ask(mut sender: Sender, fresh: &Fresh, manner: Manner) -> Entry {
    let request = http2_request(fresh);
    let exchange = async {
        if sender.ready().await.is_err() {
            // The connection ended before the request was sent.
            return Entry::of(fresh, ClientOutcome::Left);
        }
        let Ok(response) = sender.send_request(request).await else {
            return Entry::of(fresh, ClientOutcome::Silent);
        };
        if let Manner::Stalling(time) = manner {
            sleep(time).await;
        }
        let status = response.status().as_u16();
        match response.into_body().collect().await {
            Ok(body) => Entry::answered(fresh, status, &body.to_bytes()),
            Err(_) => Entry::of(fresh, ClientOutcome::Cut),
        }
    };
    match manner {
        Manner::Leaving(time) => {
            let ended = timeout(time, exchange).await;
            ended.unwrap_or_else(|_| Entry::of(fresh, ClientOutcome::Left))
        }
        _ => timeout(BOUND, exchange).await.unwrap_or_else(|_| panic!("no answer: {}", fresh.id)),
    }
}

fn http2_request(fresh: &Fresh) -> Request<Full<Bytes>> {
    let mut request = Request::post(format!("http://tidegate{}", fresh.request.path));
    for (name, value) in &fresh.request.headers {
        request = request.header(name, value);
    }
    request.body(Full::from(fresh.request.body.clone())).unwrap()
}

// === impl Manner ===

impl Manner {
    fn draw(random: &mut Random) -> Self {
        match random.below(10) {
            0 => Self::Leaving(Duration::from_millis(random.below(STAY_MILLIS))),
            1 => Self::Stalling(Duration::from_millis(random.below(STALL_MILLIS))),
            _ => Self::Patient,
        }
    }
}
