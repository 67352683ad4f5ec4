//! `tidegate check` from outside: what it prints and how it ends.

use std::path::Path;
use std::process::{Command, Output};

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
    let output = check(&["--backend", "https://h", "--listen", "8080", "examples/none.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let stderr = text(&output.stderr);
    assert!(stderr.contains("examples/none.toml: cannot be read"), "{stderr}");
    let output = check(&["--backend", "https://h", "--listen", "8080"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("error: 2 problems in the configuration\n"), "{stderr}");
    assert!(stderr.contains("\n--listen: server.listen is \"8080\""), "{stderr}");
    assert!(stderr.contains("\n--backend https://h: backends[0].url is"), "{stderr}");
}

#[test]
fn check_names_the_default_file_that_it_reads() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check-default");
    // Left over from a run that was cut short, or not there.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let first = |arguments: &[&str]| {
        let output = check_in(&folder, arguments);
        text(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
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
