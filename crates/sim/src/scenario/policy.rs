//! The policies of a scenario.

use flow::{FlowClass, Hysteresis, ReserveLimits, Settings, Span};

use super::ScenarioError;
use crate::autoscaler::ScaleSignal;
use crate::policy::batch::{Batch, Release};
use crate::policy::direct::Direct;
use crate::policy::plain_queue::{PlainQueue, PlainQueueConfig, QueueOrder};
use crate::policy::routed::{Routed, RoutingRule};
use crate::policy::tidegate::{Tidegate, TidegateConfig};
use crate::policy::{Cost, Policy, Tenant};

/// A policy of a scenario.
#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// Its name in tables.
    pub name: String,
    /// Its kind.
    pub kind: PolicyKind,
    /// The most requests that may wait.
    pub capacity: u32,
    /// The most that may wait in one band of a tenant; only our own queue knows such a limit.
    pub flow_capacity: u32,
    /// Under `auto`, the longest mean time from token to token.
    pub pace: Option<Span>,
    /// Under `auto`, the wanted time from token to token of each stream.
    pub slo_tpot: Option<Span>,
    /// How many free places are kept for requests that must not wait.
    pub reserve: ReserveLimits,
    /// How long a request may wait.
    pub ttl: Span,
    /// The wanted time to the first token of all bands but best-effort; [`Span::FOREVER`] lets
    /// requests wait in order of arrival.
    pub objective: Span,
    /// The tokens that each engine is believed to have in its prefix cache; 0 for no index of them.
    pub cache_tokens: u64,
    /// How far a flow may go ahead of its turn for a cached prompt, in the unit of cost.
    pub cache_slack: u32,
    /// How many later requests of its tenant may go before a request for a cached prompt.
    pub cache_reorder: u32,
    /// How long a request may wait for an engine that has its prompt cached.
    pub cache_delay: Span,
    /// Tenants that send nothing.
    pub without: Vec<String>,
    /// Whether it sees the engines' metrics, where the scenario has any.
    pub metrics: bool,
    /// The share of responses that are not streamed; only the core distinguishes them.
    pub unstreamed: f64,
    /// Whether the engines' metrics say how many requests they run at most.
    pub told: bool,
    /// How many requests the operator says that each engine runs at once.
    pub places: Option<u32>,
    /// By what its engines come and go, if they do.
    pub scale_by: Option<ScaleSignal>,
    /// How many of the engines it has; all without a number.
    pub fixed_engines: Option<u32>,
}

/// The kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PolicyKind {
    /// No queue: round robin over the engines.
    Direct,
    /// No queue: the rule of a router chooses the engine.
    Routed(RoutingRule),
    /// A plain queue in front of so many requests in flight at each engine.
    PlainQueue(QueueOrder, u32),
    /// The core, charging in this unit, with a fixed number in flight at each engine or `auto`.
    Tidegate(Cost, Option<f64>),
    /// Direct traffic, with best-effort requests as batch work that waits for this release.
    Batch(Release),
}

// === impl PolicyConfig ===

impl PolicyConfig {
    /// A policy of this kind that knows these tenants.
    pub fn build(&self, tenants: &[Tenant]) -> Result<Box<dyn Policy>, ScenarioError> {
        let &Self { capacity, ttl, .. } = self;
        Ok(match self.kind {
            PolicyKind::Direct => Box::new(Direct::new()),
            PolicyKind::Routed(rule) => Box::new(Routed::new(rule)),
            PolicyKind::PlainQueue(order, watermark) => {
                let capacity = capacity as usize;
                Box::new(PlainQueue::new(PlainQueueConfig { order, watermark, capacity, ttl }))
            }
            PolicyKind::Batch(release) => Box::new(Batch::new(release)),
            PolicyKind::Tidegate(cost, watermark) => {
                let settings = self.settings(watermark)?;
                let policy = Tidegate::new(TidegateConfig { settings, cost }, tenants);
                let policy = policy.unstreamed(self.unstreamed).told(self.told);
                Box::new(policy.places(self.places))
            }
        })
    }

    fn settings(&self, watermark: Option<f64>) -> Result<Settings, ScenarioError> {
        let &Self { capacity, flow_capacity, ttl, .. } = self;
        let mut settings = Settings {
            total_capacity: capacity,
            pace_max: self.pace,
            slo_tpot: self.slo_tpot,
            reserve: self.reserve,
            objectives: Settings::objectives(self.objective),
            cache_tokens: self.cache_tokens,
            cache_slack: self.cache_slack,
            cache_reorder: self.cache_reorder,
            cache_delay: self.cache_delay,
            default_class: FlowClass { capacity: flow_capacity, ttl, ..FlowClass::default() },
            ..Settings::usual()
        };
        if let Some(watermark) = watermark {
            let fixed = Hysteresis::limit(watermark)
                .map_err(|error| ScenarioError::new("policies.watermark", error.to_string()))?;
            settings.bounds = fixed.into();
        }
        Ok(settings)
    }
}
