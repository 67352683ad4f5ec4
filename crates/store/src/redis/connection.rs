//! The connection to the server that takes writes, with retries.
//!
//! Of several servers one is the primary, and a failover may change it at any time. When the
//! connection breaks, or the server replies that it is not the primary or not ready,
//! [`Topology`] finds the primary again. A verb retries for a few seconds by itself: every command
//! that it sends is safe to run twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use redis::{FromRedisValue, RedisError, RedisResult, Value};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::error::{Recovery, recovery};
use super::pipeline::{Command, Pipeline, pipelines};
use super::scripts::SCRIPTS;
use super::topology::Topology;
use crate::error::{ErrorKind, StoreError};

/// How long a verb retries by itself. A failover by an operator or a sentinel takes longer; then
/// the caller gets the error and decides.
const RETRY_TIME: Duration = Duration::from_secs(5);

/// The pause before the second attempt, and the maximum pause.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How long replicas have to acknowledge a write, in milliseconds.
const WAIT_MILLIS: u64 = 1000;

/// A connection that is established on first use, and again when it breaks.
pub(super) struct Connection {
    topology: Topology,
    cluster: bool,
    replicas: u32,
    established: Mutex<Option<Established>>,
    /// Counts the established connections. When many callers find one broken, only the first drops
    /// it.
    generation: AtomicUsize,
}

/// When a reply counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// When the primary has run the command.
    Primary,
    /// When the configured number of replicas has it, too.
    Replicated,
}

/// An open transport.
#[derive(Clone)]
pub(super) enum Transport {
    /// To one server.
    Single(MultiplexedConnection),
    /// To all servers of a cluster.
    Cluster(ClusterConnection),
}

/// The transport in use.
#[derive(Clone)]
pub(super) struct Established {
    generation: usize,
    transport: Transport,
}

/// A failed attempt.
struct Failure {
    retry: bool,
    error: StoreError,
}

/// Why a pipeline failed.
enum SendError {
    /// The server or the connection failed.
    Redis(RedisError),
    /// Fewer replicas acknowledged the write than configured.
    TooFewReplicas { have: u32, want: u32 },
}

/// Converts a reply.
pub(super) fn parse<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|error| {
        StoreError::new(ErrorKind::Broken, format!("unexpected reply of Redis: {error}"))
            .caused_by(error)
    })
}

/// Converts the next of several replies.
pub(super) fn next<T: FromRedisValue>(
    values: &mut impl Iterator<Item = Value>,
) -> Result<T, StoreError> {
    parse(values.next().unwrap_or(Value::Nil))
}

// === impl Connection ===

impl Connection {
    /// A connection to these servers.
    pub(super) fn new(topology: Topology, replicas: u32) -> Self {
        let (cluster, generation) = (topology.is_cluster(), AtomicUsize::new(0));
        Self { topology, cluster, replicas, established: Mutex::new(None), generation }
    }

    /// Whether the servers are configured as a cluster.
    pub(super) fn is_cluster(&self) -> bool {
        self.cluster
    }

    /// Notified when the queues may have changed.
    pub(super) fn changed(&self) -> &Notify {
        self.topology.changed()
    }

    /// Subscribes to changes, if the subscription broke.
    pub(super) async fn ensure_subscribed(&self) {
        self.topology.ensure_subscribed().await;
    }

    /// Runs commands, and returns their replies in order. In a cluster the commands may run in
    /// another order.
    pub(super) async fn run(
        &self,
        commands: Vec<Command>,
        durability: Durability,
    ) -> Result<std::vec::IntoIter<Value>, StoreError> {
        if commands.is_empty() {
            return Ok(Vec::new().into_iter());
        }
        let replicas = if durability == Durability::Replicated { self.replicas } else { 0 };
        let mut pipelines = pipelines(commands, self.cluster);
        if replicas > 0 {
            for pipeline in &mut pipelines {
                // WAIT only covers the writes of its own connection.
                pipeline.commands.cmd("WAIT").arg(replicas).arg(WAIT_MILLIS);
            }
        }
        let (give_up, mut pause) = (Instant::now() + RETRY_TIME, PAUSE);
        loop {
            match self.attempt(&pipelines, replicas).await {
                Ok(values) => return Ok(values.into_iter()),
                Err(Failure { retry: true, .. }) if Instant::now() + pause < give_up => {
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(Failure { error, .. }) => return Err(error),
            }
        }
    }

    /// Runs one command, and converts its reply.
    pub(super) async fn query<T: FromRedisValue>(
        &self,
        command: Command,
        durability: Durability,
    ) -> Result<T, StoreError> {
        next(&mut self.run(vec![command], durability).await?)
    }

    async fn attempt(&self, pipelines: &[Pipeline], replicas: u32) -> Result<Vec<Value>, Failure> {
        let established = self.established().await.map_err(|error| {
            let retry = error.kind == ErrorKind::Unavailable;
            Failure { retry, error }
        })?;
        let error = match established.transport.send(pipelines, replicas).await {
            Ok(values) => return Ok(values),
            Err(error) => error,
        };
        let retry = match error.recovery() {
            Recovery::LoadScripts => established.transport.load_scripts().await.is_ok(),
            Recovery::Reconnect => {
                self.disconnect(established.generation).await;
                true
            }
            Recovery::None => false,
        };
        Err(Failure { retry, error: error.into() })
    }

    /// The transport, which is opened if there is none.
    pub(super) async fn established(&self) -> Result<Established, StoreError> {
        let mut established = self.established.lock().await;
        if let Some(established) = &*established {
            return Ok(established.clone());
        }
        let transport = self.topology.connect().await?;
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        let new = Established { generation, transport };
        *established = Some(new.clone());
        Ok(new)
    }

    /// Drops a transport, unless another caller has replaced it.
    async fn disconnect(&self, generation: usize) {
        let mut established = self.established.lock().await;
        if established.as_ref().is_some_and(|current| current.generation == generation) {
            self.topology.try_next_server_first();
            *established = None;
        }
    }
}

// === impl SendError ===

impl SendError {
    fn recovery(&self) -> Recovery {
        match self {
            Self::Redis(error) => recovery(error),
            // The server may be a former primary without replicas.
            Self::TooFewReplicas { .. } => Recovery::Reconnect,
        }
    }
}

impl From<SendError> for StoreError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Redis(error) => error.into(),
            SendError::TooFewReplicas { have, want } => Self::new(
                ErrorKind::Unavailable,
                format!("{have} of {want} required replicas have the write: it may be lost"),
            ),
        }
    }
}

// === impl Transport ===

impl Transport {
    /// Sends pipelines concurrently. With `replicas`, each ends with a WAIT.
    async fn send(&self, pipelines: &[Pipeline], replicas: u32) -> Result<Vec<Value>, SendError> {
        if let [pipeline] = pipelines {
            return self.send_one(pipeline, replicas).await;
        }
        let mut tasks = JoinSet::new();
        for pipeline in pipelines.iter().cloned() {
            let transport = self.clone();
            tasks.spawn(async move {
                let replies = transport.send_one(&pipeline, replicas).await?;
                Ok(pipeline.positions.into_iter().zip(replies).collect::<Vec<_>>())
            });
        }
        let mut replies = Vec::new();
        while let Some(Ok(some)) = tasks.join_next().await {
            replies.extend(some?);
        }
        replies.sort_by_key(|(position, _)| *position);
        Ok(replies.into_iter().map(|(_, reply)| reply).collect())
    }

    async fn send_one(&self, pipeline: &Pipeline, replicas: u32) -> Result<Vec<Value>, SendError> {
        let mut replies = self.exchange(pipeline).await.map_err(SendError::Redis)?;
        for reply in &replies {
            if let Value::ServerError(error) = reply {
                return Err(SendError::Redis(RedisError::from(error.clone())));
            }
        }
        if replicas == 0 {
            return Ok(replies);
        }
        let have = replies.pop().unwrap_or(Value::Nil);
        let have = u32::from_redis_value(have).unwrap_or_default();
        if have < replicas {
            return Err(SendError::TooFewReplicas { have, want: replicas });
        }
        Ok(replies)
    }

    async fn exchange(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let count = pipeline.commands.len();
        match self.clone() {
            Self::Single(mut transport) => {
                transport.send_packed_commands(&pipeline.commands, 0, count).await
            }
            Self::Cluster(mut transport) => {
                let route = Route::new(pipeline.slot, SlotAddr::Master);
                let route = SingleNodeRoutingInfo::SpecificNode(route);
                transport.route_pipeline(pipeline.commands.clone(), 0, count, route).await
            }
        }
    }

    /// Loads all scripts into the server.
    pub(super) async fn load_scripts(&self) -> RedisResult<()> {
        for script in SCRIPTS.all() {
            match self.clone() {
                Self::Single(mut transport) => script.load_async(&mut transport).await?,
                Self::Cluster(mut transport) => script.load_async(&mut transport).await?,
            };
        }
        Ok(())
    }
}
