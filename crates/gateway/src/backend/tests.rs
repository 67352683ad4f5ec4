//! Tests of the fleet, and their shared fake server.

mod bounded_get;
mod discovery;
mod endpoints_file;
mod engine_metrics;
mod fleet;
mod fleet_state;
mod fuzz;
mod health_state;
mod list_wait;
mod model_list;
mod self_detection;
mod subset;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow::{BackendId, BackendTraits, Settings, Time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::endpoint::Endpoint;
use super::{Fleet, GatewayIdentity, Lookup};
use crate::clock::Clock;
use crate::config::settings::{BackendKind, BackendSpec, FleetSettings};
use crate::scheduler::Scheduler;

type Pages = Arc<Mutex<BTreeMap<String, (u16, String)>>>;

/// A server with fixed pages; every other path is 404.
struct Fake {
    port: u16,
    pages: Pages,
    /// The number of requests.
    asked: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn spec(id: &str, port: u16, kind: BackendKind, models: &[&str]) -> BackendSpec {
    BackendSpec {
        kind,
        models: models.iter().map(|&model| model.into()).collect(),
        ..BackendSpec::new(id.into(), format!("http://127.0.0.1:{port}"))
    }
}

fn endpoint(port: u16, kind: BackendKind) -> Endpoint {
    Endpoint::new(BackendId(1), &spec("a", port, kind, &[])).unwrap()
}

/// Settings with short intervals.
fn quick(backends: Vec<BackendSpec>) -> FleetSettings {
    FleetSettings {
        backends,
        health_interval: Duration::from_millis(20),
        scrape_interval: Duration::from_millis(10),
        slow_start: Duration::ZERO,
        ..FleetSettings::default()
    }
}

fn fleet(settings: &FleetSettings) -> (Arc<Fleet>, Arc<Scheduler>) {
    let clock = Clock::start();
    let scheduler = Arc::new(Scheduler::new(Settings::default(), clock));
    (Fleet::new(settings, scheduler.clone(), clock), scheduler)
}

fn is_ready(scheduler: &Scheduler, backend: u32) -> bool {
    scheduler.with(|controller, _| {
        controller.backends().any(|view| view.id == BackendId(backend) && view.ready)
    })
}

/// Yields until the condition holds.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    assert!(waited.is_ok(), "never happened: {what}");
}

async fn serve(mut stream: TcpStream, pages: Pages) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap();
    let page = pages.lock().unwrap().get(path).cloned();
    let (status, body) = page.unwrap_or((404, "nothing here".into()));
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    _ = stream.write_all(response.as_bytes()).await;
}

// === impl Fake ===

impl Fake {
    async fn start(pages: &[(&str, u16, &str)]) -> Self {
        Self::on(0, pages).await
    }

    async fn on(port: u16, pages: &[(&str, u16, &str)]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let given = pages.iter().map(|&(path, status, body)| (path.into(), (status, body.into())));
        let pages: Pages = Arc::new(Mutex::new(given.collect()));
        let asked: Arc<AtomicU64> = Arc::default();
        let (served, count) = (pages.clone(), asked.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream, served.clone()));
            }
        });
        Self { port, pages, asked, task }
    }

    fn set(&self, path: &str, status: u16, body: &str) {
        self.pages.lock().unwrap().insert(path.into(), (status, body.into()));
    }

    /// Closes the port; further connections are refused.
    async fn stop(self) -> u16 {
        self.task.abort();
        _ = self.task.await;
        self.port
    }
}

// === impl Lookup ===

impl Lookup {
    fn known(self) -> flow::ModelId {
        match self {
            Self::Known(model) => model,
            other => panic!("expected a known model, got {other:?}"),
        }
    }
}
