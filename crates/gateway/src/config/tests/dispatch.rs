//! The sections `batch` and `dispatch`.

use std::path::Path;
use std::time::Duration;

use flow::Band;

use super::{bad, good};
use crate::config::settings::dispatch::{Capacity, GateKind, Unit};
use crate::config::{Flag, Source, Summary, resolve};
use crate::gates::{AimdGate, GatewayGate, MetricMeaning};

#[test]
fn d10_a_folder_opens_the_batch_api_with_a_queue_of_its_own() {
    assert!(good("").dispatch.queues.is_empty());
    let config = good("[batch]\nfolder = '/srv/batch'\nkeep = '1d'\nlines_max = 10");
    assert_eq!(config.batch.folder.as_deref(), Some(Path::new("/srv/batch")));
    assert_eq!((config.batch.lines_max, config.batch.keep), (10, Duration::from_secs(86_400)));
    let [queue] = config.dispatch.queues.as_slice() else { panic!("one queue") };
    assert_eq!((queue.name.as_str(), queue.band), ("batch", Band::BestEffort));
    assert_eq!(queue.gates, ["gateway"]);
    assert_eq!(config.dispatch.gates[0].kind, GateKind::Gateway(GatewayGate { rest: 1.0 }));
}

#[test]
fn d08_queues_have_weights_tenants_gates_and_a_band_of_their_own() {
    let config = good(
        "[[dispatch.queues]]\nname = 'a'\nweight = 3\ntenants = { x = 2.5 }\n\
         target = 'http://h:1'\nband = 'normal'\n\
         [[dispatch.queues]]\nname = 'b'\ntarget = 'http://h:1'\ngates = ['c']\n\
         [[dispatch.gates]]\nname = 'c'\nkind = 'constant'\ncapacity = 7",
    );
    let [a, b] = config.dispatch.queues.as_slice() else { panic!("two queues") };
    assert_eq!((a.weight, a.tenants.as_slice()), (3.0, &[("x".to_owned(), 2.5)][..]));
    assert_eq!((a.band, b.band), (Band::Normal, Band::BestEffort));
    assert_eq!((a.gates.as_slice(), b.gates.as_slice()), (&["aimd".into()][..], &["c".into()][..]));
    let names: Vec<&str> = config.dispatch.gates.iter().map(|gate| gate.name.as_str()).collect();
    assert_eq!(names, ["c", "aimd"], "a gate that a queue has by default is made");
}

#[test]
fn d02_every_kind_of_gate_is_configured() {
    let config = good(
        "[[dispatch.gates]]\nname = 'a'\nkind = 'scrape'\nurl = 'http://h:1/metrics'\n\
         metric = 'm'\n\
         says = 'count'\ncapacity_per_server = 10\nlabels = { pool = 'p' }\nunit = 'tokens'\n\
         baseline = 0.3\n\
         [[dispatch.gates]]\nname = 'b'\nkind = 'prometheus-query'\nurl = 'http://h:1'\n\
         query = 'x'\ncapacity = 5\ninterval = '10s'\n\
         [[dispatch.gates]]\nname = 'c'\nkind = 'redis'\nurl = 'redis://h:1'\ncapacity = 5\n\
         [[dispatch.gates]]\nname = 'd'\nkind = 'aimd'\nmax = 9",
    );
    let [a, b, c, d] = config.dispatch.gates.as_slice() else { panic!("four gates") };
    assert_eq!((a.baseline, a.unit), (0.3, Unit::Tokens));
    assert_eq!(a.capacity, Capacity::PerServer { each: 10.0, ready: None });
    let GateKind::Scrape(scrape) = &a.kind else { panic!("{a:?}") };
    assert_eq!((scrape.says, scrape.labels.len()), (MetricMeaning::Count, 1));
    assert_eq!(b.stale_after, None, "it follows from the interval, or is learnt");
    let GateKind::Redis(redis) = &c.kind else { panic!("{c:?}") };
    assert_eq!(redis.key, "dispatch-gate-budget");
    assert_eq!(d.kind, GateKind::Aimd(AimdGate { min: 1, max: 9 }));
}

#[test]
fn d02_a_gate_with_a_problem_is_reported_before_anything_runs() {
    let reports = |text: &str, expected: &str| {
        let problems = bad(text).join("\n");
        assert!(problems.contains(expected), "{text}\n{problems}");
    };
    let gate = |rest: &str| format!("[[dispatch.gates]]\nname = 'g'\n{rest}");
    reports(&gate("kind = 'prometeus-query'"), "did you mean \"prometheus-query\"?");
    reports(&gate("kind = 'constant'"), "capacity is missing");
    reports(&gate("kind = 'aimd'\nquery = 'x'"), "query means nothing to the kind \"aimd\"");
    reports(&gate("kind = 'redis'\ncapacity = 1"), "url is missing");
    reports(&gate("kind = 'gateway'\nbaseline = 1.1"), "allowed is 0 to 1");
    reports(&gate("kind = 'gateway'\nrest = -1"), "allowed is 0 to 1000");
    reports(&gate("kind = 'constant'\ncapacity = 1\nrest = 1"), "means nothing to the kind");
    reports(&gate("kind = 'gateway'\ncapacity = 1\ncapacity_per_server = 1"), "leave one out");
    reports(&gate("kind = 'constant'\ncapacity_per_server = 1"), "does not know how many servers");
    reports(&gate("kind = 'aimd'\nmin = 5\nmax = 4"), "less than min");
    let scrape = "kind = 'scrape'\nmetric = 'm'\ncapacity = 1\nurl = 'ftp://h/metrics'";
    reports(&gate(scrape), "it must begin with http:// or https://");
    reports("[[dispatch.queues]]\nname = 'q'\ngates = ['x']", "which is not in [[dispatch.gates]]");
    reports("[[dispatch.queues]]\nname = 'q'\n[[dispatch.queues]]\nname = 'q'", "already");
    reports("[[dispatch.queues]]\nweight = 1", "name is missing");
    reports("[[dispatch.queues]]\nname = 'q'\nweight = 0", "more than 0");
    reports("[[dispatch.queues]]\nname = 'q'\ntenants = { a = 'x' }", "more than 0");
    reports("[[dispatch.queues]]\nname = 'q'\ntarget = 'h:1'", "is not a server's address");
    reports("[[dispatch.queues]]\nname = 'q'\npath = 'v1'", "must begin with /");
    reports("[dispatch.redis]\nurls = 'http://h'", "redis://host:6379");
    reports("[dispatch]\nbackoff = '10s'\nbackoff_max = '5s'", "less than dispatch.backoff");
}

#[test]
fn d02_every_error_in_a_gate_is_reported_once() {
    let queue = "[[dispatch.queues]]\nname = 'q'\ntarget = 'http://h:1'\ngates = ['g']\n";
    let reports = |rest: &str| {
        let problems = bad(&format!("{queue}[[dispatch.gates]]\nname = 'g'\n{rest}"));
        problems.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    let wrong = reports("kind = 'prometeus'");
    assert!(wrong.len() == 1 && wrong[0].starts_with("dispatch.gates[0].kind is"), "{wrong:?}");
    let wrong = reports("kind = 'constant'\ncapacity = -1");
    assert_eq!(
        wrong,
        ["dispatch.gates[0].capacity is -1, allowed is more than 0 and at most 1000000000000"]
    );
    let wrong = reports("kind = 'redis'\ncapacity = 1\nurl = 5");
    assert!(wrong.len() == 1 && wrong[0].contains("url is 5"), "{wrong:?}");
    let wrong = reports("kind = 'scrape'").join("\n");
    for key in ["url is missing", "metric is missing", "capacity is missing: say how many"] {
        assert!(wrong.contains(key), "{key}: {wrong}");
    }
}

#[test]
fn d02_an_unknown_gate_is_reported_with_the_known_ones() {
    let queue = "[[dispatch.queues]]\nname = 'q'\ngates = ['x']\n";
    let problems = bad(&format!("{queue}[[dispatch.gates]]\nname = 'own'\nkind = 'aimd'"));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("known are: aimd, gateway, own"), "{problems:?}");
}

#[test]
fn d01_flags_name_a_queue_its_server_and_its_target() {
    let redis = |url: &str| Flag::List {
        flag: "--redis",
        key: "dispatch.redis.urls",
        values: vec![url.into()],
    };
    let (flag, key) = ("--listen", "dispatch.listen");
    let listen = Flag::Value { flag, key, value: "127.0.0.1:99".into() };
    let flags = vec![redis("redis://h:1"), Flag::Queue("q".into()), listen];
    let source = Source { flags, target: Some("http://t:2".into()), ..Source::default() };
    let dispatch = resolve(&source, "[dispatch.redis]\nurls = 'redis://other'").unwrap().dispatch;
    assert_eq!(dispatch.redis.unwrap().urls, ["redis://h:1"]);
    assert_eq!(dispatch.queues[0].target.as_deref(), Some("http://t:2"));
    assert_eq!(dispatch.listen.port(), 99);
    let wrong = Source { flags: vec![redis("h:1")], ..Source::default() };
    assert!(resolve(&wrong, "").unwrap_err().lines()[0].contains("--redis"));
}

#[test]
fn d10_the_summary_shows_the_batch_api_its_queues_and_its_gates() {
    let config = good(
        "[batch]\nfolder = '/srv/batch'\n[dispatch.redis]\nurls = 'redis://me:secret@h:6379'\n\
         [[dispatch.queues]]\nname = 'q'\n\
         [[dispatch.queues]]\nname = 'r'\nband = 'normal'\ntarget = 'http://t:1'\n\
         gates = ['half', 'aimd']\n\
         [[dispatch.gates]]\nname = 'half'\nkind = 'constant'\nbaseline = 0.5\ncapacity = 40",
    );
    let expected = "\
batch     in /srv/batch: files up to 200MiB, 20GiB together, batches up to 50000 requests, kept 30d
dispatch  up to 64 requests at once, 5m each, tried until their deadline, shared at redis://h:6379
          queue q to this gateway as best-effort, through gateway
          queue r to http://t:1 as normal, through half and aimd
          queue batch to this gateway as best-effort, through gateway
          gate half: constant, 40 in all, a share of 0.5 left to other work
          gate gateway: gateway, a share of 0.2 left to other work
          gate aimd: aimd, 1 to 256 in flight
note      the queue \"q\" has no target: `serve` sends it to itself, `dispatch` needs --target URL
";
    let shown = Summary(&config).to_string();
    let (_, shown) = shown.split_once("batch     ").unwrap();
    assert_eq!(format!("batch     {shown}"), expected);
    let shown =
        Summary(&good("[[dispatch.queues]]\nname = 'q'\ntarget = 'http://t:1'")).to_string();
    assert!(shown.contains("note      the queue \"q\" has no store: set dispatch.redis.urls or"));
    let inside = "[dispatch.redis]\nurls = 'redis://h:1'\n[[dispatch.queues]]\nname = 'q'\n\
                  target = 'http://t:1'\ngates = ['gateway']";
    let shown = Summary(&good(inside)).to_string();
    let note =
        "note      the queue \"q\" goes through \"gateway\", which reads the state of `serve`: ";
    assert!(shown.contains(note), "{shown}");
    let plain = Summary(&good("")).to_string();
    assert!(!plain.contains("batch") && !plain.contains("dispatch"), "{plain}");
}

#[test]
fn m03_a_constant_gate_that_never_opens_gets_a_notice() {
    let notices = |value: &str| {
        let gate = "[[dispatch.gates]]\nname = 'g'\nkind = 'constant'\ncapacity = 8\n";
        let config = good(&format!("{gate}baseline = 0.2\nvalue = {value}\n"));
        config.notices.into_iter().map(|notice| notice.text).collect::<Vec<_>>()
    };
    let text = "dispatch.gates[0].value is 0.2, not above the baseline 0.2: the gate never opens";
    assert_eq!(notices("0.2"), [text]);
    assert_eq!(notices("0.3"), [""; 0]);
}

/// The baseline of the design is a number from 0 to 1, both included.
#[test]
fn d03_a_baseline_of_one_keeps_a_gate_closed() {
    let gate = "[[dispatch.gates]]\nname = 'g'\nkind = 'gateway'\nbaseline = 1.0\n";
    let config = good(gate);
    assert_eq!(config.dispatch.gates.last().map(|gate| gate.baseline), Some(1.0));
}

#[cfg(feature = "pubsub")]
#[test]
fn d09_pubsub_is_configured_within_its_limits() {
    let pubsub = "[dispatch.pubsub]\nproject = 'p'\nresults = 'r'\n";
    let found = good(pubsub).dispatch.pubsub.unwrap();
    assert_eq!((found.project.as_str(), found.results.as_str()), ("p", "r"));
    assert_eq!((found.dead_letters, found.credentials, found.endpoint), (None, None, None));
    let reports = |text: &str, expected: &str| {
        let problems = bad(text);
        assert!(problems.len() == 1 && problems[0].contains(expected), "{text}\n{problems:?}");
    };
    reports("[dispatch.pubsub]\nproject = 'p'", "dispatch.pubsub.results is missing");
    reports("[dispatch.pubsub]\nresults = 'r'", "dispatch.pubsub.project is missing");
    reports(&format!("{pubsub}endpoint = 'h:1'"), "is not a server's address");
    let lease = format!("{pubsub}[dispatch]\nlease = '11m'");
    reports(&lease, "dispatch.lease is longer than 10m");
    let redis = format!("{pubsub}[dispatch.redis]\nurls = ['redis://h:1']");
    reports(&redis, "dispatch.pubsub stands beside dispatch.redis");
    let kept = format!("{pubsub}[[dispatch.queues]]\nname = 'q'\nresults_ttl = '1h'");
    reports(&kept, "results_ttl, which has no effect in Pub/Sub");
}
