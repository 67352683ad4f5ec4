//! The gateway without the code of the priorities, which the gateway is compared with (R09).
//!
//! No setting of the product skips that code: every request has a band. So a copy of the sources is
//! edited and built. In the copy no header and no field of a body gives a band, every request is
//! normal, a pool has one fair queue to look at, and no score has a boost or weighs bands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::process::tool;

/// The name of the program, beside the others.
const PROGRAM: &str = "tidegate-without-priorities";
/// Everything that the build reads.
const SOURCES: [&str; 9] = [
    "Cargo.toml",
    "Cargo.lock",
    "build.rs",
    "rust-toolchain.toml",
    "crates",
    "deploy",
    "docs",
    "src",
    "tests",
];

/// A change in one file: code that stands there once, and the code in its place.
struct Edit {
    file: &'static str,
    site: &'static str,
    instead: &'static str,
}

const EDITS: [Edit; 12] = [
    Edit {
        file: "Cargo.toml",
        site: "[[test]]\nname = \"main\"",
        instead: "[[bin]]\nname = \"tidegate-without-priorities\"\npath = \"src/main.rs\"\n\n\
                  [[test]]\nname = \"main\"",
    },
    Edit {
        file: "crates/gateway/src/ingress.rs",
        site: "    let bands =\n        (band::stated(&controls, config, fields.tier), \
               resolved.and_then(|found| found.band));\n",
        instead: "",
    },
    Edit {
        file: "crates/gateway/src/ingress.rs",
        site: "band::ruled(config, &attributes, bands, tenant)",
        instead: "(Band::Normal, false)",
    },
    Edit {
        file: "crates/gateway/src/ingress/headers.rs",
        site: "            \"priority\" => &mut self.priority,\n            \
               \"nexus-priority\" => &mut self.nexus_priority,\n            \
               \"llm-d-inference-objective\" => &mut self.objective[0],\n            \
               \"gateway-inference-objective\" => &mut self.objective[1],\n",
        instead: "",
    },
    Edit {
        file: "crates/gateway/src/ingress/headers.rs",
        site: "            \"media-type\" => &mut self.media_type,\n",
        instead: "",
    },
    Edit {
        file: "crates/gateway/src/ingress/json_body.rs",
        site: "self.tier = tier(scanner)?",
        instead: "PromptSize::skip(scanner)?",
    },
    Edit {
        file: "crates/gateway/src/reply/headers.rs",
        site: "        headers.insert(PRIORITY_BOOST, boost(choice.score.boost));\n",
        instead: "",
    },
    Edit {
        file: "crates/flow/src/route/score.rs",
        site: "            rate: weights.rates[if economical { Band::BestEffort } else \
               { pull }.index()],\n",
        instead: "            rate: weights.rates[1],\n",
    },
    Edit {
        file: "crates/flow/src/route/score.rs",
        site: "            boost: weights.boost(pull),\n",
        instead: "            boost: 0.0,\n",
    },
    Edit {
        file: "crates/flow/src/route/score.rs",
        site: "        let pull = if preference.latency_critical { Band::Critical } else \
               { preference.band };\n        let economical = preference.power_efficient && \
               !preference.latency_critical;\n",
        instead: "",
    },
    Edit {
        file: "crates/flow/src/route/score.rs",
        site: "        let pairs = candidate.pending.iter().zip(self.depth_weights);\n        \
               pairs.map(|(&count, weight)| f64::from(count) * weight).sum()\n",
        instead: "        f64::from(candidate.pending[1])\n",
    },
    Edit {
        file: "crates/flow/src/controller/dispatch.rs",
        site: "self.fair_queues[pool as usize].iter().enumerate().rev();",
        instead: "std::iter::once((1, &self.fair_queues[pool as usize][1]));",
    },
];

/// The program, if it was built; it lies beside this one.
pub(crate) fn program() -> Option<String> {
    let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    program.is_file().then(|| program.into_os_string().into_string().ok())?
}

/// Builds the program and puts it beside this one.
pub(crate) fn build() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("this program lies in no target folder")?;
    let copy = target.join("without-priorities");
    write_copy(&copy)?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "-p", "tidegate", "--bin", PROGRAM]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    // A folder of its own: in a shared one cargo would take the copy's crates for the product's.
    command.env("CARGO_TARGET_DIR", copy.join("target")).current_dir(&copy);
    tool(&mut command)?;
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let program = own.with_file_name(PROGRAM);
    fs::copy(copy.join("target").join(profile).join(PROGRAM), &program)?;
    Ok(program)
}

/// Writes the edited copy.
pub(super) fn write_copy(copy: &Path) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::create_dir_all(copy)?;
    for source in SOURCES {
        remove(&copy.join(source))?;
        copy_tree(&root.join(source), &copy.join(source))?;
    }
    for edit in EDITS {
        let file = copy.join(edit.file);
        let text = fs::read_to_string(&file).with_context(|| edit.file.to_owned())?;
        let found = text.matches(edit.site).count();
        ensure!(found == 1, "{} has {found} times, not once:\n{}", edit.file, edit.site);
        fs::write(&file, text.replace(edit.site, edit.instead))?;
    }
    Ok(())
}

/// Removes what an earlier copy left.
fn remove(path: &Path) -> Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    }
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        fs::copy(from, to).with_context(|| from.display().to_string())?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        copy_tree(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}
