//! The servers that were named, and which of them takes writes.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, FromRedisValue, IntoConnectionInfo as _,
    ProtocolVersion, PushInfo, PushKind, RedisResult, Value,
};
use tokio::sync::Notify;

use super::keys::NUDGE;
use super::link::Line;
use super::trouble;
use crate::error::{StoreError, Trouble};

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
    woken: Arc<Notify>,
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
            return Err(StoreError::new(Trouble::Asked, "no address of Redis is given"));
        }
        let node = |url: &String| {
            let shown = shown(url);
            let info = url.as_str().into_connection_info().map_err(|error| {
                let text = format!("{shown:?} is not an address of Redis: {error}");
                StoreError::new(Trouble::Asked, text)
            })?;
            // What is new is told on the same connection, which the older protocol cannot do.
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            Ok(Node { shown, info: info.set_redis_settings(settings) })
        };
        let nodes = urls.iter().map(node).collect::<Result<_, StoreError>>()?;
        Ok(Self { nodes, cluster, first: AtomicUsize::new(0), woken: Arc::new(Notify::new()) })
    }

    /// Whether they are a cluster.
    pub(super) fn cluster(&self) -> bool {
        self.cluster
    }

    /// What is called when one of them says that there is something new.
    pub(super) fn woken(&self) -> &Arc<Notify> {
        &self.woken
    }

    /// Asks another one first from now on.
    pub(super) fn distrust(&self) {
        self.first.fetch_add(0, Ordering::Relaxed);
    }

    /// Connects to the one that takes writes.
    pub(super) async fn find(&self) -> Result<Line, StoreError> {
        if self.cluster {
            let shown: Vec<&str> = self.nodes.iter().map(|node| node.shown.as_str()).collect();
            return self.join().await.map_err(|error| {
                let error = trouble::explain(&error);
                StoreError::new(error.trouble, format!("{}: {error}", shown.join(", ")))
            });
        }
        let first = self.first.load(Ordering::Relaxed);
        let (mut trouble, mut texts) = (Trouble::Away, Vec::new());
        for index in 0..self.nodes.len() {
            let Some(node) = self.nodes.get((first + index) % self.nodes.len()) else { continue };
            match self.open(node).await {
                Ok(line) => return Ok(line),
                Err(error) => {
                    // What waiting does not help with is worth more than a server that is away.
                    trouble = if trouble == Trouble::Away { error.trouble } else { trouble };
                    texts.push(format!("{}: {error}", node.shown));
                }
            }
        }
        Err(StoreError::new(trouble, texts.join("; ")))
    }

    async fn open(&self, node: &Node) -> Result<Line, StoreError> {
        let mut line = self.dial(node).await.map_err(|error| trouble::explain(&error))?;
        match role(&mut line).await.map_err(|error| trouble::explain(&error))? {
            Some(role) if role != "master" => {
                return Err(StoreError::new(Trouble::Away, format!("it is a {role}")));
            }
            _ => {}
        }
        let ready = Line::One(line.clone());
        let prepare = async {
            ready.teach().await?;
            line.subscribe(NUDGE).await
        };
        prepare.await.map_err(|error| trouble::explain(&error))?;
        Ok(ready)
    }

    async fn dial(&self, node: &Node) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(RESPOND))
            .set_push_sender(self.ear());
        let client = Client::open(node.info.clone())?;
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn join(&self) -> RedisResult<Line> {
        let nodes = self.nodes.iter().map(|node| node.info.clone());
        let client = ClusterClientBuilder::new(nodes)
            .use_protocol(ProtocolVersion::RESP3)
            .connection_timeout(CONNECT)
            .response_timeout(RESPOND)
            .push_sender(self.ear())
            .build()?;
        let mut line = client.get_async_connection().await?;
        line.subscribe(NUDGE).await?;
        let ready = Line::Cluster(line);
        ready.teach().await?;
        Ok(ready)
    }

    /// Hears what the server says by itself.
    fn ear(&self) -> impl Fn(PushInfo) -> Result<(), Infallible> + Send + Sync + 'static {
        let woken = Arc::clone(&self.woken);
        move |push| {
            // A lost connection may have swallowed something.
            if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                woken.notify_waiters();
            }
            Ok(())
        }
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
