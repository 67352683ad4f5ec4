//! The kind `prometheus-saturation`: the saturation of a pool, from Prometheus.

use super::{GateContext, GateKind, Kind, KindDeclaration, OpenGate};
use crate::gates::error::SetupError;
use crate::gates::prometheus::promql::PromMetric;
use crate::gates::prometheus::syntax::refuse_mistakes;
use crate::gates::prometheus::{POOL, PromQuery, Prometheus, URL};
use crate::gates::settings::GateSettings;
use crate::schema::{Section, Variant};

pub(super) const KIND: KindDeclaration = KindDeclaration {
    variant: Variant {
        name: "prometheus-saturation",
        aliases: &[],
        doc: "The saturation of a pool, from Prometheus.",
        keys: &[URL, POOL],
    },
    read,
    knows_capacity: false,
    counts_servers: true,
};

/// The settings of the kind `prometheus-saturation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaturationGate {
    /// The Prometheus server.
    pub url: String,
    /// The name of the pool.
    pub pool: String,
}

fn read(section: &Section<'_>) -> Option<GateKind> {
    refuse_mistakes(section, &["ready_metric"]);
    let (url, pool) = (section.given("url")?, section.given("pool")?);
    Some(GateKind::PrometheusSaturation(SaturationGate { url, pool }))
}

// === impl SaturationGate ===

impl Kind for SaturationGate {
    fn declaration(&self) -> &'static KindDeclaration {
        &KIND
    }

    fn open(&self, gate: &GateSettings, context: &GateContext) -> Result<OpenGate, SetupError> {
        let measures = vec![PromMetric::saturations(&self.pool)];
        let query = PromQuery::Metrics { measures, each: None };
        Prometheus::open((&self.url, Some(&self.pool)), query, gate, context)
    }
}
