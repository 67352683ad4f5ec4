//! Reading the engines' own metrics, again and again.
//!
//! What cannot be read is not guessed: the core takes a reading that is old for none.

use std::sync::Arc;
use std::time::Duration;

use flow::BackendId;

use super::Fleet;
use super::metrics::{Gauges, read};
use super::probe::{Limits, get};
use super::roster::Upstream;
use crate::config::resolved::BackendKind;
use crate::jitter::Jitter;

const PATH: &str = "/metrics";
const BODY_MAX: usize = 4 << 20;
/// A server that gives no metrics is asked less and less often, down to this.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What is known of a server's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// It has had them, or should have them.
    Has,
    /// It may have them: it is asked once each time that it comes up.
    Untried,
    HasNone,
}

/// What one round needs to know.
#[derive(Debug)]
struct Round {
    upstream: Arc<Upstream>,
    is_up: bool,
    every: Duration,
    time: Duration,
}

/// Reads one backend's metrics for as long as it is there.
pub(super) async fn scrape(fleet: Arc<Fleet>, id: BackendId) {
    let mut jitter = Jitter::new(u64::from(id.0));
    let mut habit = None;
    let mut misses = 0u32;
    while let Some(round) = fleet.round(id) {
        let tried = habit.filter(|_| round.is_up).unwrap_or_else(|| Habit::of(round.upstream.kind));
        habit = Some(tried);
        if round.is_up && tried != Habit::HasNone {
            let gauges = fleet.scrape(id, &round).await;
            misses = if gauges { 0 } else { misses.saturating_add(1) };
            habit = Some(tried.after(gauges));
        }
        let pause = round.every.saturating_mul(1 << misses.min(16)).min(PAUSE_MAX.max(round.every));
        tokio::time::sleep(jitter.around(pause)).await;
    }
}

// === impl Fleet ===

impl Fleet {
    fn round(&self, id: BackendId) -> Option<Round> {
        let crew = self.crew();
        let member = crew.members.get(&id)?;
        Some(Round {
            upstream: member.upstream.clone(),
            is_up: !member.health.is_down(),
            every: crew.settings.scrape_interval,
            time: crew.settings.health_timeout,
        })
    }

    /// Reads once; says whether there was something to read.
    async fn scrape(&self, id: BackendId, round: &Round) -> bool {
        let gauges = {
            let Ok(_permit) = self.probes.acquire().await else { return false };
            fetch(&round.upstream, round.time).await
        };
        if let Ok(gauges) = &gauges {
            self.keeper.with(|controller, now| controller.reading(id, gauges.reading, now));
        }
        let read = gauges.is_ok();
        let now = self.clock.now();
        let new_adapters = self.crew().scraped(id, gauges, now);
        if new_adapters {
            self.settle();
        }
        read
    }
}

async fn fetch(upstream: &Upstream, time: Duration) -> Result<Gauges, String> {
    let limits = Limits { time, body: BODY_MAX };
    let answer = get(upstream, PATH, limits).await.map_err(|error| error.to_string())?;
    if !answer.status.is_success() {
        return Err(format!("{PATH} answered {}", answer.status));
    }
    read(&answer.body).ok_or_else(|| format!("{PATH} has no engine's numbers that are known"))
}

// === impl Habit ===

impl Habit {
    fn of(kind: BackendKind) -> Self {
        match kind {
            BackendKind::Vllm | BackendKind::Sglang | BackendKind::LlamaCpp => Self::Has,
            BackendKind::Generic => Self::Untried,
            BackendKind::Ollama | BackendKind::OpenAi => Self::HasNone,
        }
    }

    fn after(self, read: bool) -> Self {
        match self {
            Self::Untried if read => Self::Has,
            Self::Untried => Self::HasNone,
            other => other,
        }
    }
}
