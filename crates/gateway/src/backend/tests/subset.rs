//! X02: a router in front of the picker may restrict the backends of a request.

use std::collections::BTreeSet;

use flow::{ModelId, Span};

use super::super::EndpointAddress;
use super::super::subset::Subset;
use super::*;

fn fleet(specs: Vec<BackendSpec>) -> Arc<Fleet> {
    let clock = Clock::start();
    let scheduler = Arc::new(Scheduler::new(Settings::default(), clock));
    let settings = FleetSettings { backends: specs, ..FleetSettings::default() };
    Fleet::new(&settings, scheduler, clock)
}

fn addresses(texts: &[&str]) -> BTreeSet<EndpointAddress> {
    texts.iter().map(|text| EndpointAddress::parse(text).unwrap()).collect()
}

fn model(fleet: &Fleet, name: &str) -> ModelId {
    match fleet.roster().lookup(name) {
        Lookup::Known(model) => model,
        other => panic!("{other:?}"),
    }
}

fn number(fleet: &Fleet, model: ModelId, hint: &BTreeSet<EndpointAddress>) -> Option<ModelId> {
    let subset = fleet.subset_model(model, hint)?;
    assert!(subset.present);
    Some(subset.id)
}

/// The names of the backends that the core may choose.
fn choices(fleet: &Fleet, model: ModelId) -> Vec<String> {
    let state = fleet.state();
    let takes = state.backends.values().filter(|backend| backend.takes().contains(&model));
    takes.map(|backend| backend.spec.id.clone()).collect()
}

#[test]
fn x02_a_subset_is_a_model_that_only_its_backends_serve() {
    let specs = vec![
        spec("a", 1, BackendKind::Vllm, &["m"]),
        spec("b", 2, BackendKind::Vllm, &["m", "n"]),
        spec("c", 3, BackendKind::Vllm, &["n"]),
    ];
    let fleet = fleet(specs);
    let (m, n) = (model(&fleet, "m"), model(&fleet, "n"));
    let subset_model = |model, texts: &[&str]| number(&fleet, model, &addresses(texts));

    let best = subset_model(m, &["127.0.0.1:2", "127.0.0.1:9"]).unwrap();
    assert_eq!(choices(&fleet, best), ["b"]);
    let by_ip = subset_model(m, &["127.0.0.1"]).unwrap();
    assert_eq!(choices(&fleet, by_ip), ["a", "b"]);
    let other = subset_model(n, &["127.0.0.1:2", "127.0.0.1:9"]).unwrap();
    assert_eq!(choices(&fleet, other), ["b"]);
    assert_eq!(BTreeSet::from([m, n, best, by_ip, other]).len(), 5, "each has its own number");

    assert_eq!(subset_model(m, &["127.0.0.1:2", "127.0.0.1:9"]), Some(best), "and keeps it");
    assert_eq!(choices(&fleet, m), ["a", "b"], "the model itself is what it was");
}

#[test]
fn x02_an_empty_subset_has_no_id() {
    let fleet = fleet(vec![spec("a", 1, BackendKind::Vllm, &["m"])]);
    let model = model(&fleet, "m");
    for texts in [&[][..], &["10.0.0.1"], &["127.0.0.1:2"]] {
        assert_eq!(fleet.subset_model(model, &addresses(texts)), None, "{texts:?}");
    }
}

#[test]
fn x02_a_subset_follows_its_addresses() {
    let fleet = fleet(vec![spec("a", 1, BackendKind::Vllm, &["m"])]);
    let (model, hint) = (model(&fleet, "m"), addresses(&["127.0.0.1:1"]));
    let before = number(&fleet, model, &hint).unwrap();
    let backends = vec![spec("b", 1, BackendKind::Vllm, &["m"])];
    fleet.configure(&FleetSettings { backends, ..FleetSettings::default() });
    let after = number(&fleet, model, &hint);
    assert_eq!(after, Some(before), "requests that wait for it hold its number");
    assert_eq!(choices(&fleet, before), ["b"]);
}

/// The backend is not there yet, or its model list is unknown.
#[test]
fn x02_o06_a_configured_model_has_subsets_without_a_backend() {
    let fleet = fleet(Vec::new());
    let settings = |backends| FleetSettings {
        backends,
        configured_models: vec!["m".into()],
        ..FleetSettings::default()
    };
    fleet.configure(&settings(Vec::new()));
    let Lookup::Configured(model) = fleet.roster().lookup("m") else { panic!("not configured") };
    let hint = addresses(&["127.0.0.1:2", "10.0.0.1"]);
    let awaited = fleet.subset_model(model, &hint).unwrap();
    assert!(!awaited.present && awaited.id != model);
    assert!(fleet.roster().awaited().any(|id| id == awaited.id));
    assert_eq!(fleet.subset_model(model, &addresses(&[])), None, "an empty hint allows none");
    fleet.configure(&settings(vec![
        spec("a", 1, BackendKind::Vllm, &["m"]),
        spec("b", 2, BackendKind::Vllm, &[]),
    ]));
    assert_eq!(fleet.subset_model(model, &hint), Some(awaited));
    let listed = spec("b", 2, BackendKind::Vllm, &["m"]);
    fleet.configure(&settings(vec![spec("a", 1, BackendKind::Vllm, &["m"]), listed]));
    assert_eq!(choices(&fleet, awaited.id), ["b"]);
    assert!(fleet.subset_model(model, &hint).unwrap().present);
}

#[test]
fn x02_hints_that_mean_the_same_backends_are_one_subset() {
    let fleet = fleet(vec![spec("a", 1, BackendKind::Vllm, &["m"])]);
    let model = model(&fleet, "m");
    let first = number(&fleet, model, &addresses(&["127.0.0.1"]));
    for other in 0..100 {
        let hint = addresses(&["127.0.0.1:1", &format!("10.0.0.{other}")]);
        assert_eq!(number(&fleet, model, &hint), first);
    }
}

/// Each selection of nine backends is a subset of its own.
#[test]
fn x02_there_is_a_limit_to_subsets_and_they_move_with_the_times() {
    let specs = (1..=9).map(|port| spec(&format!("b{port}"), port, BackendKind::Vllm, &["m"]));
    let fleet = fleet(specs.collect());
    let model = model(&fleet, "m");
    let hint = |mask: u16| -> BTreeSet<EndpointAddress> {
        let ports = (0..9).filter(|bit| mask >> bit & 1 == 1).map(|bit| bit + 1);
        ports.filter_map(|port| EndpointAddress::parse(&format!("127.0.0.1:{port}"))).collect()
    };
    let numbered = (1..512).filter(|&mask| fleet.subset_model(model, &hint(mask)).is_some());
    assert_eq!(numbered.count(), 256);
    assert!(fleet.state().backends.values().all(|backend| backend.serves == [model]));
    let roster = fleet.roster();
    let new = Subset::of(model, &hint(511), roster.backends.values()).unwrap();
    let later = fleet.clock.now().after(Span::from_secs(301));
    fleet.state().request_subset(new.clone(), later);
    let update = fleet.state().take_update(later).unwrap();
    assert_eq!(update.roster.subsets.len(), 256);
    assert!(update.roster.subsets.contains_key(&new), "in the place of one that is old");
}

#[test]
fn x02_endpoint_addresses_have_an_optional_port() {
    assert!(EndpointAddress::parse(" 10.0.0.1:8000 ").is_some());
    assert!(EndpointAddress::parse("[::1]:8000").is_some());
    assert!(EndpointAddress::parse("::1").is_some());
    assert_eq!(
        [
            EndpointAddress::parse(""),
            EndpointAddress::parse("host:80"),
            EndpointAddress::parse("10.0.0.1:x")
        ],
        [None; 3]
    );
}

#[test]
fn x02_an_address_is_that_of_the_newest_backend_there() {
    let fleet = fleet(vec![spec("old", 1, BackendKind::Vllm, &["m"])]);
    let backends = vec![spec("new", 1, BackendKind::Vllm, &["m"])];
    fleet.configure(&FleetSettings { backends, ..FleetSettings::default() });
    let roster = fleet.roster();
    assert_eq!(roster.backends.len(), 2, "one of them is leaving");
    assert_eq!(roster.at(([127, 0, 0, 1], 1).into()).unwrap().name, "new");
    assert!(roster.at(([127, 0, 0, 1], 2).into()).is_none());
}

#[test]
fn x02_for_envoy_a_backend_without_an_ip_address_is_ignored() {
    let mut named = spec("named", 1, BackendKind::Vllm, &["m"]);
    named.url = "http://some.host:8000".into();
    for (addressed, count) in [(true, 1), (false, 2)] {
        let fleet = fleet(Vec::new());
        let backends = vec![named.clone(), spec("b", 2, BackendKind::Vllm, &["m"])];
        let settings = FleetSettings { backends, addressed, ..FleetSettings::default() };
        fleet.configure(&settings);
        assert_eq!(fleet.roster().backends.len(), count);
    }
}
