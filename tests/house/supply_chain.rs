//! The rules of `deny.toml` for the dependencies, without cargo-deny: licences, sources, and one
//! version of each.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::{read, root};
use crate::support::run;
use crate::support::tools::tool;

const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The packages that a build for Linux uses.
fn packages() -> Vec<Value> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["metadata", "--format-version=1", "--locked", "--offline"]);
    let metadata = run(command.args(["--filter-platform", PLATFORM]));
    let mut metadata: Value = serde_json::from_str(&metadata).unwrap();
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("no packages: {other}"),
    }
}

/// The texts of a list in `deny.toml`.
fn list(name: &str) -> BTreeSet<String> {
    let text = read(&root().join("deny.toml"));
    let (_, rest) = text.split_once(&format!("\n{name} = [")).unwrap();
    let (entries, _) = rest.split_once(']').unwrap();
    entries.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether an SPDX expression can be met by allowed licences. Crates write `/` for `OR`, too. An
/// exception to a licence allows more, so it does not matter.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    // `(A OR B) AND C`: each part between ANDs needs one allowed licence.
    expression.split(" AND ").all(|part| {
        let mut licences = part.split(" OR ").map(|name| name.split(" WITH ").next().unwrap());
        licences.any(|name| allowed.contains(name.trim()))
    })
}

#[test]
fn dependencies_have_known_licences_sources_and_versions() {
    let (allowed, skipped) = (list("allow"), list("skip"));
    let registry = format!("registry+{}", list("allow-registry").first().unwrap());
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    for package in &packages {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        let (name, licence, source) = (text("name"), text("license"), text("source"));
        assert!(is_allowed(&licence, &allowed), "{name}: {licence:?} is not in deny.toml");
        assert!(package["source"].is_null() || source == registry, "{name} comes from {source}");
        versions.entry(name).or_default().insert(text("version"));
    }
    for (name, versions) in versions {
        let alone = versions.len() == 1;
        assert_eq!(!alone, skipped.contains(&name), "{name} {versions:?}: correct deny.toml");
    }
}

#[test]
fn an_expression_of_licences_needs_one_of_each_part() {
    let allowed: BTreeSet<String> = ["MIT", "Zlib"].map(str::to_owned).into();
    for good in ["MIT", "GPL-3.0 OR MIT", "X/MIT", "(X OR MIT) AND Zlib", "MIT WITH Y OR X"] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(X OR MIT) AND Y"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

/// The bill of materials has each package of the program, with its version, licence and checksum.
#[test]
fn the_bill_of_materials_is_complete() {
    let made = run(tool("python3").arg(root().join("tools/sbom.py")).arg("--offline"));
    let bill: Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let components = bill["components"].as_array().unwrap();
    let names: BTreeSet<&str> =
        components.iter().filter_map(|component| component["name"].as_str()).collect();
    for name in ["gateway", "flow", "hyper", "rustls", "ring", "rusqlite", "tokio"] {
        assert!(names.contains(name), "{name} is missing");
    }
    for name in ["proptest", "bench", "allocation-counter"] {
        assert!(!names.contains(name), "{name} is no part of the program");
    }
    for component in components.iter().filter(|component| component["purl"].is_string()) {
        let digest = component["hashes"][0]["content"].as_str().unwrap_or_default();
        assert_eq!(digest.len(), 64, "{component}");
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
    }
}
