//! A setup under measurement: Envoy, and the picker that it asks.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};

use super::envoy::{self, Mode};
use crate::gateway::origin::Origin;
use crate::gateway::process::{Process, Ready};
use crate::gateway::proxies::free;
use crate::gateway::settings::flow_control;
use crate::runner::Bench;

pub(crate) const OURS: &str = "Tidegate";
pub(crate) const HEADS: &str = "Tidegate, heads only";
pub(crate) const ALONE: &str = "Envoy alone";
pub(crate) const BESIDE: &str = "another picker";

/// One setup.
#[derive(Debug)]
pub(crate) struct EnvoySetup {
    pub(crate) name: &'static str,
    pub(crate) envoy: Process,
    pub(crate) picker: Option<Process>,
}

/// Starts every setup.
pub(crate) async fn setups(bench: &mut Bench, origin: &Origin) -> Result<Vec<EnvoySetup>> {
    let mut setups = Vec::new();
    for (name, mode) in [(OURS, Mode::Whole), (HEADS, Mode::HeadsOnly), (ALONE, Mode::Alone)] {
        let picker = match mode {
            Mode::Alone => None,
            _ => Some(ours(bench, origin.address).await?),
        };
        setups.push(EnvoySetup::start(bench, name, mode, picker, origin.address).await?);
    }
    if let Some(picker) = beside(bench, origin.address).await? {
        setups.push(
            EnvoySetup::start(bench, BESIDE, Mode::Whole, Some(picker), origin.address).await?,
        );
    }
    Ok(setups)
}

/// Starts our picker before one server.
pub(crate) async fn ours(bench: &mut Bench, origin: SocketAddr) -> Result<Process> {
    let arguments = picker_arguments(bench, origin)?;
    let log = bench.fixture.file("log");
    let mut command = bench.fixture.cores.command(&bench.fixture.tidegate);
    Process::start(OURS, command.args(arguments), &log, Ready::Says).await
}

/// The arguments that start our picker before one server.
pub(crate) fn picker_arguments(bench: &mut Bench, origin: SocketAddr) -> Result<Vec<String>> {
    let file = bench.fixture.config(&flow_control(), origin)?;
    let free = "127.0.0.1:0";
    let arguments = ["epp", "--config", &file, "--listen", free];
    let listeners = ["--health-listen", free, "--metrics-listen", free];
    Ok(arguments.into_iter().chain(listeners).map(str::to_owned).collect())
}

/// Starts the other picker before one server, if there is one.
pub(crate) async fn beside(bench: &mut Bench, origin: SocketAddr) -> Result<Option<Process>> {
    let Some(other) = bench.other_picker.clone() else { return Ok(None) };
    let program = other.to_str().context("the other picker has an odd path")?;
    let listen = free()?;
    let mut command = bench.fixture.cores.command(program);
    command.args([listen.port().to_string(), origin.port().to_string()]);
    let log = bench.fixture.file("log");
    Process::start(BESIDE, &mut command, &log, Ready::Listens(listen)).await.map(Some)
}

// === impl EnvoySetup ===

impl EnvoySetup {
    async fn start(
        bench: &mut Bench,
        name: &'static str,
        mode: Mode,
        picker: Option<Process>,
        origin: SocketAddr,
    ) -> Result<Self> {
        let asked = picker.as_ref().map(|picker| picker.address);
        let envoy = envoy::start(&mut bench.fixture, mode, asked, origin).await?;
        Ok(Self { name, envoy, picker })
    }

    /// Processor time in microseconds that Envoy and its picker have used so far.
    pub(crate) fn cpu_micros(&self) -> Result<[f64; 2]> {
        let picker = self.picker.as_ref().map_or(Ok(0), Process::cpu_nanos)?;
        Ok([self.envoy.cpu_nanos()? as f64 / 1e3, picker as f64 / 1e3])
    }
}
