//! The Helm chart and the manifests that are rendered from it.
//!
//! helm takes minutes to build, so CI has none: the manifests name the sum of the chart that they
//! were rendered from. Where helm is installed, `tools/chart.sh --check` lints and renders again.

use std::path::Path;
use std::process::Command;

use crate::support::fresh_file;
use crate::support::tools::{python_file, run, tool};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn x02_the_manifests_are_those_of_the_chart() {
    run(Command::new(root().join("tools/chart.sh")).arg("--check"));
}

/// The configuration in the ConfigMaps is read by the program itself, the queries by promtool.
#[test]
fn x02_the_manifests_fit_together_and_their_configuration_is_valid() {
    let file = fresh_file();
    let folder = file.parent().unwrap();
    let script = root().join("tests/chart/manifests.py");
    run(python_file(&script).arg(folder).current_dir(root()));
    run(tool("promtool").args(["test", "rules"]).arg(folder.join("queries.yml")));
    for (mode, backends) in [("epp", "llama-pool"), ("serve", "app=llama")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let said = run(command.arg("check").arg(folder.join(format!("{mode}.yaml"))));
        assert!(said.contains(backends), "{said}");
    }
}
