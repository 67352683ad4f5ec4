//! The dispatcher with queues in Pub/Sub, on Google's own fake server.

use std::process::Command;

use serde_json::{Value, json};

use super::fixture::{Dispatcher, OPEN, QUICK, unix};
use crate::support::backend::Seen;
use crate::support::pubsub::{self, subscription};
use crate::support::{Backend, Process, PubSub, ScriptedResponse, eventually, fresh_file, run};

/// The queue of these tests: a subscription and its topic.
pub(super) const QUEUE: &str = "requests";
const UNAVAILABLE: u32 = 14;

/// A server with a queue, and the topics of results and dead letters.
pub(super) fn server() -> PubSub {
    let server = PubSub::start();
    for topic in ["forwarded", "results", "dead"] {
        server.create_topic(topic);
    }
    server.create_queue(QUEUE);
    server
}

/// A configuration: the given sections, and one queue with these gates.
pub(super) fn config(sections: &str, gates: &str, server: &PubSub, backend: &Backend) -> String {
    let (place, target) = (server.address(), backend.address());
    format!(
        "{sections}\n{OPEN}\n[dispatch.pubsub]\nproject = \"{}\"\nresults = \"results\"\n\
         dead_letters = \"dead\"\nendpoint = \"http://{place}\"\n\
         [[dispatch.queues]]\nname = \"{QUEUE}\"\ntarget = \"http://{target}\"\n\
         gates = [{gates}]\n",
        pubsub::PROJECT
    )
}

/// Publishes a request as a producer of llm-d-async does; returns its id in Pub/Sub.
pub(super) fn submit(server: &PubSub, id: &str, deadline: u64) -> String {
    let request = json!({
        "id": id, "created": unix(), "deadline": deadline,
        "payload": {"model": "m", "mark": id, "messages": [{"role": "user", "content": id}]},
        "metadata": {"userid": "team-a"}, "endpoint": "/v1/chat/completions",
    });
    server.publish(QUEUE, &request.to_string(), &json!({}))
}

/// Waits for this number of results.
pub(super) fn await_results(server: &PubSub, count: usize) -> Vec<Value> {
    eventually("results", || {
        let results = server.published("results");
        if results.len() >= count { Ok(results) } else { Err(format!("{} results", results.len())) }
    })
}

/// Waits until no message of the queue is unacknowledged.
fn await_acknowledged(server: &PubSub, count: usize) {
    eventually("acknowledged", || {
        let acks = server.events().iter().filter(|event| event["call"] == "ack").count();
        if acks >= count { Ok(()) } else { Err(format!("{acks} acknowledged")) }
    });
}

struct Fixture {
    server: PubSub,
    backend: Backend,
    dispatcher: Dispatcher,
}

impl Fixture {
    fn start(sections: &str, script: fn(&Seen) -> ScriptedResponse) -> Self {
        let (server, backend) = (server(), Backend::start(script));
        let sections = format!("{QUICK}{sections}");
        let dispatcher = Dispatcher::start(&config(&sections, "\"open\"", &server, &backend));
        Self { server, backend, dispatcher }
    }

    fn tidegate(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let url = format!("http://{}", self.dispatcher.process.address());
        command.args(arguments).args(["--url", &url]);
        command
    }
}

/// The producer and the consumer know nothing of Tidegate: a bare request whose attributes are
/// metadata, and a result without attributes.
#[test]
fn d09_a_request_in_pubsub_is_sent_and_its_result_is_published() {
    let fixture = Fixture::start("", |_| ScriptedResponse::json(200, "{\"answer\": 42}"));
    let request = json!({
        "id": "one", "created": unix(), "deadline": unix() + 600,
        "payload": {"model": "m", "prompt": "hi"}, "metadata": {"userid": "team-a"},
        "headers": {"x-own": "kept"},
    });
    fixture.server.publish(QUEUE, &request.to_string(), &json!({"userid": "team-b"}));
    let results = await_results(&fixture.server, 1);
    let expected = json!({"id": "one", "status_code": 200, "payload": "{\"answer\": 42}"});
    assert_eq!(results, [expected]);
    await_acknowledged(&fixture.server, 1);
    let seen = &fixture.backend.seen()[0];
    assert_eq!(seen.path, "/v1/completions", "the default of llm-d-async");
    assert_eq!(seen.header("x-own"), Some("kept"));
    assert_eq!(seen.header("x-gateway-inference-fairness-id"), Some("team-b"));
    let events = fixture.server.events();
    assert_eq!(events[0]["attributes"], Value::Null);
}

/// The variable of Google's own clients. The configuration names no server.
#[test]
fn d09_an_emulator_is_found_by_the_variable_of_googles_clients() {
    let (server, backend) = (server(), Backend::quick());
    let config = config(QUICK, "\"open\"", &server, &backend);
    let endpoint = format!("endpoint = \"http://{}\"\n", server.address());
    let file = fresh_file();
    std::fs::write(&file, config.replace(&endpoint, "")).unwrap();
    let arguments = ["dispatch", "--config", file.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let emulator = [("PUBSUB_EMULATOR_HOST", server.address())];
    let _process = Process::start_in(&arguments, &["listening on http://"], &emulator);
    submit(&server, "one", unix() + 600);
    assert_eq!(await_results(&server, 1)[0]["status_code"], 200);
}

/// A message that waits stays with its dispatcher: Pub/Sub counts no further delivery.
#[test]
fn d05_an_overload_counts_no_delivery_of_a_message_in_pubsub() {
    let fixture = Fixture::start("", |seen| match seen.number {
        0..3 => ScriptedResponse::json(429, "{}"),
        _ => ScriptedResponse::ok(),
    });
    submit(&fixture.server, "one", unix() + 600);
    assert_eq!(await_results(&fixture.server, 1)[0]["status_code"], 200);
    assert_eq!(fixture.backend.seen().len(), 4);
    assert_eq!(fixture.server.messages()[0]["deliveries"], 1);
}

/// The response takes longer than the deadline of the subscription, and no other worker is free.
#[test]
fn d07_a_message_of_pubsub_that_waits_for_a_worker_is_delivered_once() {
    let sections = "workers = 1\nlease = \"10m\"\n";
    let fixture = Fixture::start(sections, |_| ScriptedResponse::ok().held());
    submit(&fixture.server, "sent", unix() + 600);
    fixture.backend.await_running(1);
    submit(&fixture.server, "ahead", unix() + 600);
    eventually("received ahead", || match fixture.dispatcher.page("/dispatch.txt").text() {
        page if page.contains("1 pending here") => Ok(()),
        page => Err(page),
    });
    fixture.server.advance(60.0);
    fixture.backend.open();
    await_results(&fixture.server, 2);
    await_acknowledged(&fixture.server, 2);
    // The results are messages, too.
    let deliveries = fixture.server.messages().into_iter().take(2);
    let deliveries: Vec<Value> = deliveries.map(|message| message["deliveries"].clone()).collect();
    assert_eq!((deliveries, fixture.backend.seen().len()), (vec![json!(1), json!(1)], 2));
}

/// The other queue has a message that it cannot keep. This one needs no such call for a while.
#[test]
fn d08_a_subscription_that_fails_stops_its_queue_alone() {
    let (server, backend) = (server(), Backend::start(|_| ScriptedResponse::ok().held()));
    server.create_queue("other");
    let sections = format!("{QUICK}workers = 1\nlease = \"10m\"\n");
    let config = config(&sections, "\"open\"", &server, &backend);
    let other = format!(
        "[[dispatch.queues]]\nname = \"other\"\ntarget = \"http://{}\"\ngates = [\"open\"]\n",
        backend.address()
    );
    let dispatcher = Dispatcher::start(&(config + &other));
    let page_has = |text: &str| {
        eventually("the page", || match dispatcher.page("/dispatch.txt").text() {
            page if page.contains(text) => Ok(()),
            page => Err(page),
        });
    };
    submit(&server, "sent", unix() + 600);
    backend.await_running(1);
    submit(&server, "ahead", unix() + 600);
    page_has("1 pending here");
    server.fail("ModifyAckDeadline", UNAVAILABLE);
    let request = json!({"id": "kept", "deadline": unix() + 600, "payload": {"model": "m"}});
    server.publish("other", &request.to_string(), &json!({}));
    page_has("ModifyAckDeadline");
    backend.open();
    await_results(&server, 2);
    assert_eq!(dispatcher.page("/ready").status, 200);
    server.fail("ModifyAckDeadline", 0);
    assert_eq!(await_results(&server, 3)[2]["id"], "kept");
}

/// The other one serves from the start, and this one as soon as somebody has created it.
#[test]
fn d08_a_subscription_that_does_not_exist_stops_its_queue_alone() {
    let (server, backend) = (server(), Backend::quick());
    let config = config(QUICK, "\"open\"", &server, &backend);
    let other = format!(
        "[[dispatch.queues]]\nname = \"other\"\ntarget = \"http://{}\"\ngates = [\"open\"]\n",
        backend.address()
    );
    let dispatcher = Dispatcher::start(&(config + &other));
    submit(&server, "one", unix() + 600);
    assert_eq!(await_results(&server, 1)[0]["id"], "one");
    assert_eq!(dispatcher.page("/ready").status, 200);
    let named = format!(
        "the batch queue other cannot be used, so it sends nothing: {}",
        subscription("other")
    );
    eventually("a finding", || match dispatcher.page("/status").json()["findings"].to_string() {
        text if text.contains(&named) => Ok(()),
        text => Err(text),
    });
    server.create_queue("other");
    let request = json!({"id": "two", "deadline": unix() + 600, "payload": {"model": "m"}});
    server.publish("other", &request.to_string(), &json!({}));
    assert_eq!(await_results(&server, 2)[1]["id"], "two");
}

#[test]
fn d07_a_message_of_pubsub_that_fails_too_often_goes_to_the_topic_of_dead_letters() {
    let fixture = Fixture::start("attempts = 3\n", |_| ScriptedResponse::json(500, "{}"));
    submit(&fixture.server, "poison", unix() + 600);
    assert_eq!(await_results(&fixture.server, 1)[0]["status_code"], 500);
    await_acknowledged(&fixture.server, 1);
    assert_eq!(fixture.server.published("dead")[0]["id"], "poison");
    let queue = ["--queue", QUEUE];
    let listed = run(fixture.tidegate(&["dispatch", "dead", "list"]).args(queue));
    assert!(listed.contains("poison") && listed.contains("status 500"), "{listed}");
    let mut redrive = fixture.tidegate(&["dispatch", "dead", "redrive", "--all"]);
    let refused = redrive.args(queue).output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("not supported by Pub/Sub"), "{said}");
    assert!(said.contains("projects/tests/topics/dead"), "{said}");
}

#[test]
fn d07_an_expired_message_of_pubsub_has_its_result_while_the_gates_are_closed() {
    let shut = "[[dispatch.gates]]\nname = \"shut\"\nkind = \"redis\"\ncapacity = 1\n\
                url = \"redis://127.0.0.1:1\"\n";
    let (server, backend) = (server(), Backend::quick());
    let config = config(&format!("{QUICK}{shut}"), "\"shut\"", &server, &backend);
    let _dispatcher = Dispatcher::start(&config);
    submit(&server, "late", unix() - 5);
    let result = &await_results(&server, 1)[0];
    assert_eq!(
        (&result["id"], &result["error_code"]),
        (&json!("late"), &json!("DEADLINE_EXCEEDED"))
    );
    assert_eq!(backend.seen().len(), 0);
}

#[test]
fn d07_sigterm_gives_messages_of_pubsub_back_at_once() {
    let mut fixture = Fixture::start("lease = \"10m\"\n", |_| ScriptedResponse::ok().held());
    for id in ["a", "b", "c"] {
        submit(&fixture.server, id, unix() + 600);
    }
    fixture.backend.await_running(3);
    fixture.dispatcher.process.signal("TERM");
    assert!(fixture.dispatcher.process.exit().success());
    fixture.backend.open();
    let config = config(QUICK, "\"open\"", &fixture.server, &fixture.backend);
    let _next = Dispatcher::start(&config);
    let results = await_results(&fixture.server, 3);
    assert!(results.iter().all(|result| result["status_code"] == 200), "{results:?}");
}

#[test]
fn d07_a_dispatcher_waits_for_pubsub_and_continues() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let ready = || fixture.dispatcher.page("/ready").status;
    let becomes = |expected: u16| {
        eventually("ready or not", || match ready() {
            status if status == expected => Ok(()),
            status => Err(status.to_string()),
        });
    };
    becomes(200);
    fixture.server.fail("Pull", UNAVAILABLE);
    becomes(503);
    let page = fixture.dispatcher.page("/dispatch.txt").text();
    assert!(page.contains(&subscription(QUEUE)), "{page}");
    fixture.server.fail("Pull", 0);
    becomes(200);
    // The result waits for its topic.
    fixture.server.fail("Publish", 5);
    submit(&fixture.server, "one", unix() + 600);
    fixture.backend.await_seen(1);
    fixture.server.fail("Publish", 0);
    assert_eq!(await_results(&fixture.server, 1).len(), 1);
    assert_eq!(fixture.backend.seen().len(), 1, "it was not sent again");
    let page = fixture.dispatcher.page("/dispatch.txt").text();
    assert!(page.contains("0 pending here") && page.contains("does not count"), "{page}");
}

#[test]
fn d09_a_subscription_that_does_not_exist_is_told_at_the_start() {
    let (server, backend) = (PubSub::start(), Backend::quick());
    let file = fresh_file();
    std::fs::write(&file, config(QUICK, "\"open\"", &server, &backend)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["dispatch", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&subscription(QUEUE)) && said.contains("create it"), "{said}");
}
