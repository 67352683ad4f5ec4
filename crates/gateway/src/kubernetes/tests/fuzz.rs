//! Mutated lines and pages of an API server.

use super::super::lines::Lines;
use super::super::objects::Pod;
use super::super::reflector::{Next, Reflector};
use super::super::resource::{PODS, Resource, Selector};
use crate::fuzz::fuzz;

const PAGE: &[u8] = br#"{"kind":"PodList","metadata":{"resourceVersion":"5","continue":""},
    "items":[{"metadata":{"name":"a","labels":{"x":"y"}},"status":{"podIP":"10.0.0.1"}}]}"#;

const WATCH: &[u8] = b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"b\",\
    \"resourceVersion\":\"7\"},\"status\":{\"conditions\":[{\"type\":\"Ready\"}]}}}\n\
    {\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n\
    {\"type\":\"ERROR\",\"object\":{\"code\":410}}\n";

#[test]
fn x03_fuzz_answers_of_an_api_server() {
    let words: [&[u8]; 4] = [b"\n", b"\"type\":", b"\"metadata\":{", b"410"];
    fuzz("api-server", &[PAGE, WATCH], &words, |input, _| {
        let resource = Resource { kind: PODS, namespace: "n".into(), selector: Selector::All };
        let mut reflector = Reflector::<Pod>::new(resource);
        reflector.listed(PAGE);
        let read = Lines::default().push(input, |line| reflector.event(line) == Next::Read);
        let after = reflector.objects().map_or(0, |pods| pods.len());
        reflector.listed(input);
        // Whatever came, something is known and the next request is.
        let (known, call) = (reflector.objects().is_some(), reflector.call());
        assert!(known, "{call:?}");
        format!("{read:?} {} {}", after.min(4), reflector.trouble().is_some())
    });
}
