//! The house rules that no compiler checks: which module may use which, the shape of files, the
//! names of types, and references in documents.

mod rooms;
mod supply_chain;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::tools::leave_out;
use rooms::{CRATES, HOUSES, PURE};

/// The most modules of a crate that may define a type of the same name.
const TYPE_MODULES_MAX: usize = 3;
const FILE_LINES_MAX: usize = 400;
const TEST_LINES_MAX: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Rust files of the project, with their text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["crates", "src", "tests"] {
        gather(&root().join(folder), &mut found);
    }
    assert!(found.len() > 20, "the sources are where they are expected");
    found
}

fn gather(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.clone(), read(&path)));
        }
    }
}

fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests") || path.file_stem().is_some_and(|stem| stem == "tests")
}

/// The names in one section of a manifest.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != format!("[{section}]")).skip(1);
    let entries = lines.take_while(|line| !line.starts_with('['));
    let name = |line: &str| line.split(['=', '.', ' ']).next().unwrap_or_default().to_owned();
    entries.map(name).filter(|name| !name.is_empty() && !name.starts_with('#')).collect()
}

#[test]
fn crates_use_only_allowed_crates() {
    let known: BTreeSet<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    for (name, allowed) in CRATES {
        let folder =
            if *name == "tidegate" { root().into() } else { root().join("crates").join(name) };
        let used = dependencies(&read(&folder.join("Cargo.toml")), "dependencies");
        for used in used.iter().filter(|used| known.contains(used.as_str())) {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
        }
        assert!(!PURE.contains(name) || used.is_empty(), "{name} must use nothing, not {used:?}");
    }
    let folders = fs::read_dir(root().join("crates")).unwrap();
    for folder in folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        assert!(known.contains(folder.as_str()), "{folder} is missing in the table of crates");
    }
}

#[test]
fn rooms_use_only_allowed_rooms() {
    for (house, rooms) in HOUSES {
        let allowed: BTreeMap<&str, &[&str]> = rooms.iter().copied().collect();
        let source = root().join("crates").join(house).join("src");
        for (path, text) in sources() {
            let Ok(inside) = path.strip_prefix(&source) else { continue };
            let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
            if !is_test(&path) && room != "lib" {
                check_room(&allowed, room, &path, &text);
            }
        }
    }
}

fn check_room(allowed: &BTreeMap<&str, &[&str]>, room: &str, path: &Path, text: &str) {
    let rooms = allowed.get(room).unwrap_or_else(|| panic!("{room} is missing in the table"));
    for used in text.split("crate::").skip(1) {
        let used = used.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
        let used = used.unwrap_or_default();
        let own = used == room || !allowed.contains_key(used);
        assert!(own || rooms.contains(&used), "{}: {room} must not use {used}", path.display());
    }
}

/// Only the examples of `flow` are run: other crates set `doctest = false`, which saves a pass over
/// each of them.
#[test]
fn examples_stand_where_they_are_run() {
    for (path, text) in sources() {
        if path.starts_with(root().join("crates/flow")) {
            continue;
        }
        let comments = text.lines().map(str::trim_start).filter(|line| line.starts_with("//"));
        let fences =
            comments.filter_map(|line| line.split_once("```")).map(|(_, language)| language);
        for language in fences.step_by(2) {
            let is_text = matches!(language, "text" | "json" | "sh" | "toml");
            assert!(is_text, "{}: an example that no test runs", path.display());
        }
    }
}

#[test]
fn the_tables_of_rooms_have_no_cycle() {
    for (house, rooms) in HOUSES {
        let mut open: BTreeMap<&str, BTreeSet<&str>> =
            rooms.iter().map(|(room, uses)| (*room, uses.iter().copied().collect())).collect();
        while !open.is_empty() {
            let leaves: Vec<&str> =
                open.iter().filter(|(_, uses)| uses.is_empty()).map(|(room, _)| *room).collect();
            assert!(!leaves.is_empty(), "{house}: a cycle among {:?}", open.keys());
            for leaf in leaves {
                open.remove(leaf);
                open.values_mut().for_each(|uses| _ = uses.remove(leaf));
            }
        }
    }
}

/// Verbs of `Store` that an engine implements in place or takes from the trait, in fewer lines than
/// a module would have.
const IN_PLACE: &[(&str, &str)] = &[
    ("sqlite", "join"),
    ("sqlite", "changed"),
    ("sqlite", "check_queue"),
    ("pubsub", "check_queue"),
    ("sqlite", "check_retries"),
    ("pubsub", "check_retries"),
    ("pubsub", "submit"),
    ("pubsub", "lanes"),
    ("pubsub", "cancel"),
    ("pubsub", "depth"),
    ("pubsub", "list_dead_letters"),
    ("pubsub", "redrive_dead_letters"),
    ("pubsub", "purge_dead_letters"),
    ("pubsub", "take_results"),
    ("pubsub", "join"),
    ("pubsub", "changed"),
    ("pubsub", "close"),
    ("pubsub", "counts_all"),
    ("pubsub", "queues_fail_alone"),
    // The trait's own.
    ("sqlite", "close"),
    ("sqlite", "counts_all"),
    ("sqlite", "queues_fail_alone"),
    ("redis", "close"),
    ("redis", "counts_all"),
    ("redis", "queues_fail_alone"),
];

/// A verb of `Store` keeps its name in all engines and in Lua: `claim` is `sqlite/claim.rs`,
/// `redis/claim.rs` and `scripts/claim.lua`.
#[test]
fn verbs_of_the_store_keep_their_names_down_to_the_script() {
    let source = root().join("crates/store/src");
    let verbs = store_verbs(&read(&source.join("lib.rs")));
    assert!(verbs.len() > 15, "only {verbs:?} were found");
    for engine in ["sqlite", "redis", "pubsub"] {
        let engine_text = read(&source.join(engine).with_extension("rs"));
        let has_module = |verb: &&String| !IN_PLACE.contains(&(engine, verb.as_str()));
        for verb in verbs.iter().filter(has_module) {
            let call = format!("{verb}::{verb}(");
            assert!(engine_text.contains(&call), "{engine}.rs does not call {call}…)");
            let module = read(&source.join(engine).join(verb).with_extension("rs"));
            let mut lines = module.lines();
            let declares = |line: &str| {
                line.starts_with("pub(super)") && line.contains(&format!("fn {verb}("))
            };
            assert!(lines.any(declares), "{engine}/{verb}.rs has no {verb}");
        }
    }
    for entry in fs::read_dir(source.join("redis/scripts")).unwrap() {
        let script = entry.unwrap().path();
        let name = script.file_stem().unwrap().to_str().unwrap();
        let named_after = |verb: &String| {
            name.strip_prefix(verb.as_str())
                .is_some_and(|rest| matches!(rest.get(..1), None | Some("_")))
        };
        assert!(verbs.iter().any(named_after), "{name}.lua is not named after a verb of the store");
    }
}

/// The methods of `trait Store`.
fn store_verbs(text: &str) -> Vec<String> {
    let start = text.find("pub trait Store:").unwrap_or_else(|| panic!("the trait is in lib.rs"));
    let end = start + text[start..].find("\n}\n").unwrap_or_else(|| panic!("the trait ends"));
    let lines = text[start..end].lines().filter_map(|line| line.strip_prefix("    fn "));
    lines.filter_map(|line| line.split(['(', '<']).next()).map(str::to_owned).collect()
}

#[test]
fn files_are_short_and_begin_with_a_description() {
    for (path, text) in sources() {
        let name = path.display();
        assert!(text.starts_with("//!"), "{name} does not say what it is");
        assert_ne!(path.file_name().unwrap(), "mod.rs", "{name}: use foo.rs beside foo/");
        let most = if is_test(&path) { TEST_LINES_MAX } else { FILE_LINES_MAX };
        let lines = text.lines().count();
        assert!(lines <= most, "{name} has {lines} lines, at most {most} are good");
        for (number, line) in text.lines().enumerate() {
            assert!(line.chars().count() <= 100, "{name}:{}: longer than 100", number + 1);
        }
    }
}

/// The names of the types that a file defines. An associated type has the name that its trait
/// gives it, so it does not count.
fn types_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let item = line.trim_start();
        let item = ["pub ", "pub(crate) ", "pub(super) "]
            .iter()
            .find_map(|prefix| item.strip_prefix(prefix))
            .unwrap_or(item);
        let (keyword, rest) = item.split_once(' ')?;
        let associated = keyword == "type" && line.starts_with(' ');
        let defines = matches!(keyword, "struct" | "enum" | "trait" | "type") && !associated;
        let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        defines.then(|| rest.split(|letter| !is_name(letter)).next().unwrap_or_default())
    })
}

/// A name that many modules give to different types says too little.
#[test]
fn a_type_name_is_used_in_at_most_three_modules_of_a_crate() {
    let mut modules: BTreeMap<(String, &str), BTreeSet<&Path>> = BTreeMap::new();
    let sources = sources();
    for (path, text) in sources.iter().filter(|(path, _)| !is_test(path)) {
        let inside = path.strip_prefix(root()).unwrap();
        let mut parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
        let top = parts.next().unwrap_or_default();
        let house = if top == "crates" { parts.next().unwrap_or_default() } else { top };
        for name in types_in(text) {
            modules.entry((house.clone(), name)).or_default().insert(inside);
        }
    }
    assert!(modules.len() > 500, "only {} types were found", modules.len());
    for ((house, name), modules) in modules {
        assert!(modules.len() <= TYPE_MODULES_MAX, "{house} has {name} in {modules:?}");
    }
}

#[test]
fn nothing_is_left_unfinished_or_skipped() {
    // Written in two halves, so that this file does not contain the mark.
    let marks = [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("#[ign", "ore"), ("thread::sl", "eep")];
    for (path, text) in sources() {
        for (left, right) in marks {
            let mark = format!("{left}{right}");
            assert!(!text.contains(&mark), "{}: {mark}", path.display());
        }
    }
}

/// The errors of a library are types, so that a caller can tell them apart and ask for the source.
#[test]
fn errors_of_crates_are_types() {
    for (path, text) in sources().iter().filter(|(path, _)| !is_test(path)) {
        let path = path.strip_prefix(root()).unwrap();
        let is_library = path.starts_with("crates/gateway") || path.starts_with("crates/store");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        // `Result<BTreeMap<String, String>>` is no such error.
        let is_text = |end: &str| end.contains(", String>") && !end.contains(", String>>");
        let mut results = code.lines().filter_map(|line| line.rsplit_once("Result<"));
        let found = results.find(|(_, end)| is_text(end)).filter(|_| is_library);
        assert_eq!(found, None, "{}", path.display());
    }
}

/// A name in a document with at least this many underscores is the name of a test.
const TEST_NAME_UNDERSCORES: usize = 3;
/// The most tests that a row of the map of requirements may name.
const PROOF_MAX: usize = 3;

/// A row of the map of requirements.
struct Requirement<'map> {
    id: &'map str,
    status: &'map str,
    proof: &'map str,
}

// === impl Requirement ===

impl<'map> Requirement<'map> {
    /// The row in this line, if there is one.
    fn read(line: &'map str) -> Option<Self> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let id = *cells.get(1).filter(|id| is_id(id))?;
        let &[_, _, promise, status, proof, _figure, _] = &cells[..] else {
            panic!("{id} needs the columns id, promise, status, proof and figure");
        };
        assert!(!promise.is_empty(), "{id} promises nothing");
        Some(Self { id, status, proof })
    }

    /// The names of its tests.
    fn tests(&self) -> Vec<&'map str> {
        self.proof.split('`').skip(1).step_by(2).collect()
    }
}

/// A letter and two digits.
fn is_id(word: &str) -> bool {
    let is_letter = word.starts_with(|letter: char| letter.is_ascii_alphabetic());
    is_letter && word.len() == 3 && word[1..].chars().all(|digit| digit.is_ascii_digit())
}

fn map_of_requirements() -> String {
    read(&root().join("docs/requirements.md"))
}

/// Every test that the map of requirements names exists, and every row has what its status says.
#[test]
fn the_map_of_requirements_names_tests_that_exist() {
    let map = map_of_requirements();
    let sources: String = sources().into_iter().map(|(_, text)| text).collect();
    for row in map.lines().filter_map(Requirement::read) {
        let (id, tests) = (row.id, row.tests());
        assert!(tests.len() <= PROOF_MAX, "{id} names more than {PROOF_MAX} tests");
        for name in &tests {
            assert!(sources.contains(&format!("fn {name}(")), "{id}: no test is called {name}");
        }
        let lacks = row.proof.contains("Missing: ");
        let agrees = match row.status {
            "done" => !tests.is_empty() && !lacks,
            "partly" => lacks,
            "open" => row.proof.is_empty(),
            _ => false,
        };
        assert!(agrees, "{id}: {} does not agree with its proof", row.status);
    }
    let (_, details) = map.split_once("## Details of these promises").unwrap();
    let (details, _) = details.split_once("## O.").unwrap();
    let names =
        details.lines().filter_map(|line| line.rsplit('|').nth(1)?.trim().strip_prefix('`'));
    for name in names.flat_map(|names| names.split(['`', ',', ' '])).filter(|name| !name.is_empty())
    {
        assert!(sources.contains(&format!("fn {name}(")), "no test is called {name}");
    }
}

/// The commands of the page of reliability exist: tests by their names, and targets of `make`.
#[test]
fn the_page_of_reliability_names_commands_that_exist() {
    let page = read(&root().join("docs/reliability.md"));
    let sources: String = sources().into_iter().map(|(_, text)| text).collect();
    let makefile = read(&root().join("Makefile"));
    let mut tests = 0;
    for code in page.split('`').skip(1).step_by(2) {
        if let Some(target) = code.strip_prefix("make ") {
            let target = target.split(' ').next().unwrap();
            assert!(makefile.contains(&format!("\n{target}: ##")), "no target {target}");
        }
        let in_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        let is_name = code.chars().all(|letter| in_name(letter) || letter == '_');
        if is_name && code.matches('_').count() >= TEST_NAME_UNDERSCORES {
            assert!(sources.contains(&format!("fn {code}(")), "no test is called {code}");
            tests += 1;
        }
    }
    assert!(tests > 50, "only {tests} tests were found");
}

/// A test that leaves itself out fails where `CI` is set.
#[test]
fn no_test_is_left_out_in_ci() {
    let note = ["not", "checked:"].join(" ");
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[1].contains(&note)) {
            let is_checked = pair[0].contains("assert!(std::env::var_os(\"CI\").is_none()");
            assert!(is_checked, "{}: use leave_out", path.display());
        }
    }
}

/// The map has one row for every requirement of the source, and no other rows.
#[test]
fn the_map_of_requirements_is_complete() {
    let source = root().join("../shared/requirements.md");
    if !source.exists() {
        return leave_out(&format!("{} is not here", source.display()));
    }
    let map = map_of_requirements();
    let rows: Vec<&str> = map.lines().filter_map(Requirement::read).map(|row| row.id).collect();
    let source = read(&source);
    let ids = source.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let ids: Vec<&str> = ids.filter(|id| is_id(id)).collect();
    assert_eq!(rows, ids);
}

/// The ids at the beginning of a test's name are rows of the map.
#[test]
fn tests_are_named_after_requirements_of_the_map() {
    let map = map_of_requirements();
    let ids: BTreeSet<String> =
        map.lines().filter_map(Requirement::read).map(|row| row.id.to_lowercase()).collect();
    let mut named = 0;
    for (path, text) in sources() {
        let tests = text.lines().filter_map(|line| line.trim_start().split_once("fn "));
        let names = tests.filter_map(|(_, rest)| rest.split('(').next());
        for name in names.filter(|name| name.contains('_')) {
            for id in name.split('_').take_while(|word| is_id(word)) {
                assert!(ids.contains(id), "{}: {name} names no requirement", path.display());
                named += 1;
            }
        }
    }
    assert!(named > 1000, "only {named} ids were found");
}

/// Every relative link in the documents has a target.
#[test]
fn links_in_documents_lead_somewhere() {
    let mut documents = Vec::new();
    for folder in ["", "docs", "docs/decisions"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        documents.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    assert!(documents.len() > 10);
    for document in documents {
        for target in read(&document).split("](").skip(1) {
            let target = target.split([')', '#']).next().unwrap_or_default();
            let local = !target.is_empty() && !target.contains("://");
            let path = document.parent().unwrap().join(target);
            assert!(!local || path.exists(), "{}: {target}", document.display());
        }
    }
}

#[test]
fn every_document_is_on_the_site() {
    let site = read(&root().join("mkdocs.yml"));
    for folder in ["docs", "docs/guides"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Some("md") = path.extension().and_then(|ending| ending.to_str()) else { continue };
            let page = path.strip_prefix(root().join("docs")).unwrap().display().to_string();
            assert!(site.contains(&format!("- {page}\n")), "mkdocs.yml does not list {page}");
        }
    }
}
