//! What the core promises of its own cost, and whether a run bears it out.

use super::report::{Memory, Report, Target};

const FLOOR_RATIO_MAX: f64 = 1.5;
const SCORE_NANOS_MAX: f64 = 1_000.0;
const WORKLOAD_DEQUEUE_NANOS_MAX: f64 = 10_000.0;
const BYTES_MAX: f64 = 128.0;

/// The promises that the report can judge.
pub(crate) fn judge(report: &Report) -> Vec<Target> {
    let cells = report.cycles.iter();
    let ratios = cells.filter_map(|cell| Some((cell.name.as_str(), cell.ratio?.min)));
    let scan = report.scan.as_ref();
    let bytes = report.memory.as_ref().and_then(|memory| match memory {
        Memory::NotCounted => None,
        Memory::Counted { core, .. } => Some(("memory", core.held)),
    });
    let targets = [
        worst("fifo cycle over the floor's", FLOOR_RATIO_MAX, ratios),
        worst("ns per score", SCORE_NANOS_MAX, scan.map(|scan| ("scan", scan.score)).into_iter()),
        worst(
            "ns per workload dequeue",
            WORKLOAD_DEQUEUE_NANOS_MAX,
            scan.map(|scan| ("scan", scan.dequeue.min)).into_iter(),
        ),
        worst("bytes per waiting ask", BYTES_MAX, bytes.into_iter()),
    ];
    targets.into_iter().flatten().collect()
}

fn worst<'a>(
    what: &'static str,
    limit: f64,
    measured: impl Iterator<Item = (&'a str, f64)>,
) -> Option<Target> {
    let (name, worst) = measured.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(Target { what, limit, worst, name: name.to_owned(), met: worst <= limit })
}
