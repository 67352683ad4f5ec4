//! The cheapest backend that can be told from a real one: raw TCP, fixed answers, kept connections.
//!
//! It answers whatever it is asked, after a delay if it has one: with a small JSON, or with a
//! stream of events if the body asks for one. It counts what only a backend can know: how many
//! requests it holds at once, and how long a free place stays empty.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::http1::{Ends, Head, Inbox};

/// How many events a stream has.
pub(crate) const EVENTS: usize = 64;
/// How a body begins that asks for a stream.
pub(crate) const STREAMED: &[u8] = br#"{"stream":true,"#;

const BACKLOG: u32 = 4096;

/// How the origin answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behaviour {
    /// How long it takes before it answers.
    pub(crate) delay: Option<Duration>,
    /// How many requests it answers at once before that.
    pub(crate) at_once: usize,
    /// How long it takes from one event of a stream to the next.
    pub(crate) pace: Option<Duration>,
    /// A stream has so many events, and each waits for [`Origin::step`].
    pub(crate) stepped: Option<usize>,
    /// Every so many requests are refused with 503, as a full engine does.
    pub(crate) full_every: Option<usize>,
}

/// A running backend; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    in_flight: AtomicUsize,
    in_flight_max: AtomicUsize,
    arrived: AtomicUsize,
    answered: AtomicUsize,
    sent: AtomicU64,
    freed: Mutex<Freed>,
    /// Wakes a stream whose next event may go.
    step: Notify,
}

/// Places that became free, and how long each stayed so.
#[derive(Debug, Default)]
struct Freed {
    last: Option<Instant>,
    gaps: Vec<f64>,
}

// === impl Origin ===

impl Origin {
    pub(crate) fn start(manner: Behaviour) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let accepting = tokio::spawn(accept(listener, manner, Arc::clone(&counts)));
        Ok(Self { address, counts, accepting })
    }

    /// The most requests it ever held at once.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.counts.in_flight_max.load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.counts.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn answered(&self) -> usize {
        self.counts.answered.load(Ordering::Relaxed)
    }

    /// How many answers it has sent, each event of a stream counted as one.
    pub(crate) fn sent(&self) -> u64 {
        self.counts.sent.load(Ordering::Relaxed)
    }

    /// Lets a stream send its next event.
    pub(crate) fn step(&self) {
        self.counts.step.notify_one();
    }

    /// Microseconds from an answer's last byte to the next request, since last asked.
    pub(crate) fn gaps(&self) -> Vec<f64> {
        std::mem::take(&mut *self.counts.freed()).gaps
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, manner: Behaviour, counts: Arc<Counts>) {
    // Aborted with the set, connections end when their backend does.
    let mut open = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        open.spawn(converse(stream, manner, Arc::clone(&counts)));
        while open.try_join_next().is_some() {}
    }
}

async fn converse(mut stream: TcpStream, manner: Behaviour, counts: Arc<Counts>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut inbox = Inbox::default();
    while let Some(head) = inbox.head(&mut stream).await? {
        let counted = inbox.bytes().starts_with(b"POST").then(|| Held::new(&counts));
        inbox.whole(head, &mut stream).await?;
        let streamed = body(inbox.bytes(), head).starts_with(STREAMED);
        inbox.forget();
        let nth = counted.as_ref().map_or(0, |held| held.nth);
        if nth > 0 && manner.full_every.is_some_and(|every| nth.is_multiple_of(every)) {
            stream.write_all(FULL).await?;
            continue;
        }
        if nth > manner.at_once
            && let Some(delay) = manner.delay
        {
            tokio::time::sleep(delay).await;
        }
        if streamed {
            stream_events(&mut stream, manner, &counts).await?;
        } else {
            stream.write_all(JSON).await?;
            counts.sent.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(held) = counted {
            held.answered();
        }
    }
    Ok(())
}

/// The body, or its first chunk.
fn body(message: &[u8], head: Head) -> &[u8] {
    let body = &message[head.length..];
    match head.ends {
        Ends::After(_) => body,
        Ends::Chunked => {
            body.iter().position(|&byte| byte == b'\n').map_or(b"", |at| &body[at + 1..])
        }
    }
}

async fn stream_events(stream: &mut TcpStream, manner: Behaviour, counts: &Counts) -> Result<()> {
    stream.write_all(STREAM_HEAD).await?;
    for _ in 0..manner.stepped.unwrap_or(EVENTS) {
        match (manner.pace, manner.stepped) {
            (Some(pace), _) => tokio::time::sleep(pace).await,
            (None, Some(_)) => counts.step.notified().await,
            // Streams take turns, as those of an engine do.
            (None, None) => tokio::task::yield_now().await,
        }
        stream.write_all(EVENT).await?;
        counts.sent.fetch_add(1, Ordering::Relaxed);
    }
    Ok(stream.write_all(b"0\r\n\r\n").await?)
}

/// A request that the origin holds; not any more when this is dropped.
struct Held<'a> {
    counts: &'a Counts,
    /// How many requests had come with it.
    nth: usize,
}

// === impl Held ===

impl<'a> Held<'a> {
    fn new(counts: &'a Counts) -> Self {
        let now = 1 + counts.in_flight.fetch_add(1, Ordering::Relaxed);
        counts.in_flight_max.fetch_max(now, Ordering::Relaxed);
        let mut freed = counts.freed();
        if let Some(last) = freed.last.take() {
            freed.gaps.push(last.elapsed().as_secs_f64() * 1e6);
        }
        Self { counts, nth: 1 + counts.arrived.fetch_add(1, Ordering::Relaxed) }
    }

    fn answered(self) {
        self.counts.answered.fetch_add(1, Ordering::Relaxed);
        self.counts.freed().last = Some(Instant::now());
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Counts ===

impl Counts {
    fn freed(&self) -> std::sync::MutexGuard<'_, Freed> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const JSON: &[u8] = b"HTTP/1.1 200 OK\r\n\
content-type: application/json\r\n\
content-length: 260\r\n\
\r\n\
{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion\",\"created\":1700000000,\
\"model\":\"m\",\
\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"certainly\"},\
\"finish_reason\":\"stop\"}],\
\"usage\":{\"prompt_tokens\":233,\"completion_tokens\":1,\"total_tokens\":234}}\n";

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
content-length: 0\r\n\
\r\n";

const STREAM_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n\
content-type: text/event-stream\r\n\
transfer-encoding: chunked\r\n\
\r\n";

const EVENT: &[u8] = b"9a\r\n\
data: {\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
\"model\":\"m\",\
\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n\
\r\n";
