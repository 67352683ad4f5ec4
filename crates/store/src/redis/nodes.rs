//! The servers that were named, and which of them takes writes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, FromRedisValue, IntoConnectionInfo as _,
    RedisResult, Value,
};
use tokio::sync::Notify;

use super::ear::Ear;
use super::error;
use super::link::Line;
use crate::error::{ErrorKind, StoreError};

/// How long a server has to take a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// How long a server has to answer. A disk that is slow to flush may take seconds.
const RESPOND: Duration = Duration::from_secs(5);

/// The servers.
pub(super) struct Nodes {
    nodes: Vec<Node>,
    cluster: bool,
    /// The one to be asked first.
    first: AtomicUsize,
    /// The one in use.
    used: AtomicUsize,
    ear: Ear,
}

struct Node {
    /// Its address as it may be shown: without a password.
    shown: String,
    info: ConnectionInfo,
}

/// An address without the user and the password in it.
pub(super) fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

// === impl Nodes ===

impl Nodes {
    /// The servers at these addresses.
    pub(super) fn new(urls: &[String], cluster: bool) -> Result<Self, StoreError> {
        if urls.is_empty() {
            return Err(StoreError::new(ErrorKind::Invalid, "no address of Redis is given"));
        }
        let node = |url: &String| {
            let shown = shown(url);
            let info = url.as_str().into_connection_info().map_err(|error| {
                let text = format!("{shown:?} is not an address of Redis: {error}");
                StoreError::new(ErrorKind::Invalid, text)
            })?;
            Ok(Node { shown, info })
        };
        let nodes = urls.iter().map(node).collect::<Result<_, StoreError>>()?;
        let (first, used) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Self { nodes, cluster, first, used, ear: Ear::default() })
    }

    /// Whether they are a cluster.
    pub(super) fn cluster(&self) -> bool {
        self.cluster
    }

    /// What is called when there is something new.
    pub(super) fn woken(&self) -> &Notify {
        self.ear.woken()
    }

    /// Hears of news again if it no longer does: from the server in use, or in a cluster from any,
    /// because each tells what is said to another.
    pub(super) async fn listen(&self) {
        let tries = if self.cluster { self.nodes.len() } else { 1 };
        for _ in 0..tries {
            let used = self.used.load(Ordering::Relaxed);
            let Some(node) = self.nodes.get(used % self.nodes.len()) else { return };
            if self.ear.mend(&node.info).await {
                return;
            }
            self.used.store(used + usize::from(self.cluster), Ordering::Relaxed);
        }
    }

    /// Asks another one first from now on.
    pub(super) fn distrust(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    /// Connects to the one that takes writes.
    pub(super) async fn find(&self) -> Result<Line, StoreError> {
        if self.cluster {
            let shown: Vec<&str> = self.nodes.iter().map(|node| node.shown.as_str()).collect();
            let line = self.join().await.map_err(|error| {
                let error = error::explain(&error);
                StoreError::new(error.kind, format!("{}: {error}", shown.join(", ")))
            })?;
            self.listen().await;
            return Ok(line);
        }
        let first = self.first.load(Ordering::Relaxed);
        let mut errors = Vec::new();
        for index in (0..self.nodes.len()).map(|index| (first + index) % self.nodes.len()) {
            let Some(node) = self.nodes.get(index) else { continue };
            match Self::open(node).await {
                Ok(line) => {
                    self.used.store(index, Ordering::Relaxed);
                    self.ear.turn_to(&node.info).await;
                    return Ok(line);
                }
                Err(error) => errors.push((&node.shown, error)),
            }
        }
        // What waiting does not help with is worth more than a server that is away.
        let mut kinds = errors.iter().map(|(_, error)| error.kind);
        let kind = kinds.find(|kind| *kind != ErrorKind::Unavailable);
        let texts: Vec<String> =
            errors.iter().map(|(shown, error)| format!("{shown}: {error}")).collect();
        Err(StoreError::new(kind.unwrap_or(ErrorKind::Unavailable), texts.join("; ")))
    }

    async fn open(node: &Node) -> Result<Line, StoreError> {
        let mut line = Self::dial(node).await.map_err(|error| error::explain(&error))?;
        match role(&mut line).await.map_err(|error| error::explain(&error))? {
            Some(role) if role != "master" => {
                return Err(StoreError::new(ErrorKind::Unavailable, format!("it is a {role}")));
            }
            _ => {}
        }
        let line = Line::One(line);
        line.teach().await.map_err(|error| error::explain(&error))?;
        Ok(line)
    }

    async fn dial(node: &Node) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(RESPOND));
        let client = Client::open(node.info.clone())?;
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn join(&self) -> RedisResult<Line> {
        let nodes = self.nodes.iter().map(|node| node.info.clone());
        let client = ClusterClientBuilder::new(nodes)
            .connection_timeout(CONNECT)
            .response_timeout(RESPOND)
            .build()?;
        let line = Line::Cluster(client.get_async_connection().await?);
        line.teach().await?;
        Ok(line)
    }
}

/// What a server is in its group, if it says.
async fn role(line: &mut MultiplexedConnection) -> RedisResult<Option<String>> {
    match redis::cmd("ROLE").query_async::<Vec<Value>>(line).await {
        Ok(answer) => {
            let role = answer.into_iter().next().unwrap_or(Value::Nil);
            Ok(Some(String::from_redis_value(role)?))
        }
        // A user who may not ask that is told by the first write.
        Err(error) if error.code() == Some("NOPERM") => Ok(None),
        Err(error) => Err(error),
    }
}
