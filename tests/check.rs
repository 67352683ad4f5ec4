//! `tidegate check` from outside: what it prints and how it ends.

mod certificates;
mod findings;
mod locks;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Left over from a run that was cut short, or not there.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn check(&self, arguments: &[&str]) -> Output {
        check_in(&self.0, arguments)
    }
}

fn check(arguments: &[&str]) -> Output {
    check_in(Path::new(env!("CARGO_MANIFEST_DIR")), arguments)
}

fn check_in(folder: &Path, arguments: &[&str]) -> Output {
    check_with(folder, &[], arguments)
}

fn check_with(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.envs(variables.iter().copied());
    command.current_dir(folder).arg("check").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn x06_check_shows_the_meaning_of_a_file() {
    let output = check(&["examples/nexus.toml", "--listen", "127.0.0.1:9999"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.starts_with("file      examples/nexus.toml\n"), "{shown}");
    for expected in
        ["listen    127.0.0.1:9999", "queue     100 in all", "bounds    auto", "auto at"]
    {
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn x06_check_reports_every_problem_and_exits_with_1() {
    let output = check(&["--backend", "ftp://h", "--listen", "8430", "examples/none.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let stderr = text(&output.stderr);
    assert!(stderr.contains("examples/none.toml: cannot be read"), "{stderr}");
    let output = check(&["--backend", "ftp://h", "--listen", "8430"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("error: 2 problems in the configuration\n"), "{stderr}");
    assert!(stderr.contains("\n--listen: server.listen is \"8430\""), "{stderr}");
    assert!(stderr.contains("\n--backend ftp://h: backends[0].url is"), "{stderr}");
}

#[test]
fn check_names_the_default_file_that_it_reads() {
    let folder = Folder::new("check-default");
    let first = |arguments: &[&str]| {
        let output = folder.check(arguments);
        text(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let folder = folder.path();
    assert_eq!(first(&[]), "file      none: defaults, environment and flags");
    std::fs::write(folder.join("tidegate.yaml"), "").unwrap();
    assert_eq!(first(&[]), "file      tidegate.yaml");
    std::fs::write(folder.join("tidegate.toml"), "").unwrap();
    let both = "file      tidegate.toml; tidegate.yaml is there too and is not read";
    assert_eq!(first(&[]), both);
    std::fs::write(folder.join("own.toml"), "").unwrap();
    assert_eq!(first(&["--config", "own.toml"]), "file      own.toml");
}

#[test]
fn x06_check_shows_the_origin_of_each_value() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("check-origins.toml");
    std::fs::write(&file, "[queue]\ntotal_capacity = 5\nflow_capacity = 5\nqueue_ttl = 5\n")
        .unwrap();
    let variables =
        [("TIDEGATE_QUEUE__TOTAL_CAPACITY", "6"), ("TIDEGATE_QUEUE__FLOW_CAPACITY", "6")];
    let flags =
        ["--set", "queue.total_capacity=7", "--listen", "127.0.0.1:9", "check-origins.toml"];
    let shown = |more: &[&str]| {
        let output = check_with(folder, &variables, &[&flags, more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let origins = [
        ("server.listen = \"127.0.0.1:9\"", "--listen"),
        ("queue.total_capacity = 7", "--set queue.total_capacity"),
        ("queue.flow_capacity = 6", "TIDEGATE_QUEUE__FLOW_CAPACITY"),
        ("queue.queue_ttl = 5", "check-origins.toml:4"),
    ];
    let line = |shown: &str, value: &str| {
        let line = shown.lines().find(|line| line.contains(value));
        line.unwrap_or_else(|| panic!("{value}: {shown}")).to_owned()
    };
    let set = shown(&[]);
    for (value, origin) in origins {
        assert!(line(&set, value).ends_with(&format!(" {origin}")), "{set}");
    }
    assert!(!set.contains("default"), "{set}");
    let all = shown(&["--all"]);
    assert!(line(&all, "queue.idle_flows_max = 16384").ends_with(" default"), "{all}");
    assert!(line(&all, "server.workers = the number of cores").ends_with(" default"), "{all}");
}

const NAMES: &str = "[[models]]\nname = 'chat'\nband = 'high'\n\
    targets = [{ model = 'llama-3', weight = 9 }, 'llama-4']\n\
    [[models]]\nname = 'llama-4'\nband = 'critical'\n[[models]]\nname = 'plain'\n\
    [[objectives]]\nname = 'pager'\npriority = 12\n[[objectives]]\nname = 'nightly'\n\
    band = 'sheddable'\n[controller]\nstock = 'tokens'\n\
    [dispatch.redis]\nurls = ['redis://:secret@127.0.0.1:7']\n";

#[test]
fn x06_check_shows_model_names_and_objectives() {
    let folder = Folder::new("check-names");
    std::fs::write(folder.path().join("t.toml"), NAMES).unwrap();
    let output = folder.check(&["t.toml"]);
    let shown = text(&output.stdout);
    for expected in [
        "models    chat: llama-3 (9 of 10), llama-4 (1 of 10), as high\n",
        "          llama-4: as critical\n",
        "          plain: its requests wait while no backend lists it\n",
        "objective nightly: best-effort\n",
        "          pager: critical\n",
    ] {
        assert!(shown.contains(expected), "{expected:?} is not in {shown}");
    }
}

#[test]
fn x06_check_writes_json() {
    let folder = Folder::new("check-json");
    std::fs::write(folder.path().join("t.toml"), NAMES).unwrap();
    let json = |arguments: &[&str]| {
        let output = folder.check(arguments);
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), value)
    };
    let (code, value) = json(&["t.toml", "--json", "--set", "queue.total_capacity=7"]);
    assert_eq!((code, &value["valid"], &value["file"]), (Some(0), &true.into(), &"t.toml".into()));
    assert_eq!(value["problems"], serde_json::json!([]));
    let warning = serde_json::json!({"at": "t.toml:17", "text": "controller.stock has no effect: \
        without a watermark the bounds are automatic"});
    assert_eq!(value["warnings"], serde_json::json!([warning]));
    let chat = serde_json::json!({"name": "chat", "targets": [
        {"model": "llama-3", "share": 0.9, "band": "high"},
        {"model": "llama-4", "share": 0.1, "band": "high"},
    ]});
    assert_eq!(value["models"][0], chat);
    assert_eq!(value["objectives"][1], serde_json::json!({"name": "pager", "band": "critical"}));
    let settings = value["settings"].as_array().unwrap();
    let of = |key: &str| settings.iter().find(|setting| setting["key"] == key).cloned();
    let capacity = serde_json::json!({"key": "queue.total_capacity", "value": 7,
        "origin": "--set queue.total_capacity", "default": false});
    assert_eq!(of("queue.total_capacity"), Some(capacity));
    assert_eq!(of("dispatch.redis.urls").unwrap()["value"][0], "redis://127.0.0.1:7");
    assert_eq!(of("server.workers"), None);
    let (_, all) = json(&["t.toml", "--json", "--all"]);
    let is_workers = |setting: &&serde_json::Value| setting["key"] == "server.workers";
    let workers = all["settings"].as_array().unwrap().iter().find(is_workers).cloned().unwrap();
    assert_eq!((&workers["value"], &workers["default"]), (&serde_json::Value::Null, &true.into()));

    std::fs::write(folder.path().join("bad.toml"), "[queue]\nqueue_tll = 3\n").unwrap();
    let (code, value) = json(&["bad.toml", "--json"]);
    assert_eq!((code, &value["valid"]), (Some(1), &false.into()));
    let problem = &value["problems"][0];
    assert_eq!(problem["at"], "bad.toml:2");
    assert!(problem["text"].as_str().unwrap().starts_with("queue.queue_tll is not"), "{problem}");
    let (code, value) = json(&["none.toml", "--json"]);
    assert_eq!((code, &value["problems"][0]["at"]), (Some(1), &"none.toml".into()));
}

#[test]
fn x06_check_reports_a_variable_of_no_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = check_with(folder, &[("TIDEGATE_QUEUE__TOTAL_CAPACTY", "6")], &[]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("did you mean TIDEGATE_QUEUE__TOTAL_CAPACITY?"), "{stderr}");
}

#[test]
fn x06_check_prints_the_schema_that_is_committed() {
    let output = check(&["--schema"]);
    assert!(output.status.success());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tidegate.schema.json");
    let committed = std::fs::read_to_string(path).unwrap();
    assert_eq!(text(&output.stdout), committed);
}

/// The first configuration that a newcomer copies.
#[test]
fn x06_the_configuration_in_the_readme_is_good() {
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```toml\n[queue]").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme-gateway.toml");
    std::fs::write(&path, format!("[queue]{example}")).unwrap();
    let output = check(&[path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("research"), "{}", text(&output.stdout));
}
