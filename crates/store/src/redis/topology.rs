//! The configured servers, and which of them takes writes.
//!
//! There are three topologies: one primary among several addresses, found by `ROLE`; one primary
//! that sentinels name; and a cluster, whose client library follows its slots.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClientBuilder;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, FromRedisValue,
    IntoConnectionInfo as _, RedisResult, TlsCertificates, Value,
};
use tokio::sync::Notify;

use super::connection::Transport;
use super::sentinel;
use super::settings::RedisSettings;
use super::subscription::Subscription;
use crate::error::{ErrorKind, StoreError};

/// How long a server has to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server has to reply. A disk that is slow to flush may take seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The configured servers.
pub(super) struct Topology {
    servers: Vec<Server>,
    cluster: bool,
    /// The name by which the servers, which are sentinels then, know the primary.
    service: Option<String>,
    /// The primary that a sentinel named last.
    named: Mutex<Option<ConnectionInfo>>,
    /// The root certificates of the other servers of a cluster.
    certificates: Option<TlsCertificates>,
    /// The index of the server to try first.
    first: AtomicUsize,
    /// The index of the server in use.
    used: AtomicUsize,
    subscription: Subscription,
}

pub(super) struct Server {
    /// The address without a password.
    pub(super) shown: String,
    pub(super) info: ConnectionInfo,
}

/// An address without user and password.
pub(super) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

// === impl Topology ===

impl Topology {
    /// The servers at these addresses.
    pub(super) fn new(settings: &RedisSettings) -> Result<Self, StoreError> {
        let RedisSettings { urls, cluster, sentinel, roots, .. } = settings;
        if urls.is_empty() {
            return Err(StoreError::new(ErrorKind::Invalid, "no address of Redis is configured"));
        }
        let certificates = roots
            .as_ref()
            .map(|roots| TlsCertificates { client_tls: None, root_cert: Some(roots.clone()) });
        let server = |url: &String| Server::new(url, certificates.as_ref());
        let servers = urls.iter().map(server).collect::<Result<_, StoreError>>()?;
        let (first, used) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Self {
            servers,
            cluster: *cluster,
            service: sentinel.clone(),
            named: Mutex::default(),
            certificates,
            first,
            used,
            subscription: Subscription::default(),
        })
    }

    /// Whether the servers are a cluster.
    pub(super) fn is_cluster(&self) -> bool {
        self.cluster
    }

    /// Notified when the queues may have changed.
    pub(super) fn changed(&self) -> &Notify {
        self.subscription.changed()
    }

    /// Subscribes again if the subscription broke: to the server in use, or in a cluster to any
    /// server, because a cluster forwards publications to all of its servers.
    pub(super) async fn ensure_subscribed(&self) {
        if self.service.is_some() {
            let named = self.named.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(primary) = named {
                self.subscription.ensure(&primary).await;
            }
            return;
        }
        let attempts = if self.cluster { self.servers.len() } else { 1 };
        for _ in 0..attempts {
            let used = self.used.load(Ordering::Relaxed);
            let Some(server) = self.servers.get(used % self.servers.len()) else { return };
            if self.subscription.ensure(&server.info).await {
                return;
            }
            self.used.store(used + usize::from(self.cluster), Ordering::Relaxed);
        }
    }

    /// Makes the next connection try another server first.
    pub(super) fn try_next_server_first(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    /// Connects to the server that takes writes, or to the cluster.
    pub(super) async fn connect(&self) -> Result<Transport, StoreError> {
        if self.cluster { self.connect_cluster().await } else { self.connect_primary().await }
    }

    async fn connect_cluster(&self) -> Result<Transport, StoreError> {
        let transport = self.open_cluster().await.map_err(|error| {
            let shown: Vec<&str> = self.servers.iter().map(|server| &*server.shown).collect();
            StoreError::from(error).describe(|text| format!("{}: {text}", shown.join(", ")))
        })?;
        self.ensure_subscribed().await;
        Ok(transport)
    }

    async fn open_cluster(&self) -> RedisResult<Transport> {
        let servers = self.servers.iter().map(|server| server.info.clone());
        let builder = ClusterClientBuilder::new(servers)
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(RESPONSE_TIMEOUT);
        let builder = match &self.certificates {
            Some(certificates) => builder.certs(certificates.clone()),
            None => builder,
        };
        let client = builder.build()?;
        let transport = Transport::Cluster(client.get_async_connection().await?);
        transport.load_scripts().await?;
        Ok(transport)
    }

    async fn connect_primary(&self) -> Result<Transport, StoreError> {
        let first = self.first.load(Ordering::Relaxed);
        let mut errors = Vec::new();
        for index in (0..self.servers.len()).map(|index| (first + index) % self.servers.len()) {
            let Some(server) = self.servers.get(index) else { continue };
            match self.connect_by(server).await {
                Ok((transport, primary)) => {
                    self.used.store(index, Ordering::Relaxed);
                    self.subscription.subscribe(&primary).await;
                    return Ok(transport);
                }
                Err(error) => errors.push(error.describe(|text| server.explain(text))),
            }
        }
        Err(most_serious(errors))
    }

    /// Connects to a server, or to the primary that it names as a sentinel.
    async fn connect_by(&self, server: &Server) -> Result<(Transport, ConnectionInfo), StoreError> {
        let Some(service) = &self.service else {
            return Ok((server.connect_if_primary().await?, server.info.clone()));
        };
        let primary = sentinel::primary(server, service).await?;
        let connected = primary.connect_if_primary().await;
        let transport = connected.map_err(|error| error.describe(|text| primary.explain(text)))?;
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        *named = Some(primary.info.clone());
        Ok((transport, primary.info))
    }
}

/// Joins the errors of all servers. An error that a retry does not help with determines the kind.
fn most_serious(errors: Vec<StoreError>) -> StoreError {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let helped_by_retry = |error: &StoreError| error.kind == ErrorKind::Unavailable;
    let worst = errors.into_iter().min_by_key(helped_by_retry);
    let worst = worst.unwrap_or_else(|| StoreError::new(ErrorKind::Unavailable, ""));
    worst.describe(|_| texts.join("; "))
}

// === impl Server ===

impl Server {
    fn new(url: &str, certificates: Option<&TlsCertificates>) -> Result<Self, StoreError> {
        let shown = without_password(url);
        let info = Self::info(url, certificates).map_err(|error| {
            let text = format!("{shown:?} is not an address of Redis: {error}");
            StoreError::new(ErrorKind::Invalid, text).caused_by(error)
        })?;
        Ok(Self { shown, info })
    }

    /// How to connect, with these root certificates if the address has TLS.
    fn info(url: &str, certificates: Option<&TlsCertificates>) -> RedisResult<ConnectionInfo> {
        let info = url.into_connection_info()?;
        match certificates {
            Some(certificates) if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) => {
                let client = Client::build_with_tls(info, certificates.clone())?;
                Ok(client.get_connection_info().clone())
            }
            _ => Ok(info),
        }
    }

    /// An error of this server. rustls does not say what to do about an unknown issuer.
    fn explain(&self, text: &str) -> String {
        let shown = &self.shown;
        if text.contains("UnknownIssuer") {
            let hint = "name the certificate of its issuer in ca_file";
            return format!("{shown}: its certificate has an issuer that is not trusted: {hint}");
        }
        format!("{shown}: {text}")
    }

    async fn connect_if_primary(&self) -> Result<Transport, StoreError> {
        let mut connection = self.open().await?;
        match role(&mut connection).await? {
            Some(role) if role != "master" => {
                return Err(StoreError::new(
                    ErrorKind::Unavailable,
                    format!("its role is {role}, not master"),
                ));
            }
            _ => {}
        }
        let transport = Transport::Single(connection);
        transport.load_scripts().await?;
        Ok(transport)
    }

    pub(super) async fn open(&self) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let client = Client::open(self.info.clone())?;
        client.get_multiplexed_async_connection_with_config(&config).await
    }
}

/// The role of a server in its replication group; `None` when the user may not ask.
async fn role(connection: &mut MultiplexedConnection) -> RedisResult<Option<String>> {
    match redis::cmd("ROLE").query_async::<Vec<Value>>(connection).await {
        Ok(reply) => {
            let role = reply.into_iter().next().unwrap_or(Value::Nil);
            Ok(Some(String::from_redis_value(role)?))
        }
        // Then the first write reveals a replica.
        Err(error) if error.code() == Some("NOPERM") => Ok(None),
        Err(error) => Err(error),
    }
}
