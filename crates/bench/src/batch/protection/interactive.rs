//! Interactive users: streams at moments that were drawn beforehand, in bursts and lulls.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use sim::random::Random;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::super::api::chat;
use super::{PROMPT, SEED, tokens};
use crate::gateway::load::{Answer, Client, Request};

/// Requests a second.
const BURST: f64 = 14.0;
const LULL: f64 = 2.0;
const PHASE: Duration = Duration::from_secs(11);
const PHASE_QUICK: Duration = Duration::from_secs(5);
const PHASES: usize = 8;
const PHASES_QUICK: usize = 2;
const HEADERS: &str = "content-type: application/json\r\nx-priority: high\r\n";

/// The requests and their moments.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    /// When, from the beginning, and for how many tokens.
    asks: Vec<(Duration, u64)>,
    lasts: Duration,
}

/// The results of the interactive requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Milliseconds to the first token.
    pub(super) first_ms: Vec<f64>,
    pub(super) errors: usize,
    /// Good answers that ended in time.
    pub(super) within: usize,
}

// === impl Traffic ===

impl Traffic {
    /// The same moments whenever it is drawn.
    pub(super) fn drawn(quick: bool) -> Self {
        let (phase, phases) = if quick { (PHASE_QUICK, PHASES_QUICK) } else { (PHASE, PHASES) };
        let mut random = Random::new(SEED);
        let mut asks = Vec::new();
        for number in 0..phases {
            let begins = phase * number as u32;
            let rate = if number % 2 == 0 { BURST } else { LULL };
            asks.extend(
                moments(&mut random, rate, phase).map(|(at, tokens)| (begins + at, tokens)),
            );
        }
        Self { asks, lasts: phase * phases as u32 }
    }

    pub(super) fn lasts(&self) -> Duration {
        self.lasts
    }

    /// A lull that is not measured.
    pub(super) async fn lull(&self, gateway: SocketAddr, time: Duration) -> Result<()> {
        let asks = moments(&mut Random::new(SEED).fork("warm"), LULL, time).collect();
        Self { asks, lasts: time }.play(gateway, || ()).await?;
        Ok(())
    }

    /// Asks at those moments, whatever became of earlier ones; calls `at_end` when its time is over
    /// and waits for the answers that are missing then.
    pub(super) async fn play(&self, gateway: SocketAddr, at_end: impl FnOnce()) -> Result<Seen> {
        let began = Instant::now();
        let ends = began + self.lasts;
        let mut open = JoinSet::new();
        for &(at, tokens) in &self.asks {
            sleep_until(began + at).await;
            open.spawn_local(ask(gateway, tokens));
        }
        sleep_until(ends).await;
        let mut seen = Seen::default();
        while let Some(ended) = open.try_join_next() {
            seen.add(ended?, true);
        }
        at_end();
        while let Some(ended) = open.join_next().await {
            seen.add(ended?, false);
        }
        Ok(seen)
    }
}

/// Moments of this rate, at random.
fn moments(
    random: &mut Random,
    rate: f64,
    time: Duration,
) -> impl Iterator<Item = (Duration, u64)> + use<'_> {
    let mut at = Duration::ZERO;
    std::iter::from_fn(move || {
        at += Duration::from_secs_f64(random.exponential() / rate);
        Some((at, tokens(random)))
    })
    .take_while(move |(at, _)| *at < time)
}

async fn ask(gateway: SocketAddr, tokens: u64) -> Result<Answer> {
    let body = chat(PROMPT, tokens, true).to_string();
    let request = Request::post("/v1/chat/completions", HEADERS, body.as_bytes());
    Client::connect(gateway).await?.watch(&request).await
}

// === impl Seen ===

impl Seen {
    fn add(&mut self, answer: Result<Answer>, within: bool) {
        match answer {
            Ok(answer) if answer.status == 200 => {
                self.first_ms.push(answer.first.as_secs_f64() * 1e3);
                self.within += usize::from(within);
            }
            _ => self.errors += 1,
        }
    }
}
