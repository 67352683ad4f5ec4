//! The traffic of a soak: clients of every manner, each in a loop of its own.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::task::JoinSet;

use crate::gateway::load::{Client, Request};

/// Places at the backend: fewer than clients, so that requests wait and some expire.
const PLACES: usize = 12;
const PATIENT: usize = 12;
/// The pause of a client that was refused or that leaves.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a client that leaves reads or waits before it does.
const STAYS: Duration = Duration::from_millis(150);

/// Clients that run until they are told to end.
pub(super) struct Traffic {
    clients: JoinSet<Result<()>>,
    state: Rc<State>,
}

struct State {
    address: SocketAddr,
    over: Cell<bool>,
    /// Requests begun, from which fresh names are made.
    begun: Cell<u64>,
    ended: Cell<u64>,
}

/// The gateway's configuration: few places, a short wait, every kind of name counted.
pub(super) fn config() -> String {
    format!(
        "[server]\nworkers = 1\n[log]\naccess = false\n\
         [queue]\nflow_by = [\"header:x-team\"]\norder = \"workload\"\nqueue_ttl = \"2s\"\n\
         total_capacity = 40\n[controller]\nlower_bound_per_backend = {PLACES}\n\
         watermark_per_backend = {PLACES}\nupper_bound_per_backend = {PLACES}\n"
    )
}

// === impl Traffic ===

impl Traffic {
    /// Starts the clients. Runs inside a `LocalSet`.
    pub(super) fn start(address: SocketAddr) -> Self {
        let zero = || Cell::new(0);
        let state = State { address, over: Cell::new(false), begun: zero(), ended: zero() };
        let state = Rc::new(state);
        let mut clients = JoinSet::new();
        for number in 0..PATIENT {
            clients.spawn_local(patient(Rc::clone(&state), number % 2 == 0));
        }
        for _ in 0..2 {
            clients.spawn_local(leaving(Rc::clone(&state), false));
            clients.spawn_local(leaving(Rc::clone(&state), true));
            clients.spawn_local(bursting(Rc::clone(&state)));
        }
        clients.spawn_local(malformed(Rc::clone(&state)));
        clients.spawn_local(watching(Rc::clone(&state)));
        Self { clients, state }
    }

    /// How many requests clients have ended.
    pub(super) fn ended(&self) -> u64 {
        self.state.ended.get()
    }

    /// Waits until each client has ended its last request.
    pub(super) async fn end(mut self) -> Result<()> {
        self.state.over.set(true);
        while let Some(ended) = self.clients.join_next().await {
            ended??;
        }
        Ok(())
    }
}

// === impl State ===

impl State {
    /// A request whose team and workload no request had before.
    fn fresh(&self, streamed: bool) -> Request {
        let number = self.begun.get();
        self.begun.set(number + 1);
        let context = json!({"workload_id": format!("w-{number}"), "criticality": 4});
        let headers = format!(
            "x-team: team-{number}\r\nx-request-id: soak-{number}\r\n\
             x-workload-context: {context}\r\n"
        );
        Request::chat(streamed, &headers)
    }

    fn count(&self) {
        self.ended.set(self.ended.get() + 1);
    }
}

/// Asks again and again on one connection, whatever the response is.
async fn patient(state: Rc<State>, streamed: bool) -> Result<()> {
    let mut client = Client::connect(state.address).await?;
    while !state.over.get() {
        let response = client.ask(&state.fresh(streamed)).await?;
        state.count();
        if response.status != 200 {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Leaves before the response has ended, or while its request waits.
async fn leaving(state: Rc<State>, streamed: bool) -> Result<()> {
    while !state.over.get() {
        let mut client = Client::connect(state.address).await?;
        client.send(&state.fresh(streamed)).await?;
        tokio::time::sleep(STAYS).await;
        drop(client);
        state.count();
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Sends more at once than the queue takes, so that requests expire and are refused.
async fn bursting(state: Rc<State>) -> Result<()> {
    while !state.over.get() {
        let mut burst = JoinSet::new();
        for _ in 0..PLACES {
            let (state, request) = (Rc::clone(&state), state.fresh(false));
            burst.spawn_local(async move {
                Client::connect(state.address).await?.ask(&request).await?;
                state.count();
                anyhow::Ok(())
            });
        }
        while let Some(ended) = burst.join_next().await {
            ended??;
        }
        tokio::time::sleep(8 * PAUSE).await;
    }
    Ok(())
}

/// Sends bodies without sense and models that nobody has.
async fn malformed(state: Rc<State>) -> Result<()> {
    let mut number = 0_u64;
    while !state.over.get() {
        number += 1;
        let unknown = format!("{{\"model\":\"unknown-{number}\",\"messages\":[]}}");
        for body in [unknown.as_bytes(), b"{\"model\":", b"[]"] {
            let request = Request::post("/v1/chat/completions", "", body);
            // The gateway may close the connection after an error.
            Client::connect(state.address).await?.ask(&request).await?;
            state.count();
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Reads the pages that an operator reads.
async fn watching(state: Rc<State>) -> Result<()> {
    let mut client = Client::connect(state.address).await?;
    while !state.over.get() {
        for page in ["/metrics", "/backends", "/workloads", "/v1/models"] {
            client.text(&Request::get(page)).await?;
        }
        tokio::time::sleep(4 * PAUSE).await;
    }
    Ok(())
}
