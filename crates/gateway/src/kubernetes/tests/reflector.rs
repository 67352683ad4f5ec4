//! The list and the watch of one resource, as the API server may answer them.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::lines::{LINE_MAX, Lines, TooLong};
use super::super::objects::{InferenceObjective, Pod};
use super::super::reflector::{Call, Next, OBJECTS_MAX, Reflector, WATCH_TRIES};
use super::super::resource::{OBJECTIVES, PODS, POOLS, Resource, Selector};

const LONG: Duration = Duration::from_secs(60);

fn pods() -> Reflector<Pod> {
    let selector = Selector::Labels("app=vllm,tier in (a)".into());
    Reflector::new(Resource { kind: PODS, namespace: "models".into(), selector })
}

fn pod(name: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version.to_string()}, "status": {}})
}

fn page(names: &[&str], version: u32, next: &str) -> Vec<u8> {
    let items: Vec<Value> = names.iter().map(|name| pod(name, version)).collect();
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    json!({"kind": "PodList", "metadata": metadata, "items": items}).to_string().into()
}

fn event(kind: &str, object: &Value) -> Vec<u8> {
    json!({"type": kind, "object": object}).to_string().into()
}

fn names(reflector: &Reflector<Pod>) -> Vec<String> {
    reflector.objects().map(|pods| pods.keys().cloned().collect()).unwrap_or_default()
}

fn watch_version(reflector: &Reflector<Pod>) -> String {
    let Call::Watch(path) = reflector.call() else { panic!("{:?}", reflector.call()) };
    let (_, rest) = path.split_once("resourceVersion=").unwrap();
    rest.split('&').next().unwrap().to_owned()
}

fn trouble<T>(reflector: &Reflector<T>) -> String
where
    T: super::super::objects::Object + serde::de::DeserializeOwned,
{
    reflector.trouble().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn x02_a_list_in_pages_counts_when_its_last_page_is_there() {
    let mut reflector = pods();
    let first = "/api/v1/namespaces/models/pods?limit=200\
                 &labelSelector=app%3Dvllm%2Ctier%20in%20%28a%29";
    assert_eq!(reflector.call(), Call::List(first.into()));
    reflector.listed(&page(&["a", "b"], 5, "next page="));
    assert_eq!(reflector.call(), Call::List(format!("{first}&continue=next%20page%3D")));
    assert_eq!(reflector.objects(), None);
    reflector.listed(&page(&["c"], 5, ""));
    assert_eq!(names(&reflector), ["a", "b", "c"]);
    let Call::Watch(path) = reflector.call() else { panic!() };
    assert!(path.contains("watch=true&allowWatchBookmarks=true"), "{path}");
    assert_eq!(watch_version(&reflector), "5");
    assert_eq!(reflector.delay(1.0), Duration::ZERO);
}

#[test]
fn x02_events_change_the_list_and_move_the_version() {
    let mut reflector = pods();
    reflector.listed(&page(&["a", "b"], 5, ""));
    assert_eq!(reflector.event(&event("ADDED", &pod("c", 6))), Next::Read);
    assert_eq!(reflector.event(&event("DELETED", &pod("a", 7))), Next::Read);
    let mut changed = pod("b", 8);
    changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(reflector.event(&event("MODIFIED", &changed)), Next::Read);
    assert_eq!(names(&reflector), ["b", "c"]);
    assert!(reflector.objects().unwrap()["b"].metadata.deletion_timestamp.is_some());
    assert_eq!(watch_version(&reflector), "8");
    // A bookmark says that nothing else happened until its version.
    let bookmark = json!({"metadata": {"resourceVersion": "20"}});
    let revision = reflector.revision();
    assert_eq!(reflector.event(&event("BOOKMARK", &bookmark)), Next::Read);
    assert_eq!(reflector.event(&event("LATER", &json!({}))), Next::Read);
    assert_eq!((watch_version(&reflector).as_str(), names(&reflector).len()), ("20", 2));
    assert_eq!(reflector.revision(), revision, "no object has changed");
    reflector.event(&event("DELETED", &pod("b", 21)));
    assert_ne!(reflector.revision(), revision);
}

#[test]
fn x02_a_forgotten_version_lists_again_and_keeps_the_old_list_until_then() {
    let gone = json!({"kind": "Status", "code": 410, "message": "too old resource version"});
    for as_event in [true, false] {
        let mut reflector = pods();
        reflector.listed(&page(&["a"], 5, ""));
        match as_event {
            true => assert_eq!(reflector.event(&event("ERROR", &gone)), Next::Close),
            false => reflector.refused(410, "", None),
        }
        assert!(matches!(reflector.call(), Call::List(_)));
        assert_eq!((names(&reflector), reflector.delay(1.0)), (vec!["a".into()], Duration::ZERO));
        reflector.listed(&page(&["x"], 9, "more"));
        assert_eq!(names(&reflector), ["a"]);
        // The continuation is forgotten as well: the list begins anew.
        reflector.refused(410, "", None);
        assert!(matches!(reflector.call(), Call::List(path) if !path.contains("continue")));
        assert!(reflector.delay(1.0) > Duration::ZERO, "a second time within one watch waits");
        reflector.listed(&page(&["y"], 10, ""));
        assert_eq!((names(&reflector), trouble(&reflector)), (vec!["y".into()], String::new()));
    }
}

#[test]
fn x02_a_server_that_forgets_at_once_is_not_asked_in_a_loop() {
    let mut reflector = pods();
    let mut waited = Duration::ZERO;
    for _ in 0..12 {
        reflector.listed(&page(&["a"], 5, ""));
        reflector.refused(410, "", None);
        waited += reflector.delay(0.0);
    }
    assert!(waited > Duration::from_secs(30), "{waited:?}");
    assert!(reflector.delay(1.0) <= Duration::from_secs(30));
}

#[test]
fn x02_a_dropped_watch_resumes_from_the_last_version_with_longer_waits() {
    let mut reflector = pods();
    reflector.listed(&page(&["a"], 5, ""));
    reflector.event(&event("ADDED", &pod("b", 7)));
    let mut last = Duration::ZERO;
    for failed in 1..20 {
        reflector.ended(Some("reset".into()), Duration::ZERO);
        match failed < WATCH_TRIES {
            true => assert_eq!(watch_version(&reflector), "7"),
            // The version itself may be why.
            false => assert!(matches!(reflector.call(), Call::List(_)), "{failed}"),
        }
        let delay = reflector.delay(1.0);
        assert!(delay >= last && delay <= Duration::from_secs(30), "{delay:?}");
        last = delay;
    }
    assert_eq!((last, names(&reflector).len()), (Duration::from_secs(30), 2));
    assert!(trouble(&reflector).contains("reset"));
    // A watch that worked for a while ends the waits, even if nothing happened in it.
    reflector.listed(&page(&["a", "b"], 9, ""));
    reflector.accepted();
    reflector.ended(Some("end".into()), LONG);
    assert_eq!((reflector.delay(1.0), trouble(&reflector)), (Duration::ZERO, String::new()));
}

#[test]
fn x02_a_version_that_the_server_refuses_lists_again() {
    for status in [400, 414, 504] {
        let mut reflector = pods();
        reflector.listed(&page(&["a"], 5, ""));
        reflector.refused(status, "Too large resource version", None);
        assert!(matches!(reflector.call(), Call::List(_)), "{status}");
        assert!(reflector.delay(0.0) > Duration::ZERO, "{status}");
        assert_eq!(names(&reflector), ["a"]);
    }
}

#[test]
fn x02_a_list_does_not_end_the_waits_of_watches_that_fail() {
    let bookmark = event("BOOKMARK", &json!({"metadata": {"resourceVersion": "6"}}));
    let gone = event("ERROR", &json!({"code": 410, "message": "too old"}));
    for last in [gone.as_slice(), b"{"] {
        let mut reflector = pods();
        let mut waited = Duration::ZERO;
        for _ in 0..12 {
            reflector.listed(&page(&["a"], 5, ""));
            assert_eq!(reflector.delay(1.0), Duration::ZERO, "the watch follows its list");
            reflector.event(&bookmark);
            assert_eq!(reflector.event(last), Next::Close);
            waited += reflector.delay(0.0);
        }
        assert!(waited > Duration::from_secs(30), "{waited:?}");
        // A watch that lasted was good, even if it ends in the same way.
        reflector.listed(&page(&["a"], 5, ""));
        reflector.lasted(LONG);
        reflector.event(last);
        assert!(reflector.delay(1.0) < Duration::from_secs(1), "{:?}", reflector.delay(1.0));
    }
}

#[test]
fn x02_a_list_without_an_end_is_given_up() {
    let mut reflector = pods();
    let restarted = (0..1000).find(|number| {
        reflector.listed(&page(&[], 5, &format!("page{number}")));
        reflector.delay(0.0) > Duration::ZERO
    });
    assert!(restarted.is_some(), "endless");
    assert!(matches!(reflector.call(), Call::List(path) if !path.contains("continue")));
    assert!(trouble(&reflector).contains("pages"), "{}", trouble(&reflector));
}

#[test]
fn x02_texts_of_the_server_are_escaped_and_cut() {
    let mut reflector = pods();
    reflector.refused(500, "away\n2026 WARN forged \u{1b}[31m \"x\"", None);
    let said = trouble(&reflector);
    assert!(said.ends_with(r#"away\n2026 WARN forged \u{1b}[31m "x""#), "{said}");
    reflector.refused(500, &"é".repeat(100_000), None);
    assert!(trouble(&reflector).len() < 2000, "{}", trouble(&reflector).len());
    reflector.listed(json!({"items": "A".repeat(100_000)}).to_string().as_bytes());
    assert!(trouble(&reflector).len() < 2000, "{}", trouble(&reflector).len());
}

#[test]
fn x02_a_missing_right_is_told_with_its_verb_resource_and_namespace() {
    let mut reflector = pods();
    reflector.refused(403, "pods is forbidden: …", None);
    let said = "the service account may not list pods in the namespace models: its role lacks \
                the verb list for pods";
    assert_eq!(trouble(&reflector), said);
    assert!(reflector.delay(0.0) > Duration::ZERO);
    reflector.listed(&page(&["a"], 5, ""));
    assert_eq!(trouble(&reflector), "");
    reflector.refused(403, "", None);
    assert!(trouble(&reflector).contains("may not watch pods"), "{}", trouble(&reflector));
    assert_eq!(names(&reflector), ["a"]);
    let account = "system:serviceaccount:models:tidegate";
    reflector.refused(403, &format!("pods is forbidden: User \"{account}\" cannot …"), None);
    let named = format!("the verb watch for pods (the account is {account})");
    assert!(trouble(&reflector).ends_with(&named), "{}", trouble(&reflector));
    reflector.refused(401, "", Some("/var/token".into()));
    assert_eq!(trouble(&reflector), "the API server does not accept the token in /var/token");
    reflector.refused(500, "etcd is away", None);
    assert!(trouble(&reflector).contains("answered 500 to watch pods"), "{}", trouble(&reflector));
    assert_eq!((watch_version(&reflector), names(&reflector)), ("5".into(), vec!["a".into()]));
}

#[test]
fn x02_a_kind_is_looked_for_in_each_of_its_groups() {
    let resource = |kind| Resource { kind, namespace: "n".into(), selector: Selector::All };
    let list = |reflector: &Reflector<InferenceObjective>| match reflector.call() {
        Call::List(path) => path,
        Call::Watch(path) => panic!("{path}"),
    };
    let mut objectives = Reflector::<InferenceObjective>::new(resource(OBJECTIVES));
    assert!(list(&objectives).starts_with("/apis/llm-d.ai/v1alpha2/namespaces/n/inferenceobj"));
    objectives.refused(404, "", None);
    assert_eq!(objectives.delay(1.0), Duration::ZERO);
    assert!(list(&objectives).starts_with("/apis/inference.networking.x-k8s.io/v1alpha2/"));
    objectives.refused(404, "", None);
    // A cluster without the kind is not wrong, and it may be installed later.
    assert_eq!((objectives.objects().map(|all| all.len()), objectives.trouble()), (Some(0), None));
    assert!(objectives.delay(1.0) > Duration::from_secs(30));
    assert!(list(&objectives).contains("llm-d.ai"));
    let mut pools = Reflector::<InferenceObjective>::new(resource(POOLS));
    pools.refused(404, "", None);
    pools.refused(404, "", None);
    assert!(trouble(&pools).contains("does not know inferencepools"), "{}", trouble(&pools));
    assert!(pools.objects().is_none() && pools.delay(1.0) < Duration::from_secs(30));
    // A group that has worked is not left for another one, which may be empty.
    pools.listed(&page(&["llama"], 5, ""));
    pools.refused(404, "", None);
    assert!(list(&pools).contains("inference.networking.k8s.io/v1/"), "{}", list(&pools));
    assert!(pools.objects().unwrap().contains_key("llama") && pools.trouble().is_some());
}

/// The role of an older picker has the objectives of the older group alone.
#[test]
fn x02_a_right_for_the_older_group_is_enough() {
    let objectives = || -> Reflector<InferenceObjective> {
        let namespace = "models".into();
        Reflector::new(Resource { kind: OBJECTIVES, namespace, selector: Selector::All })
    };
    let mut reflector = objectives();
    reflector.refused(403, "forbidden", None);
    assert_eq!((reflector.delay(1.0), trouble(&reflector)), (Duration::ZERO, String::new()));
    let older = "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/models/";
    let Call::List(path) = reflector.call() else { panic!("{:?}", reflector.call()) };
    assert!(path.starts_with(older), "{path}");
    reflector.listed(&page(&["gold"], 5, ""));
    assert_eq!(reflector.objects().map(|found| found.len()), Some(1));
    // Without either right, the newer group is named.
    let mut without = objectives();
    for status in [403, 404] {
        without.refused(403, "forbidden", None);
        without.refused(status, "forbidden", None);
        let said = trouble(&without);
        assert!(said.contains("may not list inferenceobjectives of llm-d.ai"), "{said}");
        assert!(without.delay(0.0) > Duration::ZERO && without.objects().is_none());
    }
}

#[test]
fn x02_unreadable_answers_change_nothing_and_end_the_watch() {
    let mut reflector = pods();
    reflector.listed(b"{\"items\": 3}");
    assert!(trouble(&reflector).contains("unreadable about pods"), "{}", trouble(&reflector));
    reflector.listed(&page(&["a"], 5, ""));
    for line in ["", "{", "[]", "{\"type\":3}", "{\"type\":\"ADDED\",\"object\":7}", "\u{0}"] {
        assert_eq!(reflector.event(line.as_bytes()), Next::Close, "{line}");
        assert!(matches!(reflector.call(), Call::List(_)), "{line}");
        assert_eq!(names(&reflector), ["a"]);
        reflector.listed(&page(&["a"], 5, ""));
    }
}

#[test]
fn x02_the_number_of_objects_is_bounded() {
    let many: Vec<String> = (0..OBJECTS_MAX + 1).map(|at| format!("p{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut reflector = pods();
    reflector.listed(&page(&many, 5, "more"));
    assert_eq!(names(&reflector).len(), OBJECTS_MAX);
    assert!(trouble(&reflector).contains("more than 5000 pods"), "{}", trouble(&reflector));
    reflector.event(&event("ADDED", &pod("zz", 9)));
    assert_eq!(names(&reflector).len(), OBJECTS_MAX);
    reflector.event(&event("DELETED", &pod("p0", 10)));
    reflector.event(&event("ADDED", &pod("zz", 11)));
    assert!(names(&reflector).contains(&"zz".to_owned()));
}

#[test]
fn x02_lines_are_cut_anywhere_and_bounded() {
    let text = b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\"";
    for cut in 0..text.len() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for part in [&text[..cut], &text[cut..]] {
            let read = lines.push(part, |line| {
                seen.push(line.trim_ascii().to_vec());
                true
            });
            assert_eq!(read, Ok(true));
        }
        assert_eq!(seen, [b"{\"a\":1}".to_vec(), b"{\"b\":2}".to_vec()], "{cut}");
    }
    let mut lines = Lines::default();
    assert_eq!(lines.push(b"stop\nmore\n", |_| false), Ok(false));
    let mut lines = Lines::default();
    assert_eq!(lines.push(&vec![b'x'; LINE_MAX], |_| true), Ok(true));
    assert_eq!(lines.push(b"x", |_| true), Err(TooLong));
}
