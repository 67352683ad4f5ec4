//! The start and the end of a process: its listeners, its threads, its background tasks.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Runtime;

use crate::admin;
use crate::backend::GatewayIdentity;
use crate::clock;
use crate::config::settings::ServerTls;
use crate::config::{self, Config, ConfigError, Source};
#[cfg(feature = "dbus")]
use crate::dbus;
use crate::observe;
use crate::process_limits::OpenFiles;
use crate::state::State;
use crate::task;
use crate::tls_listener::TlsListener;
use crate::trace_export;
use crate::usage::Accounts;
use crate::wake;

/// Connections that the kernel queues until they are accepted.
const BACKLOG: i32 = 4096;

/// How long the end of the process waits until the last traces are sent.
const LAST_TRACES: Duration = Duration::from_secs(2);

/// A running gateway, picker or dispatcher. Dropping it does not end it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
    /// The runtime that waits for the signals to end.
    runtime: Runtime,
}

/// Why a process did not start.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is not valid.
    Config(ConfigError),
    /// A listener could not be opened; the flag or key names its address.
    Listen(SocketAddr, &'static str, io::Error),
    /// Another call of the system failed.
    System(io::Error),
    /// The configuration does not fit this command.
    Unfit(Box<dyn std::error::Error + Send + Sync>),
    /// A dispatcher has no queue.
    NothingToDispatch,
}

// === impl Running ===

impl Running {
    /// Starts the background threads. `addresses` are the process's own, by which it recognises
    /// itself among the backends. The certificates of `tls` are read again when they change.
    pub(crate) fn begin(
        config: Config,
        source: Option<Source>,
        (addresses, tls): (Vec<SocketAddr>, Option<Arc<TlsListener>>),
    ) -> Result<Self, StartError> {
        let state = State::new(config);
        open_accounts(&state)?;
        if let Some(tls) = &tls {
            // It is set once.
            let _ = state.tls.set(Arc::clone(tls));
        }
        let watched = Arc::clone(&state);
        let identity = GatewayIdentity { addresses, instance: state.standing().instance.into() };
        // A runtime opens files. All are open when the process tells its address.
        let (runtime, background) = (task::runtime()?, task::runtime()?);
        let watch = move || {
            background.block_on(watch_over((watched, tls), source, identity));
        };
        let mut threads = vec![spawn("tidegate-watch", watch)?];
        threads.extend(show_on_bus(&state)?);
        Ok(Self { state, threads, runtime })
    }

    /// Adds a thread that ends with the process.
    pub(crate) fn add(&mut self, thread: JoinHandle<()>) {
        self.threads.push(thread);
    }

    /// Ends the background threads after a failed start.
    pub(crate) fn give_up(self, why: StartError) -> StartError {
        self.state.close();
        self.state.cut_off();
        self.join();
        why
    }

    /// Waits until everything has ended.
    pub(crate) fn join(self) {
        for thread in self.threads {
            // A panic was logged by its thread; the others are joined all the same.
            let _ = thread.join();
        }
        // Each thread has cut its requests by now, which were work.
        if let Some(accounts) = self.state.observer.accounts() {
            accounts.write_last();
        }
        self.state.observer.flush();
    }

    /// Waits for SIGTERM or SIGINT, goes on for as long as it is to drain, then ends in order; a
    /// second signal ends it at once.
    pub(crate) fn run_until_signal(self, drain: fn(&Config) -> Duration) -> io::Result<()> {
        let mut signals = self.runtime.block_on(async { task::EndSignals::listen() })?;
        let name = self.runtime.block_on(signals.next());
        tracing::info!(signal = name, "shutting down; once more to cut streams off");
        self.runtime.block_on(async {
            tokio::select! {
                _ = signals.next() => {
                    self.state.close();
                    self.state.cut_off();
                }
                () = self.end(drain(&self.state.config.load())) => {}
            }
        });
        self.join();
        Ok(())
    }

    async fn end(&self, drain: Duration) {
        self.state.drain(drain).await;
        self.state.close();
        self.state.ended().await;
    }
}

/// Reads the configuration, and sets up the log before its first message. Problems of the
/// configuration are told in its format as well, as far as it can be known.
pub(crate) fn load(source: &Source) -> Result<Config, StartError> {
    let loaded = config::load(source);
    let log = match &loaded {
        Ok(config) => config.log.clone(),
        Err(_) => config::log_settings(source),
    };
    observe::log::init(&log, source.log_level.as_deref());
    let config = loaded?;
    if let Some(file) = &source.file {
        tracing::info!("configuration: {}", file.display());
    }
    Ok(config)
}

/// Prepares the process: log, file limit, notices of the configuration.
pub(crate) fn prepare(config: &Config) {
    observe::log::init(&config.log, None);
    OpenFiles::raise();
    let (files, configured) = (OpenFiles::now(), config.server.connections_max);
    if let Some(expected) = files.missing(configured) {
        tracing::warn!(
            connections = files.clients(configured),
            expected,
            open_files = files.most,
            "few connections of clients fit: the system lets the process open few files"
        );
    }
    if let Some(profile) = config.values.profile() {
        tracing::info!("the rules of profile {profile}; `tidegate check` shows them");
    }
    for notice in &config.notices {
        tracing::warn!("{notice}");
    }
}

/// Reads the certificates of a listener, if it has TLS.
pub(crate) fn open_tls(
    settings: Option<&ServerTls>,
) -> Result<Option<Arc<TlsListener>>, StartError> {
    let opened = settings.map(TlsListener::open).transpose();
    opened.map_err(|error| StartError::Unfit(format!("server.tls: {error}").into()))
}

pub(crate) fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    Ok(std::thread::Builder::new().name(name.into()).spawn(work)?)
}

/// The number of cores.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Opens as many listeners on one address as there are workers.
pub(crate) fn listen(
    (address, flag): (SocketAddr, &'static str),
    count: usize,
) -> Result<Vec<TcpListener>, StartError> {
    let refused = |error| StartError::Listen(address, flag, error);
    // A shared port would let a second gateway start unnoticed.
    let alone = bind(address, false).map_err(refused)?;
    let address = alone.local_addr().map_err(refused)?;
    drop(alone);
    (0..count.max(1)).map(|_| bind(address, true).map_err(refused)).collect()
}

/// The address of listeners.
pub(crate) fn address(listeners: &[TcpListener]) -> io::Result<SocketAddr> {
    listeners.first().ok_or(io::ErrorKind::AddrNotAvailable)?.local_addr()
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait until the kernel forgets the last connections.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Runs the background tasks until the process has ended.
async fn watch_over(
    (state, tls): (Arc<State>, Option<Arc<TlsListener>>),
    source: Option<Source>,
    identity: GatewayIdentity,
) {
    let scheduler = Arc::clone(&state.scheduler);
    task::spawn(async move { scheduler.keep_time().await });
    task::spawn(Arc::clone(&state.fleet).watch(identity));
    task::spawn(Arc::clone(&state).learn_names());
    task::spawn(Arc::clone(&state).follow_cluster());
    task::spawn(admin::status::watch(Arc::clone(&state)));
    task::spawn(wake::run(Arc::clone(&state)));
    if let Some(tls) = tls {
        task::spawn(tls.watch());
    }
    if let Some(source) = source {
        task::spawn(Arc::clone(&state).reload(source));
    }
    if let Some(accounts) = state.observer.accounts() {
        task::spawn(Arc::clone(accounts).keep());
    }
    let tracer = state.observer.tracer();
    let traces = tracer.map(|tracer| task::detached(trace_export::run(Arc::clone(tracer))));
    let left = state.ended().await;
    if let (Some(tracer), Some(traces)) = (tracer, traces) {
        tracer.close();
        // A receiver that is down must not delay the end.
        let _ = tokio::time::timeout(LAST_TRACES, traces).await;
    }
    if left > 0 {
        tracing::warn!(connections = left, "cut off at the end of the grace period");
    }
}

/// Opens the file of accounts, where one is configured, and restores the quotas from it.
fn open_accounts(state: &State) -> Result<(), StartError> {
    let config = state.config.load();
    let Some(file) = &config.usage_file else { return Ok(()) };
    let unfit = |error: store::StoreError| StartError::Unfit(error.into());
    let accounts = Accounts::open(file).map_err(unfit)?;
    let now = clock::date_secs();
    let used = accounts.tokens(now).map_err(unfit)?;
    state.tenants.restore(&used, config.charge_cached, now);
    state.observer.account_to(accounts);
    Ok(())
}

/// Starts the thread that serves the queue and the backends on D-Bus, where that is configured. It
/// is a thread of its own, so that calls on the bus do not delay deadlines.
#[cfg(feature = "dbus")]
fn show_on_bus(state: &Arc<State>) -> Result<Option<JoinHandle<()>>, StartError> {
    let state = Arc::clone(state);
    let bus = state.config.load().dbus;
    bus.map(|bus| spawn("tidegate-bus", move || dbus::serve(state, bus))).transpose()
}

#[cfg(not(feature = "dbus"))]
fn show_on_bus(_: &Arc<State>) -> Result<Option<JoinHandle<()>>, StartError> {
    Ok(None)
}

// === impl StartError ===

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::Listen(address, flag, error) => {
                write!(f, "cannot listen on {address}: {error}; ")?;
                match error.kind() {
                    io::ErrorKind::AddrNotAvailable => write!(
                        f,
                        "this machine does not have that address; choose one of its own with \
                         {flag}, or 0.0.0.0 for all of them"
                    ),
                    io::ErrorKind::PermissionDenied => write!(
                        f,
                        "ports below 1024 need a privilege; choose a higher one with {flag}"
                    ),
                    _ => write!(f, "is another server there? Choose another address with {flag}"),
                }
            }
            Self::System(error) => write!(f, "{error}"),
            Self::Unfit(error) => write!(f, "{error}"),
            Self::NothingToDispatch => f.write_str(
                "there is nothing to dispatch: give --redis URL, or set dispatch.pubsub, or a \
                 folder in [batch]",
            ),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Listen(_, _, error) | Self::System(error) => Some(error),
            Self::Unfit(error) => Some(error.as_ref()),
            Self::NothingToDispatch => None,
        }
    }
}
