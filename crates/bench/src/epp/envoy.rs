//! Envoy from the files that are shipped, with other ports, and the same Envoy without a picker.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::gateway::process::{Process, Ready};
use crate::gateway::proxies::{Fixture, free};

const ORIGINAL_DST: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/envoy/original-dst.yaml"));
const HEADS_ONLY: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/envoy/heads-only.yaml"));

/// Where the filter begins that asks the picker, and the next one.
const PICKER_FILTER: &str = "          - name: envoy.filters.http.ext_proc\n";
const ROUTER_FILTER: &str = "          - name: envoy.filters.http.router\n";
/// Where the last cluster begins, which has the model servers.
const SERVERS: &str = "  - name: model_servers\n";

/// What Envoy is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Ask the picker, and show it whole answers.
    Whole,
    /// Ask the picker, and show it heads of answers alone.
    HeadsOnly,
    /// Use no picker.
    Alone,
}

/// Starts Envoy; every mode but `Alone` needs the picker.
pub(crate) async fn start(
    fixture: &mut Fixture,
    mode: Mode,
    picker: Option<SocketAddr>,
    origin: SocketAddr,
) -> Result<Process> {
    let listen = free()?;
    let file = fixture.file("yaml");
    fs::write(&file, bootstrap(mode, listen, picker, origin)?)?;
    let mut command = fixture.cores.command(&program()?);
    command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "critical"]);
    command.arg("--config-path").arg(file);
    let log = fixture.file("log");
    Process::start("Envoy", &mut command, &log, Ready::Listens(listen)).await
}

/// The shipped file with the ports of this run.
pub(crate) fn bootstrap(
    mode: Mode,
    listen: SocketAddr,
    picker: Option<SocketAddr>,
    origin: SocketAddr,
) -> Result<String> {
    let shipped = if mode == Mode::HeadsOnly { HEADS_ONLY } else { ORIGINAL_DST };
    let text = if mode == Mode::Alone { alone(shipped, origin)? } else { shipped.to_owned() };
    let picker = picker.map_or(0, |picker| picker.port());
    let ports = [(10_000, listen.port()), (9901, 0), (9002, picker)];
    ports.into_iter().try_fold(text, |text, (shipped, ours)| {
        let shipped = format!("port_value: {shipped} }}");
        if !text.contains(&shipped) {
            bail!("the shipped bootstrap has no {shipped}");
        }
        Ok(text.replace(&shipped, &format!("port_value: {ours} }}")))
    })
}

/// Without the picker's filter, and with the one server where the picker chose before.
fn alone(shipped: &str, origin: SocketAddr) -> Result<String> {
    let cut = |text: &str, at: &str| {
        let (before, _) = text.split_once(at).with_context(|| format!("no {at}"))?;
        anyhow::Ok(before.to_owned())
    };
    let before = cut(shipped, PICKER_FILTER)?;
    let (_, behind) = shipped.split_once(ROUTER_FILTER).context("no router")?;
    let behind = cut(behind, SERVERS)?;
    let (address, port) = (origin.ip(), origin.port());
    let breakers = "{ max_connections: 40000, max_pending_requests: 40000, max_requests: 40000 }";
    Ok(format!(
        "{before}{ROUTER_FILTER}{behind}{SERVERS}    type: STATIC\n    connect_timeout: 5s\n    \
         circuit_breakers:\n      thresholds: [{breakers}]\n    load_assignment:\n      \
         cluster_name: model_servers\n      endpoints:\n      - lb_endpoints:\n        \
         - endpoint: {{ address: {{ socket_address: {{ address: {address}, port_value: {port} \
         }} }} }}\n"
    ))
}

/// Envoy's own, or the one that the tests use.
fn program() -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("envoy"));
    let found = installed.chain(packed()).find(|path| path.is_file());
    let found = found.context("there is no Envoy: run tools/setup.sh")?;
    found.into_os_string().into_string().ok().context("Envoy has an odd path")
}

fn packed() -> impl Iterator<Item = PathBuf> {
    let libraries = fs::read_dir(Path::new(".tools/python/lib")).into_iter().flatten().flatten();
    libraries.map(|library| library.path().join("site-packages/envoy/_bin/envoy"))
}
