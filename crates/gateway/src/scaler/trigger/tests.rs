//! What the metadata of a trigger means.

use super::*;

fn read(metadata: &[(&str, &str)]) -> Result<Trigger, Status> {
    let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Trigger::read(&metadata.iter().map(entry).collect())
}

#[test]
fn the_usual_metric_is_the_number_of_backends() {
    let trigger = read(&[("scalerAddress", "tidegate:9005"), ("model", "m")]).unwrap();
    assert_eq!((trigger.metric, trigger.target), (Metric::BackendsWanted, 1.0));
    assert_eq!(trigger.model.as_deref(), Some("m"));
    let trigger = read(&[("metric", "tokens"), ("target", " 2.5e4 ")]).unwrap();
    assert_eq!((trigger.metric, trigger.target), (Metric::Tokens, 25_000.0));
    assert_eq!(trigger.model, None);
}

#[test]
fn metadata_that_is_not_understood_is_refused_by_name() {
    for (metadata, text) in [
        (&[("metric", "queues")][..], "metric is \"queues\", it must be one of: backendsWanted"),
        (&[("target", "many")], "target is \"many\", it must be a number above 0"),
        (&[("target", "0")], "target is \"0\""),
        (&[("target", "-1")], "target is \"-1\""),
        (&[("target", "inf")], "target is \"inf\""),
        (&[("metric", "tokens")], "target is missing: the metric tokens has no usual one"),
    ] {
        let status = read(metadata).unwrap_err();
        assert_eq!(status.code, Code::InvalidArgument);
        assert!(status.text.starts_with(text), "{}", status.text);
    }
}
