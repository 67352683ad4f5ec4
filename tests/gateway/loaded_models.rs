//! K04: a server that loads models on demand stays with a model for a while.

use crate::support::gateway::ONE;
use crate::support::queueing::succeed;
use crate::support::{Backend, Gateway, HttpRequest, chat};

const MODELS: [&str; 2] = ["red", "blue"];

fn of(model: &str) -> HttpRequest {
    chat(model).tag(model)
}

/// The models in the order in which one server saw requests for two of them, taken in turns.
fn seen_with(queue: &str) -> Vec<String> {
    let backend = Backend::held().lists(&MODELS).loads_on_demand();
    let gateway = Gateway::start(&format!(
        "[queue]\nslo_ttft = \"0s\"\n{queue}{ONE}[metrics]\ninterval = \"100ms\"\n\
         [[backends]]\nid = \"one\"\nkind = \"ollama\"\nurl = \"http://{}\"\n",
        backend.address()
    ));
    backend.await_loaded_read();
    let running = gateway.send(&of("red"));
    backend.await_running(1);
    let waiting = (0..20).map(|at| gateway.enqueue(&of(MODELS[(at + 1) % 2]), at));
    let waiting: Vec<_> = waiting.collect();
    backend.open();
    succeed(std::iter::once(running).chain(waiting));
    backend.tags()
}

fn loads(seen: &[String]) -> usize {
    1 + seen.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Requests for two models arrive in turns. In their order each would be a load.
#[test]
fn k04_two_models_on_one_server_take_a_tenth_of_the_loads() {
    let in_turns = seen_with("model_stay = \"0s\"\n");
    assert_eq!(loads(&in_turns), 20, "{in_turns:?}");
    let staying = seen_with("model_stay = \"10m\"\n");
    assert_eq!(loads(&staying), 2, "{staying:?}");
}

/// One flow for both models: the order inside the flow gives way, too.
#[test]
fn k04_inside_a_flow_the_loaded_model_goes_first() {
    let staying = seen_with("model_stay = \"10m\"\nflow_by = [\"header:x-team\"]\n");
    assert_eq!(loads(&staying), 2, "{staying:?}");
}

/// What goes ahead of the other model is bounded.
#[test]
fn k04_the_slack_ends_a_stay() {
    let short = seen_with("model_stay = \"10m\"\nmodel_slack = 2\n");
    let first = short.iter().position(|model| model == "blue").unwrap();
    assert!((3..=5).contains(&first), "{short:?}");
}
