//! The queue and the backends on D-Bus, under the names of an existing Ollama proxy.
//!
//! The services are read-only and show what `admin` shows. They run on a thread of their own and
//! answer one call at a time, so that a flood of calls delays only the bus. If the bus is absent,
//! disappears or refuses the name, the gateway logs it once and tries again; it serves requests
//! meanwhile.

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
use crate::config::settings::Bus;
use crate::state::State;
use crate::task;
use backends::BackendsService;
use routing::RoutingService;

/// Counts by name.
type Counts = BTreeMap<&'static str, u32>;

/// The name of each service, which is also its interface, and the path of its object.
const BACKENDS: (&str, &str) = ("ie.fio.OllamaProxy.Backends", "/ie/fio/OllamaProxy/Backends");
const ROUTING: (&str, &str) = ("ie.fio.OllamaProxy.Routing", "/ie/fio/OllamaProxy/Routing");

/// The time limit for connecting to a bus.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The first and the longest pause between two attempts.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Why the services are not on the bus.
#[derive(Clone, Debug)]
enum DbusError {
    /// The bus cannot be reached.
    Absent(String),
    /// The bus does not respond.
    Silent,
    /// The bus refuses the name.
    Denied(&'static str, String),
    /// Any other error.
    Other(String),
}

/// The pause between two attempts.
#[derive(Debug)]
struct Backoff(Duration);

/// Serves on a bus until the gateway ends.
pub(crate) fn serve(state: Arc<State>, bus: Bus) {
    let runtime = match task::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "D-Bus services not started"),
    };
    runtime.block_on(async {
        tokio::select! {
            _ = state.ended() => {}
            () = stay_connected(&state, bus) => {}
        }
    });
}

/// Connects, and reconnects after each loss.
async fn stay_connected(state: &Arc<State>, bus: Bus) {
    let mut backoff = Backoff(WAIT_MIN);
    let mut warned = None;
    loop {
        let began = Instant::now();
        match connect(state, bus).await {
            Ok(connection) => {
                info!("D-Bus services are on the {bus} bus");
                warned = None;
                connection.closed().await;
                warn!("the {bus} bus has gone; reconnecting");
            }
            Err(error) => {
                // Once per kind of error: the text may differ each time, because it contains the
                // connection's number.
                let kind = Some(discriminant(&error));
                if warned != kind {
                    warn!("D-Bus services are not on the {bus} bus: {error}; trying again");
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

/// Requests a name. If another program owns it, the bus gives it to this one when that program
/// ends.
async fn request(connection: &Connection, bus: Bus, name: &'static str) -> Result<(), DbusError> {
    let wanted = connection.request_name_with_flags(name, RequestNameFlags::empty()).await;
    match wanted {
        Ok(RequestNameReply::InQueue) => {
            warn!(
                "{name} is taken on the {bus} bus, perhaps by another gateway: \
                 this gateway gets it when that one ends"
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

/// The backend with this id.
fn find(state: &State, id: &str) -> fdo::Result<admin::BackendEntry> {
    let (_, entries) = admin::status(state);
    entries.into_iter().find(|entry| entry.id == id).ok_or_else(|| {
        fdo::Error::InvalidArgs("no backend has this id; ListBackends lists them".into())
    })
}

/// A number in the source's type.
fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

// === impl Backoff ===

impl Backoff {
    /// The pause after a connection that lasted for `lasted`. A bus that accepts and then drops the
    /// connection is asked ever less often, like an absent one.
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
            Self::Silent => write!(f, "no response within {} s", ANSWER_MAX.as_secs()),
            Self::Denied(name, why) => write!(
                f,
                "it does not let this user have the name {name} ({why}); \
                 docs/GATEWAY.md has the policy that it needs"
            ),
        }
    }
}
