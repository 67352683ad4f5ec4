//! What happens when things are not as in the main study, against the same watermark under the same
//! condition: it was the best before, and an operator would not have changed it.

use anyhow::Result;

use super::case::Known;
use super::conditions::{CONDITIONS, Condition};
use super::report::{Ratio, Robust, Spread};
use super::run::Run;
use super::{Effort, Study};

/// Memory, slots or arithmetic bind first on each of them.
const ENGINES: [&str; 4] = ["rtx4090-8b", "pro6000-8b", "h100-8b", "ollama-4"];
const WORKLOADS: [&str; 2] = ["conv", "m-large"];
/// What the traffic was before it changed.
const BEFORE: &str = "arena";

pub(super) fn measure(study: &mut Study<'_>) -> Result<Vec<Robust>> {
    let effort = study.effort.fewer();
    let mut rows = Vec::new();
    for condition in &CONDITIONS {
        let name = format!("robust/{}", condition.name);
        if study.wants(&name)? {
            rows.push(row(study, condition, &effort)?);
        }
    }
    Ok(rows)
}

fn row(study: &mut Study<'_>, condition: &Condition, effort: &Effort) -> Result<Robust> {
    let (mut metrics, mut blind) = (Vec::new(), Vec::new());
    let engines = if study.plan.quick { &ENGINES[..1] } else { &ENGINES };
    for engine in engines {
        let other = study.know(engine, BEFORE)?;
        for workload in WORKLOADS {
            let known = study.know(engine, workload)?;
            let run = (condition.run)(&known, &other);
            let [seen, unseen] = ratios(&known, &run, effort)?;
            metrics.push(seen);
            blind.push(unseen);
        }
    }
    Ok(Robust {
        condition: condition.name,
        metrics: Spread::of(&metrics),
        blind: condition.blind.then(|| Spread::of(&blind)),
    })
}

/// `auto` with and without metrics over the best fixed watermark in the same run.
pub(super) fn ratios(known: &Known, run: &Run, effort: &Effort) -> Result<[Ratio; 2]> {
    let blind = Run { metrics: None, ..run.clone() };
    let figures = effort.means(&[run.with(known.fixed(), 0), run.clone(), blind])?;
    let ratio = |at: usize| Ratio::of(known.case.name(), &figures[at], &figures[0]);
    Ok([ratio(1), ratio(2)])
}
