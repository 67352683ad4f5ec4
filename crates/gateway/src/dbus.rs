//! The queue and the backends on D-Bus, under the names that the source's users type.
//!
//! Everything is read from what `admin` shows; nothing can be changed from here. It has a thread of
//! its own and answers one call after another, so that whoever asks too much waits for it alone. A
//! bus that is not there, goes away or refuses is told to the log once and tried again; the gateway
//! serves without it.

mod backends;
mod routing;
mod variant;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};
use zbus::Connection;
use zbus::connection::Builder;
use zbus::fdo::{self, RequestNameFlags, RequestNameReply};

use crate::admin;
use crate::config::resolved::Bus;
use crate::state::State;
use crate::task;
use backends::BackendsService;
use routing::RoutingService;

/// Numbers by their names.
type Counts = BTreeMap<&'static str, u32>;

/// Names of services and of their one interface, and where their one object is.
const BACKENDS: (&str, &str) = ("ie.fio.OllamaProxy.Backends", "/ie/fio/OllamaProxy/Backends");
const ROUTING: (&str, &str) = ("ie.fio.OllamaProxy.Routing", "/ie/fio/OllamaProxy/Routing");

/// How long a bus may take until it has taken us in.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Between two attempts: at first, and at most.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Why nothing is shown on the bus.
#[derive(Clone, Debug)]
enum DbusError {
    /// It cannot be reached.
    Absent(String),
    /// It says nothing.
    Silent,
    /// It does not let us have the name.
    Denied(&'static str, String),
    /// Something else went wrong.
    Other(String),
}

/// How long to wait between two attempts.
#[derive(Debug)]
struct Backoff(Duration);

/// Shows the queue and the backends on a bus until the gateway ends.
pub(crate) fn serve(state: Arc<State>, bus: Bus) {
    let runtime = match task::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "nothing is shown on D-Bus"),
    };
    runtime.block_on(async {
        tokio::select! {
            _ = state.ended() => {}
            () = stay_connected(&state, bus) => {}
        }
    });
}

/// Connects, and again whenever the connection is lost, for ever.
async fn stay_connected(state: &Arc<State>, bus: Bus) {
    let mut backoff = Backoff(WAIT_MIN);
    let mut warned = None;
    loop {
        let began = Instant::now();
        match connect(state, bus).await {
            Ok(connection) => {
                info!("the queue and the backends are shown on the {bus} bus");
                warned = None;
                connection.closed().await;
                warn!("the {bus} bus has gone, it is tried again");
            }
            Err(error) => {
                // Once for each kind: its words may differ each time, by the number we had there.
                let kind = Some(discriminant(&error));
                if warned != kind {
                    warn!("nothing is shown on the {bus} bus: {error}; it is tried again");
                    warned = kind;
                }
            }
        }
        sleep(backoff.next(began.elapsed())).await;
    }
}

async fn connect(state: &Arc<State>, bus: Bus) -> Result<Connection, DbusError> {
    let connecting = async {
        let builder = match bus {
            Bus::Session => Builder::session(),
            Bus::System => Builder::system(),
        };
        let served = builder
            .serve_at(BACKENDS.1, BackendsService(Arc::clone(state)))
            .serve_at(ROUTING.1, RoutingService(Arc::clone(state)));
        let connection = served.build().await.map_err(|error| DbusError::of(error, bus))?;
        for (name, _) in [BACKENDS, ROUTING] {
            request(&connection, bus, name).await?;
        }
        Ok(connection)
    };
    timeout(ANSWER_MAX, connecting).await.unwrap_or(Err(DbusError::Silent))
}

/// Asks for a name. Where somebody has it, the bus hands it on when that one ends.
async fn request(connection: &Connection, bus: Bus, name: &'static str) -> Result<(), DbusError> {
    let wanted = connection.request_name_with_flags(name, RequestNameFlags::empty()).await;
    match wanted {
        Ok(RequestNameReply::InQueue) => {
            warn!(
                "{name} is taken on the {bus} bus, perhaps by another gateway: \
                 it is ours when that one ends"
            );
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(zbus::Error::FDO(error)) if matches!(*error, fdo::Error::AccessDenied(_)) => {
            Err(DbusError::Denied(name, error.to_string()))
        }
        Err(error) => Err(DbusError::of(error, bus)),
    }
}

/// The backend of this id.
fn find(state: &State, id: &str) -> fdo::Result<admin::BackendEntry> {
    let (_, entries) = admin::status(state);
    entries.into_iter().find(|entry| entry.id == id).ok_or_else(|| {
        fdo::Error::InvalidArgs("no backend has this id; ListBackends tells which there are".into())
    })
}

/// A number as the source sends it.
fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

// === impl Backoff ===

impl Backoff {
    /// The pause after an attempt that went well for so long. A bus that takes us in and throws us
    /// out again is asked ever less often, like one that is not there.
    fn next(&mut self, lasted: Duration) -> Duration {
        let pause = if lasted >= WAIT_MAX { WAIT_MIN } else { self.0 };
        self.0 = (pause * 2).min(WAIT_MAX);
        pause
    }
}

// === impl DbusError ===

impl DbusError {
    fn of(error: zbus::Error, bus: Bus) -> Self {
        let variable = match bus {
            Bus::Session => "DBUS_SESSION_BUS_ADDRESS",
            Bus::System => "DBUS_SYSTEM_BUS_ADDRESS",
        };
        match error {
            zbus::Error::Connection(..) | zbus::Error::Address(_) => Self::Absent(format!(
                "{error}; start that bus, say in {variable} where it is, \
                 or set dbus.enabled = false"
            )),
            other => Self::Other(other.to_string()),
        }
    }
}

impl fmt::Display for DbusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(why) | Self::Other(why) => f.write_str(why),
            Self::Silent => write!(f, "it has not answered for {} s", ANSWER_MAX.as_secs()),
            Self::Denied(name, why) => write!(
                f,
                "it does not let this user have the name {name} ({why}); \
                 docs/GATEWAY.md has the policy that it needs"
            ),
        }
    }
}
