//! Negative controls: the core's tests must fail when the core is broken.
//!
//! Each mutant replaces one expression of `crates/flow`, and the tests named for it must then fail.
//! All mutants are compiled into one copy of the crate (mutant schemata): the expression becomes
//! `if mutant::is(n) { replacement } else { original }`, and an environment variable selects the
//! mutant of a run. So the copy is built once, and the runs share the cores. A site that no longer
//! stands in the code fails this test too, so the table cannot fall behind.
//!
//! Tests begin in the order of their names. This one takes longest and needs the processor, so its
//! name comes before those of the tests that wait for sockets.

mod cache_table;
mod order_table;
mod places_table;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cache_table::CACHE;
use order_table::IN_FLOW;
use places_table::PLACES;
use serde_json::Value;
use table::MUTANTS;

/// One way to break the core.
struct Mutant {
    name: &'static str,
    file: &'static str,
    /// Code that stands once in the file. The part between « and » is replaced.
    site: &'static str,
    instead: &'static str,
    /// A filter for the tests that must notice.
    noticed_by: &'static str,
}

/// The variable that selects the mutant of a run, by its place in the table.
const SELECTED: &str = "FLOW_MUTANT";

/// The manifest of the copy, which is a workspace of its own.
const MANIFEST: &str = r#"
[workspace]

[package]
name = "flow"
version = "0.1.0"
edition = "2024"

[dev-dependencies]
proptest = { version = "1.12", default-features = false, features = ["std"] }

[profile.dev]
opt-level = 1
debug = false
"#;

/// The module of the copy that knows which mutant is selected.
const SELECTOR: &str = r#"
pub(crate) mod mutant {
    use std::sync::LazyLock;

    static SELECTED: LazyLock<Option<usize>> =
        LazyLock::new(|| std::env::var("FLOW_MUTANT").ok()?.parse().ok());

    pub(crate) fn is(number: usize) -> bool {
        *SELECTED == Some(number)
    }
}
"#;

#[test]
fn every_mutant_is_noticed() {
    let copy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    copy_core(&copy);
    let suite = build(&copy);
    assert!(run(&suite, None, "fairness::q05").status.success(), "the unbroken copy must pass");
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let survivors: Vec<&str> = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..workers).map(|_| scope.spawn(|| survivors(&suite, &next))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(survivors.is_empty(), "no test noticed: {survivors:#?}");
}

/// Runs mutants until none is left, and returns the names of those that no test noticed.
fn survivors(suite: &Path, next: &AtomicUsize) -> Vec<&'static str> {
    let mut survivors = Vec::new();
    while let Some((number, mutant)) = take(next) {
        let output = run(suite, Some(number), mutant.noticed_by);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains("running 0 tests"), "no test matches {}", mutant.noticed_by);
        let noticed = !output.status.success();
        eprintln!("{} {}", if noticed { "noticed " } else { "SURVIVED" }, mutant.name);
        if !noticed {
            survivors.push(mutant.name);
        }
    }
    survivors
}

/// Every mutant, by its number.
fn mutants() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.iter().chain(IN_FLOW).chain(PLACES).chain(CACHE)
}

fn take(next: &AtomicUsize) -> Option<(usize, &'static Mutant)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    mutants().nth(number).map(|mutant| (number, mutant))
}

/// Copies the core, with every mutant in it.
fn copy_core(copy: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = copy.join("src");
    let _ = fs::remove_dir_all(&source);
    copy_tree(&root.join("crates/flow/src"), &source);
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock")).unwrap();
    fs::write(copy.join("Cargo.toml"), MANIFEST).unwrap();
    let mut files: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, mutant) in mutants().enumerate() {
        files.entry(mutant.file).or_default().push(number);
    }
    for (file, numbers) in files {
        let path = source.join(file);
        let original = fs::read_to_string(&path).unwrap();
        fs::write(&path, mutated(&original, &numbers)).unwrap();
    }
    let lib = source.join("lib.rs");
    fs::write(&lib, fs::read_to_string(&lib).unwrap() + SELECTOR).unwrap();
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The text of a file with the given mutants in it. Mutants of the same site share it.
fn mutated(original: &str, numbers: &[usize]) -> String {
    let mut sites: BTreeMap<(usize, usize), String> = BTreeMap::new();
    for &number in numbers {
        let Some(mutant) = mutants().nth(number) else { continue };
        let Range { start, end } = mutant.find(original);
        let code = sites.entry((start, end)).or_insert_with(|| original[start..end].to_owned());
        let instead = mutant.instead;
        *code = format!("(if crate::mutant::is({number}) {{ {instead} }} else {{ {code} }})");
    }
    let mut text = String::new();
    let mut done = 0;
    for ((start, end), code) in sites {
        text += &original[done..start];
        text += &code;
        done = end;
    }
    text + &original[done..]
}

/// Builds the copy's tests and returns the path of the binary.
fn build(copy: &Path) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(copy).args(["test", "--lib", "--no-run", "--message-format=json"]);
    let output = command.env("CARGO_TARGET_DIR", copy.join("target")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut binaries = messages.filter_map(|message| Some(message["executable"].as_str()?.into()));
    binaries.next_back().unwrap()
}

/// Runs the tests that match a filter, with one mutant or none.
fn run(suite: &Path, mutant: Option<usize>, filter: &str) -> Output {
    let mut command = Command::new(suite);
    command.arg(filter).arg("--quiet").env_remove(SELECTED);
    command.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("RUST_BACKTRACE", "0");
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    if let Some(number) = mutant {
        command.env(SELECTED, number.to_string());
    }
    command.output().unwrap()
}

// === impl Mutant ===

impl Mutant {
    /// Where the replaced expression stands in the file's text.
    fn find(&self, text: &str) -> Range<usize> {
        let Self { name, file, site, .. } = self;
        let (before, rest) = site.split_once('«').unwrap();
        let (expression, after) = rest.split_once('»').unwrap();
        let whole = [before, expression, after].concat();
        let mut found = text.match_indices(&whole);
        let (Some((at, _)), None) = (found.next(), found.next()) else {
            panic!("{name}: the site must stand once in {file}");
        };
        let start = at + before.len();
        start..start + expression.len()
    }
}
