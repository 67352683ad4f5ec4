//! Scenarios from files, played on all cores: `tidegate simulate`.
//!
//! The simulator itself is pure. Here are its hands: files of scenarios and traces, threads, the
//! terminal, and pictures on disk. The output depends on the scenario alone, never on the order of
//! the threads; times of this machine go to the progress messages.

mod document;
mod read;
mod runner;

#[cfg(test)]
mod tests;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use sim::report::Report;
use sim::scenario::{Case, Scenario, Traces};

use crate::progress::Progress;
pub use read::{TRACE_BYTES_MAX, text as read_text};

pub use runner::Timing;

/// Where traces are looked for unless a folder is named.
const TRACES: &str = "../shared/traces";
/// Where pictures go unless a folder is named.
const PICTURES: &str = "target/simulate";
/// More seeds than this tell nothing more.
const SEEDS_MAX: u64 = 1000;

/// What to run, and where its results go.
#[derive(Clone, Debug, Default)]
pub struct SimulateOptions {
    /// Scenario files, or folders of them.
    pub paths: Vec<PathBuf>,
    /// Where the traces lie.
    pub traces: Option<PathBuf>,
    /// Where the pictures go, each scenario's into a folder of its name.
    pub pictures: Option<PathBuf>,
    /// The first seed, instead of the scenario's own.
    pub seed: Option<u64>,
    /// How many seeds, instead of the scenario's own.
    pub seeds: Option<u64>,
    /// The only load to run.
    pub load: Option<f64>,
    /// The only policy to run.
    pub only: Option<String>,
    /// The only cases to run, by a part of their names.
    pub case: Option<String>,
    /// Print JSON instead of tables.
    pub json: bool,
    /// A document whose tables are brought up to date.
    pub document: Option<PathBuf>,
    /// A goal that is missed is an error, as a broken expectation is.
    pub goals: bool,
}

/// A scenario that has been run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name, from its file and its case.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// The name of its case; empty where the file has none.
    pub case: String,
    /// What came out.
    pub report: Report,
}

/// A scenario that has been read and found sound.
struct LoadedScenario<'a> {
    path: &'a Path,
    name: String,
    case: String,
    scenario: Scenario,
    only: Option<usize>,
}

/// Runs the scenarios, prints the reports and writes the pictures. An expectation that is
/// broken is an error, after everything has been printed; so is a missed goal if goals count.
pub fn run(
    options: &SimulateOptions,
    out: &mut dyn Write,
    mut progress: Progress<'_>,
) -> Result<()> {
    let files = read::files(&options.paths)?;
    // Errors show before the runs, which may take long.
    let mut all = Vec::new();
    for path in &files {
        all.extend(LoadedScenario::of_file(options, path)?);
    }
    let case = options.case.as_deref().unwrap_or_default();
    ensure!(!all.is_empty(), "no scenario has a case whose name contains '{case}'");
    if let Some(path) = &options.document {
        document::check(path, &options.paths)?;
    }
    let pictures = options.pictures.as_deref().unwrap_or(Path::new(PICTURES));
    all.iter().try_for_each(|ready| make_folder(&pictures.join(&ready.name)))?;
    let mut outcomes = Vec::new();
    let mut printed = Vec::new();
    for ready in all {
        let (outcome, timing) = ready.play(options, &mut progress)?;
        writeln!(progress.out, "{}: {timing}", outcome.name)?;
        if options.json {
            printed.push(json!({"scenario": outcome.name, "report": outcome.report.json()}));
        } else {
            writeln!(out, "{}", outcome.report)?;
        }
        let folder = pictures.join(&outcome.name);
        save_pictures(&folder, &outcome.report)?;
        writeln!(progress.out, "{}: pictures in {}", outcome.name, folder.display())?;
        outcomes.push(outcome);
    }
    if options.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&Value::Array(printed))?)?;
    }
    if let Some(path) = &options.document {
        document::update(path, &options.paths, &outcomes)?;
        writeln!(progress.out, "{} is up to date", path.display())?;
    }
    let goals = document::goals(&outcomes);
    if let Some(goals) = goals.as_ref().filter(|_| !options.json) {
        writeln!(out, "{goals}")?;
    }
    judge(&outcomes)?;
    match goals.filter(|goals| options.goals && goals.missed() > 0) {
        Some(goals) => bail!("{} of {} goals are missed", goals.missed(), goals.count()),
        None => Ok(()),
    }
}

/// Reads the scenarios of one file and runs them; writes nothing but progress.
pub fn play(
    options: &SimulateOptions,
    path: &Path,
    progress: &mut Progress<'_>,
) -> Result<Vec<Outcome>> {
    let all = LoadedScenario::of_file(options, path)?;
    all.into_iter().map(|one| one.play(options, progress).map(|(outcome, _)| outcome)).collect()
}

// === impl LoadedScenario ===

impl<'a> LoadedScenario<'a> {
    /// The scenarios of a file, those of the chosen cases alone.
    fn of_file(options: &SimulateOptions, path: &'a Path) -> Result<Vec<Self>> {
        let mut cases = read::scenarios(path)?;
        cases.retain(|case| options.case.as_ref().is_none_or(|part| case.name.contains(part)));
        cases.into_iter().map(|case| Self::new(options, path, case)).collect()
    }

    fn new(options: &SimulateOptions, path: &'a Path, case: Case) -> Result<Self> {
        let within = || format!("{}", path.display());
        let Case { name: case, mut scenario } = case;
        adjust(&mut scenario, options).with_context(within)?;
        let only = chosen(&scenario, options).with_context(within)?;
        let mut name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !case.is_empty() {
            name = format!("{name}-{}", case.replace(['/', ' '], "-"));
        }
        Ok(Self { path, name, case, scenario, only })
    }

    fn play(
        self,
        options: &SimulateOptions,
        progress: &mut Progress<'_>,
    ) -> Result<(Outcome, Timing)> {
        let Self { path, name, case, scenario, only } = self;
        let within = || format!("{}", path.display());
        let traces = read::traces(&scenario, options.traces.as_deref()).with_context(within)?;
        let job = runner::Job { name: &name, scenario: &scenario, traces: &traces, only };
        let (digests, timing) = runner::run(&job, progress).with_context(within)?;
        let report = Report::new(&scenario, &digests);
        Ok((Outcome { name, file: path.to_owned(), case, report }, timing))
    }
}

/// Puts what the command line says in place of what the file says.
fn adjust(scenario: &mut Scenario, options: &SimulateOptions) -> Result<()> {
    if options.seed.is_some() || options.seeds.is_some() {
        let count = options.seeds.unwrap_or(scenario.seeds.len() as u64);
        ensure!((1..=SEEDS_MAX).contains(&count), "--seeds {count}: must be 1 to {SEEDS_MAX}");
        let first = options.seed.or(scenario.seeds.first().copied()).unwrap_or(1);
        scenario.seeds = (0..count).map(|at| first.wrapping_add(at)).collect();
    }
    if let Some(load) = options.load {
        ensure!(load > 0.0 && load <= 100.0, "--load {load}: must be above 0, up to 100");
        scenario.loads = vec![load];
    }
    Ok(scenario.check_work()?)
}

/// The policy that alone is run, by its place.
fn chosen(scenario: &Scenario, options: &SimulateOptions) -> Result<Option<usize>> {
    let Some(only) = &options.only else { return Ok(None) };
    let found = scenario.policies.iter().position(|policy| policy.name == *only);
    let names: Vec<&str> = scenario.policies.iter().map(|policy| policy.name.as_str()).collect();
    let missing =
        || format!("--only '{only}' is not a policy here; there are: {}", names.join(", "));
    found.map(Some).with_context(missing)
}

fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
    let found = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(!found.permissions().readonly(), "cannot write into {}", path.display());
    Ok(())
}

fn save_pictures(folder: &Path, report: &Report) -> Result<()> {
    for picture in report.pictures() {
        let path = folder.join(format!("{}.svg", picture.name));
        let failed = || format!("cannot write {}", path.display());
        fs::write(&path, picture.svg()).with_context(failed)?;
    }
    Ok(())
}

fn judge(outcomes: &[Outcome]) -> Result<()> {
    let verdicts = || outcomes.iter().flat_map(|outcome| &outcome.report.verdicts);
    let broken = verdicts().filter(|verdict| !verdict.kept).count();
    if broken > 0 {
        let names = outcomes.iter().filter(|outcome| !outcome.report.is_kept());
        let names: Vec<&str> = names.map(|outcome| outcome.name.as_str()).collect();
        let all = verdicts().count();
        bail!("{broken} of {all} expectations are broken, in {}", names.join(", "));
    }
    Ok(())
}
