//! The engine on Redis, tested on real servers.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use self::server::{Redis, Reply, until};
use super::conformance::{Fixture, conformance};
use crate::{Body, ClaimRequest, Message, Moment, RedisSettings, RedisStore, Store};

mod cluster;
mod crash;
mod errors;
mod failover;
mod llm_d_async;
#[path = "../../../../tests/support/redis.rs"]
mod server;
mod subscription;
mod wire_format;

/// A store on a server of its own.
struct Alone {
    redis: Lent,
    store: Arc<RedisStore>,
}

/// A store on a cluster of one server, which refuses commands with keys in several slots.
struct Clustered {
    redis: Lent,
    store: Arc<RedisStore>,
}

/// A server that the next test of this thread uses again, because starting one takes time.
struct Lent(Option<Redis>, &'static Spare);

type Spare = std::thread::LocalKey<RefCell<Option<Redis>>>;

thread_local! {
    static ALONE: RefCell<Option<Redis>> = const { RefCell::new(None) };
    static CLUSTERED: RefCell<Option<Redis>> = const { RefCell::new(None) };
}

mod alone {
    super::conformance!(super::Alone);
}

mod clustered {
    super::conformance!(super::Clustered, one_test_of);
}

/// A message of the queue `q` whose deadline is in an hour.
fn message(id: &str, now: Moment) -> Message {
    Message {
        id: id.into(),
        queue: "q".into(),
        created: now,
        deadline: now.after(Duration::from_secs(3600)),
        body: Body::Bytes(format!(r#"{{"prompt":"{id}"}}"#).into()),
        ..Message::default()
    }
}

/// Requests messages of a tenant, for a lease of a minute.
fn want(queue: &str, tenant: &str, most: usize, now: Moment) -> ClaimRequest {
    let until = now.after(Duration::from_secs(60));
    ClaimRequest { queue: queue.into(), tenant: tenant.into(), limit: most, until }
}

/// The settings of a store on these servers.
fn settings(servers: &[&Redis]) -> RedisSettings {
    let urls = servers.iter().map(|server| server.url()).collect();
    RedisSettings { urls, ..RedisSettings::default() }
}

/// A store on one server.
async fn connect(redis: &Redis) -> Arc<RedisStore> {
    RedisStore::connect(settings(&[redis])).await.unwrap()
}

/// A store on a cluster.
async fn join(redis: &Redis) -> Arc<RedisStore> {
    let settings = RedisSettings { cluster: true, ..settings(&[redis]) };
    RedisStore::connect(settings).await.unwrap()
}

/// A cluster of one server.
fn cluster_of_one() -> Redis {
    let redis = Redis::start_with(&["--cluster-enabled", "yes"]);
    let slots = redis.call(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    assert_eq!(slots, Reply::Text("OK".into()));
    until("the cluster is ready", || {
        redis.call(&["CLUSTER", "INFO"]).texts()[0].contains("cluster_state:ok").then_some(())
    });
    redis
}

// === impl Lent ===

impl Lent {
    /// An empty server.
    fn new(spare: &'static Spare, start: fn() -> Redis) -> Self {
        let redis = spare.take().unwrap_or_else(start);
        assert_eq!(redis.call(&["FLUSHALL"]), Reply::Text("OK".into()));
        Self(Some(redis), spare)
    }

    fn redis(&self) -> &Redis {
        self.0.as_ref().unwrap()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.1.set(self.0.take());
        }
    }
}

// === impl Alone ===

impl Fixture for Alone {
    const OWNED: bool = false;
    const CANCELS_AT_ONCE: bool = false;

    async fn fresh() -> Self {
        let redis = Lent::new(&ALONE, Redis::start);
        Self { store: connect(redis.redis()).await, redis }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn reopen(self) -> Self {
        let Self { redis, store } = self;
        drop(store);
        Self { store: connect(redis.redis()).await, redis }
    }
}

// === impl Clustered ===

impl Fixture for Clustered {
    const OWNED: bool = false;
    const CANCELS_AT_ONCE: bool = false;

    async fn fresh() -> Self {
        let redis = Lent::new(&CLUSTERED, cluster_of_one);
        Self { store: join(redis.redis()).await, redis }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn reopen(self) -> Self {
        let Self { redis, store } = self;
        drop(store);
        Self { store: join(redis.redis()).await, redis }
    }
}
