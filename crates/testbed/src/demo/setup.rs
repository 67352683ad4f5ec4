//! Who plays: the engines, the tenants, and the gateway between them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use flow::identity::Attribute;
use flow::{BackendTraits, Cascade, FlowClass, Settings as FlowSettings, Span, Weight};
use gateway::config::Config;
use gateway::config::settings::{
    BackendKind, BackendSpec, FleetSettings, Identity, Log, LogFormat, Server,
};
use serde_json::json;

use crate::engine::{Engine, Pace, Running, Settings, TokenPace};
use crate::load::{Arrivals, Class};

/// The model that all engines serve.
pub(super) const MODEL: &str = "demo";

/// The header by which the gateway tells tenants apart.
const TEAM: &str = "x-team";

/// An engine: what it is called, what it draws, how fast it is, and how much it takes at once.
#[derive(Debug)]
pub(super) struct DemoEngine {
    pub(super) name: &'static str,
    pub(super) watts: f32,
    first_token_ms: u64,
    between_ms: u64,
    sequences: u32,
}

/// Clients of one kind.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) name: &'static str,
    pub(super) band: &'static str,
    pub(super) sends: &'static str,
    arrivals: Arrivals,
    tokens: u32,
}

pub(super) const ENGINES: [DemoEngine; 3] = [
    DemoEngine { name: "NVIDIA", watts: 55.0, first_token_ms: 150, between_ms: 30, sequences: 16 },
    DemoEngine { name: "iGPU", watts: 12.0, first_token_ms: 400, between_ms: 60, sequences: 8 },
    DemoEngine { name: "NPU", watts: 3.0, first_token_ms: 800, between_ms: 100, sequences: 4 },
];

const PAUSE: Duration = Duration::from_secs(1);

pub(super) const TENANTS: [Tenant; 5] = [
    Tenant {
        name: "pager",
        band: "critical",
        sends: "1 a second",
        arrivals: Arrivals::Poisson(1.0),
        tokens: 8,
    },
    Tenant {
        name: "assistant",
        band: "high",
        sends: "2 a second",
        arrivals: Arrivals::Poisson(2.0),
        tokens: 16,
    },
    Tenant {
        name: "quiet",
        band: "normal",
        sends: "2 a second",
        arrivals: Arrivals::Poisson(2.0),
        tokens: 16,
    },
    Tenant {
        name: "flood",
        band: "normal",
        sends: "300 at once",
        arrivals: Arrivals::Outstanding { count: 300, pause: PAUSE },
        tokens: 16,
    },
    Tenant {
        name: "nightly",
        band: "best-effort",
        sends: "100 at once",
        arrivals: Arrivals::Outstanding { count: 100, pause: PAUSE },
        tokens: 32,
    },
];

/// A thousand tokens or so, as in real conversations: what was said before comes along each time.
const LINE: &str = "The tide came in, stood a while, and went out again.\n";
const LINES: usize = 80;

/// Bands share by weight, from best-effort to critical: the nightly work goes on beside the flood.
const SHARES: [f64; 4] = [5.0, 10.0, 15.0, 70.0];

/// The most of one tenant that may wait: the flood waits, it is not refused.
const FLOW_CAPACITY: u32 = 500;

/// Longer than anything here should wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts the engines.
pub(super) fn engines(seed: u64) -> io::Result<Vec<Running>> {
    let started = ENGINES.iter().zip(seed..).map(|(setup, seed)| {
        let pace = TokenPace {
            first_token: Duration::from_millis(setup.first_token_ms),
            between: Duration::from_millis(setup.between_ms),
            max_num_seqs: setup.sequences,
            ..TokenPace::default()
        };
        Engine::start(Settings {
            models: vec![MODEL.to_owned()],
            pace: Pace::Tokens(pace),
            power_watts: setup.watts.into(),
            seed,
            ..Settings::default()
        })
    });
    started.collect()
}

/// The traffic.
pub(super) fn classes() -> Vec<Class> {
    let class = |tenant: &Tenant| Class {
        name: tenant.name.to_owned(),
        path: "/v1/chat/completions".to_owned(),
        headers: vec![
            (TEAM.to_owned(), tenant.name.to_owned()),
            ("x-priority".to_owned(), tenant.band.to_owned()),
        ],
        body: json!({
            "model": MODEL,
            "max_tokens": tenant.tokens,
            "stream": true,
            "messages": [{"role": "user", "content": LINE.repeat(LINES)}],
        })
        .to_string()
        .into(),
        arrivals: tenant.arrivals,
        timeout: PATIENCE,
    };
    TENANTS.iter().map(class).collect()
}

/// What the gateway is told: who the engines are, that teams are flows, and little else. How much
/// each engine can take it finds by itself.
pub(super) fn config(engines: &[Running]) -> Result<Config> {
    let specs = ENGINES.iter().zip(engines).map(|(setup, engine)| BackendSpec {
        kind: BackendKind::Vllm,
        models: vec![MODEL.to_owned()],
        traits: BackendTraits { power_watts: setup.watts, latency_ms: setup.first_token_ms as f32 },
        ..BackendSpec::new(setup.name.to_owned(), format!("http://{}", engine.address()))
    });
    let ttl = Span::from_nanos(PATIENCE.as_nanos() as u64);
    let class = FlowClass { capacity: FLOW_CAPACITY, ttl, ..FlowClass::default() };
    let [best_effort, normal, high, critical] = SHARES.map(Weight::new);
    let weights = [best_effort?, normal?, high?, critical?];
    Ok(Config {
        server: Server { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), ..Server::default() },
        flow: FlowSettings {
            default_class: class,
            cascade: Cascade::Weighted(weights),
            ..FlowSettings::default()
        },
        identity: Identity {
            parts: vec![Attribute::Header(TEAM.to_owned())],
            ..Identity::default()
        },
        fleet: FleetSettings { backends: specs.collect(), ..FleetSettings::default() },
        log: Log { access: false, decisions: false, format: LogFormat::Text },
        ..Config::default()
    })
}
