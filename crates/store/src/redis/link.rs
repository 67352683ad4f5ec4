//! The way to the server that takes writes, wherever it is.
//!
//! Of several servers one is the primary, and which one may change at any time. When the way
//! breaks, or the server says that it is not the one (or not yet), the others are asked. A verb
//! tries again for a while by itself; everything it sends is safe to be done twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use redis::{FromRedisValue, RedisError, RedisResult, Value};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::error::{self, Remedy};
use super::nodes::Nodes;
use super::scripts::SCRIPTS;
use super::step::{Parcel, Step, parcels};
use crate::error::{ErrorKind, StoreError};

/// How long a verb tries by itself. A failover that a person or a sentinel decides on takes longer;
/// then whoever asked hears that the server is away, and decides.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits before the second try, and at most before any.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How long replicas have to say that they have a write, in milliseconds.
const WAIT_MILLIS: u64 = 1000;

/// The way to the server.
pub(super) struct Link {
    nodes: Nodes,
    cluster: bool,
    replicas: u32,
    wire: Mutex<Option<Wire>>,
    /// Counts the wires, so that of many who find one broken only the first cuts it.
    number: AtomicUsize,
}

/// What must be true before an answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The server did it.
    Here,
    /// The replicas have it, too, as many as were asked for.
    Safely,
}

/// An open connection.
#[derive(Clone)]
pub(super) enum Line {
    /// To one server.
    One(MultiplexedConnection),
    /// To all of a cluster.
    Cluster(ClusterConnection),
}

/// The connection in use.
#[derive(Clone)]
pub(super) struct Wire {
    number: usize,
    line: Line,
}

/// A try that failed.
struct Failure {
    again: bool,
    error: StoreError,
}

/// What an answer says.
pub(super) fn said<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|error| {
        StoreError::new(ErrorKind::Broken, format!("Redis answered something else: {error}"))
    })
}

/// The next of several answers.
pub(super) fn next<T: FromRedisValue>(
    values: &mut impl Iterator<Item = Value>,
) -> Result<T, StoreError> {
    said(values.next().unwrap_or(Value::Nil))
}

// === impl Link ===

impl Link {
    /// A way to these servers, which is made when it is first needed.
    pub(super) fn new(nodes: Nodes, replicas: u32) -> Self {
        let cluster = nodes.cluster();
        Self { nodes, cluster, replicas, wire: Mutex::new(None), number: AtomicUsize::new(0) }
    }

    /// Whether they are said to be a cluster.
    pub(super) fn cluster(&self) -> bool {
        self.cluster
    }

    /// What is called when there is something new.
    pub(super) fn woken(&self) -> &Notify {
        self.nodes.woken()
    }

    /// Hears of news again if it no longer does.
    pub(super) async fn listen(&self) {
        self.nodes.listen().await;
    }

    /// Has all steps done. In a cluster their order is not kept.
    pub(super) async fn run(
        &self,
        steps: Vec<Step>,
        kept: Kept,
    ) -> Result<std::vec::IntoIter<Value>, StoreError> {
        if steps.is_empty() {
            return Ok(Vec::new().into_iter());
        }
        let replicas = if kept == Kept::Safely { self.replicas } else { 0 };
        let mut parcels = parcels(steps, self.cluster);
        if replicas > 0 {
            for parcel in &mut parcels {
                // On the same connection as the writes: it speaks of those alone.
                parcel.commands.cmd("WAIT").arg(replicas).arg(WAIT_MILLIS);
            }
        }
        let (patience, mut pause) = (Instant::now() + PATIENCE, PAUSE);
        loop {
            match self.attempt(&parcels, replicas).await {
                Ok(values) => return Ok(values.into_iter()),
                Err(Failure { again: true, .. }) if Instant::now() + pause < patience => {
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(Failure { error, .. }) => return Err(error),
            }
        }
    }

    /// Has one step done.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        step: Step,
        kept: Kept,
    ) -> Result<T, StoreError> {
        next(&mut self.run(vec![step], kept).await?)
    }

    async fn attempt(&self, parcels: &[Parcel], replicas: u32) -> Result<Vec<Value>, Failure> {
        let wire = self.wire().await.map_err(|error| {
            let again = error.kind == ErrorKind::Unavailable;
            Failure { again, error }
        })?;
        let failed = match wire.line.send(parcels, replicas).await {
            Ok(values) => return Ok(values),
            Err(failed) => failed,
        };
        let again = match failed.remedy() {
            Remedy::Teach => wire.line.teach().await.is_ok(),
            Remedy::LookAgain => {
                self.cut(wire.number).await;
                true
            }
            Remedy::None => false,
        };
        Err(Failure { again, error: failed.explain() })
    }

    /// The connection, which is made if there is none.
    pub(super) async fn wire(&self) -> Result<Wire, StoreError> {
        let mut wire = self.wire.lock().await;
        if let Some(wire) = &*wire {
            return Ok(wire.clone());
        }
        let line = self.nodes.find().await?;
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let made = Wire { number, line };
        *wire = Some(made.clone());
        Ok(made)
    }

    /// Gives a connection up, unless somebody else has made a new one.
    async fn cut(&self, number: usize) {
        let mut wire = self.wire.lock().await;
        if wire.as_ref().is_some_and(|wire| wire.number == number) {
            self.nodes.distrust();
            *wire = None;
        }
    }
}

/// Why a parcel did not arrive.
enum Failed {
    /// The server or the way to it.
    Said(RedisError),
    /// Fewer replicas have it than were asked for.
    Alone(u32, u32),
}

// === impl Failed ===

impl Failed {
    fn remedy(&self) -> Remedy {
        match self {
            Self::Said(error) => error::remedy(error),
            // It may be a primary of yesterday that nobody follows any more.
            Self::Alone(..) => Remedy::LookAgain,
        }
    }

    fn explain(&self) -> StoreError {
        match self {
            Self::Said(error) => error::explain(error),
            Self::Alone(have, want) => StoreError::new(
                ErrorKind::Unavailable,
                format!("{have} replicas have the write, and {want} must: it may be lost"),
            ),
        }
    }
}

// === impl Line ===

impl Line {
    /// Sends parcels, each with a question for replicas at its end if any are wanted.
    async fn send(&self, parcels: &[Parcel], replicas: u32) -> Result<Vec<Value>, Failed> {
        if let [parcel] = parcels {
            return self.deliver(parcel, replicas).await;
        }
        let mut under_way = JoinSet::new();
        for parcel in parcels.iter().cloned() {
            let line = self.clone();
            under_way.spawn(async move {
                let answers = line.deliver(&parcel, replicas).await?;
                Ok(parcel.places.into_iter().zip(answers).collect::<Vec<_>>())
            });
        }
        let mut answers = Vec::new();
        while let Some(Ok(some)) = under_way.join_next().await {
            answers.extend(some?);
        }
        answers.sort_by_key(|(place, _)| *place);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    async fn deliver(&self, parcel: &Parcel, replicas: u32) -> Result<Vec<Value>, Failed> {
        let mut answers = self.speak(parcel).await.map_err(Failed::Said)?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                return Err(Failed::Said(RedisError::from(error.clone())));
            }
        }
        if replicas == 0 {
            return Ok(answers);
        }
        let have = answers.pop().unwrap_or(Value::Nil);
        let have = u32::from_redis_value(have).unwrap_or_default();
        if have < replicas { Err(Failed::Alone(have, replicas)) } else { Ok(answers) }
    }

    async fn speak(&self, parcel: &Parcel) -> RedisResult<Vec<Value>> {
        let count = parcel.commands.len();
        match self.clone() {
            Self::One(mut line) => line.send_packed_commands(&parcel.commands, 0, count).await,
            Self::Cluster(mut line) => {
                let route = Route::new(parcel.slot, SlotAddr::Master);
                let route = SingleNodeRoutingInfo::SpecificNode(route);
                line.route_pipeline(parcel.commands.clone(), 0, count, route).await
            }
        }
    }

    /// Teaches the server all scripts.
    pub(super) async fn teach(&self) -> RedisResult<()> {
        for script in SCRIPTS.all() {
            match self.clone() {
                Self::One(mut line) => script.load_async(&mut line).await?,
                Self::Cluster(mut line) => script.load_async(&mut line).await?,
            };
        }
        Ok(())
    }
}
