//! Tests of the endpoints file: its formats, and a file that changes.

use std::path::{Path, PathBuf};

use super::super::endpoints_file::{apply, concerns, parse, read_text as text_of};
use super::*;

const YAML: &str = r#"
endpoints:
- name: a
  namespace: default
  address: 10.0.0.1
  port: "8000"
  labels: {llm-d.ai/engine-type: sglang, other: x}
- {name: b, address: "fd00::1", port: 8001, kind: vllm, models: [m], power_watts: 55}
"#;

/// A folder that is removed with the test.
struct Folder(PathBuf);

fn yaml(text: &str) -> Result<Vec<BackendSpec>, String> {
    parse(Path::new("x.yaml"), text).map_err(|error| error.to_string())
}

#[test]
fn x06_endpoints_are_read_in_both_spellings() {
    let specs = yaml(YAML).unwrap();
    assert_eq!(specs[0].url, "http://10.0.0.1:8000");
    assert_eq!((specs[0].kind, specs[1].kind), (BackendKind::Sglang, BackendKind::Vllm));
    assert_eq!(specs[1].url, "http://[fd00::1]:8001");
    assert_eq!((specs[1].models.len(), specs[1].traits.power_watts), (1, 55.0));
    let json = r#"{"endpoints":[{"name":"a","address":"h","port":1}]}"#;
    assert_eq!(parse(Path::new("x.json"), json).unwrap()[0].url, "http://h:1");
    assert_eq!(yaml(json).unwrap().len(), 1);
    assert_eq!(yaml("endpoints: []").unwrap().len(), 0);
}

#[test]
fn x06_an_invalid_file_reports_its_error() {
    let one = |entry: &str| yaml(&format!("endpoints: [{{{entry}}}]")).unwrap_err();
    assert!(one("name: a, address: h, port: x").contains("endpoints[0]: port \"x\""));
    assert!(one("name: a, address: h, port: 1, kind: gpu").contains("\"gpu\" is unknown"));
    assert!(one("name: a, address: h, port: 0").contains("port \"0\""));
    for address in [
        "h h",
        "h/v1",
        "h?x",
        "h#x",
        "user:pass@h",
        "user@h",
        "http://h",
        "h:80",
        "",
        "[::1",
        "::1]x",
        "[fe80::1]:1",
        "h\\n",
    ] {
        let said = one(&format!("name: a, address: \"{address}\", port: 1"));
        assert!(said.contains("is no host name and no IP address"), "{said}");
    }
    for places in ["0", "100001"] {
        let said = one(&format!("name: a, address: h, port: 1, places: {places}"));
        assert!(said.contains(&format!("places is {places}: 1 to 100000")), "{said}");
    }
    for places in ["-1", "1.5", "many", "1e9"] {
        assert!(one(&format!("name: a, address: h, port: 1, places: {places}")).contains("places"));
    }
    assert!(one("name: a, address: h, port: 1, power_watts: -3").contains("power_watts"));
    assert!(one("address: h, port: 1").contains("name"));
    let twice = "endpoints: [{name: a, address: h, port: 1}, {name: a, address: h, port: 2}]";
    assert!(yaml(twice).unwrap_err().contains("twice"));
    let many: Vec<String> =
        (0..4097).map(|at| format!("- {{name: n{at}, address: h, port: 1}}\n")).collect();
    assert!(yaml(&format!("endpoints:\n{}", many.concat())).unwrap_err().contains("4097"));
    for text in ["", "{}", "endpoint: []", "endpoints: 3", "- a", "\u{0}", "endpoints: [", "{"] {
        assert!(yaml(text).is_err(), "{text}");
    }
}

#[test]
fn x06_an_invalid_endpoint_is_named_by_its_line() {
    let good = "{\"name\": \"a\", \"address\": \"h\", \"port\": 1}";
    let bad = good.replace("\"a\"", "\"b\"").replace("\"h\"", "\"u:p@h\"");
    let json = format!("{{\"endpoints\": [\n  {good},\n  {bad}\n]}}");
    let yaml = format!("# one\nendpoints:\n- {good}\n- {bad}\n");
    for (file, text, line) in [("e.json", json, 3), ("e.yaml", yaml, 4)] {
        let said = parse(Path::new(file), &text).unwrap_err().to_string();
        assert!(
            said.starts_with(&format!("line {line}: endpoints[1]: address \"u:p@h\"")),
            "{said}"
        );
    }
}

#[test]
fn x06_reading_the_endpoints_file_triggers_no_read() {
    use notify::event::{AccessKind, AccessMode, CreateKind, EventKind};
    let name = Path::new("e.yaml").file_name();
    let event = |kind, path: &str| notify::Event::new(kind).add_path(path.into());
    let made = EventKind::Create(CreateKind::File);
    assert!(concerns(&event(made, "/a/e.yaml"), name));
    assert!(concerns(&event(made, "/a/..data"), name));
    assert!(!concerns(&event(made, "/a/other.log"), name));
    let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
    assert!(!concerns(&event(opened, "/a/e.yaml"), name));
    assert!(concerns(&notify::Event::new(EventKind::Other), name), "events were lost");
}

#[tokio::test]
async fn x06_the_endpoints_file_is_followed_as_it_changes() {
    let folder = Folder::new("endpoints");
    let path = folder.0.join("endpoints.yaml");
    let settings = FleetSettings { endpoints_file: Some(path.clone()), ..quick(Vec::new()) };
    let (fleet, _) = fleet(&settings);
    let watching = tokio::spawn(fleet.clone().watch(GatewayIdentity::default()));
    let names = || -> Vec<String> { fleet.statuses().into_iter().map(|view| view.id).collect() };
    let entry = |name: &str, port: u16| format!("- {{name: {name}, address: h, port: {port}}}\n");
    // The watcher has started when the first file is seen; until then the file is written again.
    let written = format!("endpoints:\n{}{}", entry("a", 1), entry("b", 2));
    until("the file appears", || {
        if names().is_empty() {
            std::fs::write(&path, &written).unwrap();
        }
        names() == ["a", "b"]
    })
    .await;
    let ids: Vec<BackendId> = fleet.statuses().iter().map(|view| view.backend).collect();
    std::fs::write(&path, "endpoints: [nonsense").unwrap();
    let next = folder.0.join("next");
    std::fs::write(&next, format!("endpoints:\n{}{}", entry("b", 2), entry("c", 3))).unwrap();
    std::fs::rename(&next, &path).unwrap();
    until("the file is replaced", || names() == ["b", "c"]).await;
    assert_eq!(fleet.statuses()[0].backend, ids[1], "who stays is the same");
    std::fs::write(&path, "endpoints: [nonsense").unwrap();
    std::fs::remove_file(&path).unwrap();
    until("the file is gone", || names().is_empty()).await;
    watching.abort();
}

#[test]
fn x06_a_bad_endpoints_file_changes_nothing() {
    let folder = Folder::new("bad");
    let path = folder.0.join("endpoints.json");
    let (fleet, _) = fleet(&quick(Vec::new()));
    let write = |text: &str| {
        std::fs::write(&path, text).unwrap();
        apply(&fleet, &path, text_of(&path));
        fleet.statuses().len()
    };
    assert_eq!(write(r#"{"endpoints":[{"name":"a","address":"h","port":1}]}"#), 1);
    for bad in ["{", "", "[]", "{}", r#"{"endpoint":[]}"#, &" ".repeat((1 << 20) + 1)] {
        assert_eq!(write(bad), 1, "{}", &bad[..bad.len().min(20)]);
    }
    apply(&fleet, &folder.0, text_of(&folder.0));
    assert_eq!(fleet.statuses().len(), 1, "a folder is no file");
    assert_eq!(write(r#"{"endpoints":[]}"#), 0);
    assert_eq!(write(r#"{"endpoints":[{"name":"a","address":"h","port":1}]}"#), 1);
    std::fs::remove_file(&path).unwrap();
    apply(&fleet, &path, text_of(&path));
    assert!(fleet.statuses().is_empty(), "no file is no endpoints");
}

// === impl Folder ===

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("tidegate-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The document shows every field.
#[test]
fn x06_the_documented_endpoints_file_is_good() {
    let document = include_str!("../../../../../docs/CONFIGURATION.md");
    let (_, rest) = document.split_once("```yaml\nendpoints:\n- name: gpu-a ").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let example = format!("endpoints:\n- name: gpu-a {example}");
    let specs = parse(Path::new("endpoints.yaml"), &example).unwrap();
    let [first, second] = &specs[..] else { panic!("{specs:?}") };
    assert_eq!((first.url.as_str(), first.kind), ("http://10.0.0.5:8000", BackendKind::Vllm));
    assert_eq!(first.models, ["llama-3", "qwen"]);
    assert_eq!((first.traits.power_watts, first.traits.latency_ms), (300.0, 120.0));
    assert_eq!((first.places, second.places), (Some(64), None));
    let none = example.replace("places: 64", "places: 0");
    let error = parse(Path::new("endpoints.yaml"), &none).unwrap_err().to_string();
    assert!(error.contains("places"), "{error}");
    assert_eq!((second.url.as_str(), second.kind), ("http://10.0.0.6:8000", BackendKind::Sglang));
}
