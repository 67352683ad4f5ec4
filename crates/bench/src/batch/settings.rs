//! The configurations in which batch work is measured.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// More than the clients send at once.
const PLENTY: usize = 1000;
const WORKERS: usize = 512;

/// The name that the queue knows its gate by.
const GATE: &str = "bench";

/// The gate in front of the batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Gate {
    /// So many at once, whatever happens.
    Fixed(usize),
    /// What the gateway has free beyond a share, with so long a rest after each start.
    Gateway { baseline: f64, rest: f64 },
    /// What an engine with so many places says that it has free, read so often.
    Scrape { engine: SocketAddr, places: u32, every: Duration },
}

/// Batch work in this folder that goes through this gate in this band, to `target` or else to
/// ourselves.
pub(super) fn work(folder: &Path, gate: Gate, band: &str, target: Option<SocketAddr>) -> String {
    let folder = folder.display();
    let target = target.map(|at| format!("target = \"http://{at}\"\n")).unwrap_or_default();
    format!(
        "[log]\naccess = false\n[batch]\nfolder = \"{folder}\"\n[dispatch]\nworkers = {WORKERS}\n\
         [[dispatch.gates]]\nname = \"{GATE}\"\n{}[[dispatch.queues]]\nname = \"batch\"\n\
         band = \"{band}\"\ngates = [\"{GATE}\"]\n{target}",
        gate.settings()
    )
}

/// At most so many at the backend at once, or nearly any number.
pub(super) fn bounds(limit: Option<usize>) -> String {
    let limit = limit.unwrap_or(PLENTY);
    format!(
        "[controller]\nlower_bound_per_backend = {limit}\nwatermark_per_backend = {limit}\n\
         upper_bound_per_backend = {limit}\n"
    )
}

/// One engine that works like vLLM.
pub(super) fn engine(address: SocketAddr) -> String {
    format!(
        "[[backends]]\nid = \"engine\"\nurl = \"http://{address}\"\nkind = \"vllm\"\n\
         models = [\"m\"]\n"
    )
}

// === impl Gate ===

impl Gate {
    /// Nothing in the way.
    pub(super) const OPEN: Self = Self::Fixed(PLENTY);
    /// What batch work goes through unless something else is configured.
    pub(super) const USUAL: Self = Self::Gateway { baseline: 0.2, rest: 1.0 };

    fn settings(self) -> String {
        match self {
            Self::Fixed(capacity) => {
                format!("kind = \"constant\"\ncapacity = {capacity}\nbaseline = 0.0\n")
            }
            Self::Gateway { baseline, rest } => {
                format!("kind = \"gateway\"\nbaseline = {baseline:?}\nrest = {rest:?}\n")
            }
            Self::Scrape { engine, places, every } => format!(
                "kind = \"scrape\"\nurl = \"http://{engine}/metrics\"\n\
                 metric = \"vllm:num_requests_running\"\nsays = \"count\"\ncapacity = {places}\n\
                 baseline = 0.2\ninterval = \"{}ms\"\n",
                every.as_millis()
            ),
        }
    }
}
