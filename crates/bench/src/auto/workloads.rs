//! The workloads of the study: recorded traffic, read from files that are not part of the project.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use sim::arrivals::Lengths;
use sim::engine::Profile;
use sim::trace::Trace;

use super::Case;

/// Short names and files.
const FILES: [(&str, &str); 5] = [
    ("conv", "azure_llm_2023_conv.csv"),
    ("m-large", "servegen_m-large_20min.csv"),
    ("m-small", "servegen_m-small_20min.csv"),
    ("arena", "vtc_lmsys_arena_clients.csv"),
    ("mooncake", "mooncake_synthetic.jsonl"),
];
/// Engines whose memory or context is too small for prompts of 15,000 tokens.
const SMALL: [&str; 2] = ["rtx4090-8b", "ollama-4"];

/// Traces by their short names.
pub(super) struct Workloads(Vec<(&'static str, Arc<Trace>)>);

// === impl Workloads ===

impl Workloads {
    pub(super) const NAMES: [&str; FILES.len()] =
        [FILES[0].0, FILES[1].0, FILES[2].0, FILES[3].0, FILES[4].0];

    /// Reads all of them from a folder.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let read = |&(name, file): &(&'static str, &str)| {
            let path = folder.join(file);
            let text = fs::read_to_string(&path).with_context(|| {
                format!(
                    "the trace {} cannot be read: name the folder that holds it with --traces \
                     (docs/benchmarks.md says where the traces come from)",
                    path.display()
                )
            })?;
            let trace = Trace::parse(&text).with_context(|| path.display().to_string())?;
            Ok((name, Arc::new(trace)))
        };
        FILES.iter().map(read).collect::<Result<_>>().map(Self)
    }

    /// Whether most of a workload fits an engine.
    pub(super) fn fit(engine: &str, workload: &str) -> bool {
        workload != "mooncake" || !SMALL.contains(&engine)
    }

    pub(super) fn trace(&self, name: &str) -> Result<&Arc<Trace>> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, trace)| trace).ok_or_else(|| anyhow!("no workload is called '{name}'"))
    }

    pub(super) fn case(&self, engine: &str, workload: &str) -> Result<Case> {
        let profile = Profile::named(engine);
        Ok(Case {
            engine: profile.ok_or_else(|| anyhow!("no engine is called '{engine}'"))?,
            workload: workload.to_owned(),
            lengths: Lengths::Trace(Arc::clone(self.trace(workload)?)),
        })
    }
}
