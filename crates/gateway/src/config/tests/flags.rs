//! Configuration without a file, and flags beside one.

use super::{Source, resolve, source};
use crate::config::settings::BackendKind;
use crate::config::{Config, ConfigError, Flag, Summary, load};

fn listen(value: &str) -> Flag {
    Flag::Value { flag: "--listen", key: "server.listen", value: value.into() }
}

fn flags(backends: &[&str]) -> Result<Config, ConfigError> {
    let flags = backends.iter().map(|flag| Flag::Backend((*flag).to_owned())).collect();
    load(&Source { flags, ..Source::default() })
}

#[test]
fn flags_name_backends_by_address_or_by_id() {
    let fleet = flags(&["http://127.0.0.1:11434", "big=http://h:8000/v2/"]).unwrap().fleet;
    let shown: Vec<_> = fleet
        .backends
        .iter()
        .map(|backend| (backend.id.as_str(), backend.url.as_str(), backend.kind))
        .collect();
    assert_eq!(
        shown,
        [
            ("127.0.0.1:11434", "http://127.0.0.1:11434", BackendKind::Auto),
            ("big", "http://h:8000/v2", BackendKind::Auto)
        ]
    );
    assert!(!fleet.discover);
}

#[test]
fn r07_no_port_determines_the_kind() {
    for port in [11_434, 8000, 30_000, 8080, 1234, 80] {
        let fleet = flags(&[&format!("http://localhost:{port}")]).unwrap().fleet;
        assert_eq!(fleet.backends[0].kind, BackendKind::Auto, "{port}");
    }
}

#[test]
fn without_file_and_flags_discovery_is_on() {
    let config = flags(&[]).unwrap();
    assert!(config.fleet.discover && config.fleet.backends.is_empty());
}

#[test]
fn flags_add_to_a_file_and_replace_its_listener() {
    let text = "[server]\nlisten = '127.0.0.1:1'\n[[backends]]\nid = 'a'\nurl = 'http://h'";
    let flags = vec![Flag::Backend("b=http://h:1".into()), listen("127.0.0.1:2")];
    let flags = Source { flags, ..source("t.toml") };
    let config = resolve(&flags, text).unwrap();
    assert_eq!(config.server.listen, "127.0.0.1:2".parse().unwrap());
    let ids: Vec<&str> = config.fleet.backends.iter().map(|backend| backend.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[test]
fn problems_of_flags_and_of_the_file_are_reported_together() {
    let text = "[[backends]]\nid = 'a'\nurl = 'http://h'\n[retry]\nattempts = 0";
    let backends = ["a=http://h:1", "=http://h", "ftp://h", "h:1"];
    let mut flags: Vec<Flag> = backends.map(|flag| Flag::Backend(flag.into())).into();
    flags.push(listen("nowhere"));
    let flags = Source { flags, ..source("t.toml") };
    let problems = resolve(&flags, text).unwrap_err().lines();
    let expected = [
        "--listen: server.listen is \"nowhere\", allowed is an address",
        "--backend =http://h: backends[2].id is \"\", allowed is 1 to 256 letters",
        "--backend ftp://h: backends[3].url is \"ftp://h\", allowed is http://HOST:PORT or https",
        "--backend h:1: backends[4].url is \"h:1\", allowed is http://HOST:PORT",
        "--backend a=http://h:1: backends[1].id is \"a\", which is the id of backends[0] already",
        "t.toml:5: retry.attempts is 0",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn the_default_file_is_taken_where_none_is_named() {
    let folder = std::env::temp_dir().join(format!("tidegate-default-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let found = || Source::default().or_default_file_in(&folder).file;
    assert_eq!(found(), None);
    for name in ["tidegate.yml", "tidegate.yaml", "tidegate.toml"] {
        std::fs::write(folder.join(name), "").unwrap();
        assert_eq!(found(), Some(folder.join(name)));
    }
    assert_eq!(source("own.toml").or_default_file_in(&folder).file, Some("own.toml".into()));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_path_in_a_file_is_meant_from_the_files_folder() {
    let text = "[discovery]\nendpoints_file = 'more.txt'";
    let fleet = resolve(&source("etc/t.toml"), text).unwrap().fleet;
    assert_eq!(fleet.endpoints_file, Some("etc/more.txt".into()));
}

#[test]
fn the_summary_shows_the_configuration() {
    let text = "[queue]\nqueue_ttl = '10s'\nhold_ttl = '2m'\nhold_capacity = 7\n\
                order = 'workload'\nflow_by = ['model', 'header:x-a']\n\
                bands = { critical = 70, high = 15, normal = 10, best_effort = 5 }\n\
                [controller]\nwatermark_per_backend = 2\nnum_poppers = 3\n\
                [[flows]]\nmatch.model = 'a*'\nweight = 3\nmax_in_flight = 4\n\
                [[backends]]\nurl = 'http://h:8000'\nplaces = 64\n[discovery]\nenabled = true";
    let expected = "\
listen    127.0.0.1:8430, bodies up to 32MiB, 30s of grace
queue     1000 in all, 100 a flow, 10s each, cost in requests, order workload, admission all
          7 in all for configured models without a backend, 2m each
bounds    watermark 2 requests a backend: bypass below 2.2, leave the queue below 1.8
bands     critical 70, high 15, normal 10, best-effort 5
flows     by model and header:x-a
          model a*: weight 3, 100 waiting, 10s each, 4 in flight
backends  h:8000: auto at http://h:8000, models read from it, 64 places
          servers found on the well-known local ports
";
    assert_eq!(Summary(&resolve(&source("t.toml"), text).unwrap()).to_string(), expected);
    let off = resolve(&source("t.toml"), "[queue]\ntotal_capacity = 0").unwrap();
    assert!(Summary(&off).to_string().contains("queue     off: "));
    let reserve = "up to 3.13 % of the places for higher bands, at least 1 for critical requests; \
                   none of fewer than 32 places";
    let bounds = format!("bounds    auto\nreserve   {reserve}\nbands     strict\n");
    assert!(Summary(&off).to_string().contains(&bounds), "{}", Summary(&off));
}
