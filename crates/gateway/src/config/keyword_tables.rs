//! The words of the configuration, and the values that they stand for. Those of bands are in
//! `band_alias`.

use flow::{Admission, Order, StockUnit};

use super::settings::tenants::OnQuota;
use super::settings::{
    BackendKind, Bus, ClientCertificates, Cost, EppTls, LogFormat, OpenPages, PoolGroup, Profile,
    TraceProtocol,
};
use crate::schema::{Keyword, Keywords, find, list, spelling, texts, words};

// === impl Keyword ===

impl Keyword for Order {
    const SPELLINGS: Keywords<Self> =
        &[("fifo", Self::Fifo), ("deadline", Self::Deadline), ("workload", Self::Workload)];
}

impl Keyword for Cost {
    const SPELLINGS: Keywords<Self> =
        &[("requests", Self::Requests), ("tokens", Self::Tokens), ("bytes", Self::Bytes)];
}

impl Keyword for Admission {
    const SPELLINGS: Keywords<Self> = &[
        ("all", Self::All),
        ("until-full", Self::UntilFull),
        ("critical-only", Self::CriticalOnly),
    ];
}

impl Keyword for Profile {
    const SPELLINGS: Keywords<Self> = &[
        ("inference-gateway", Self::InferenceGateway),
        ("nexus", Self::Nexus),
        ("ollama-proxy", Self::OllamaProxy),
        ("workload-aware", Self::WorkloadAware),
        ("none", Self::None),
    ];
}

impl Keyword for StockUnit {
    const SPELLINGS: Keywords<Self> = &[("requests", Self::Requests), ("tokens", Self::Tokens)];
}

impl Keyword for BackendKind {
    const SPELLINGS: Keywords<Self> = &[
        ("auto", Self::Auto),
        ("vllm", Self::Vllm),
        ("sglang", Self::Sglang),
        ("ollama", Self::Ollama),
        ("llamacpp", Self::LlamaCpp),
        ("openai", Self::OpenAi),
        ("generic", Self::Generic),
        ("llama.cpp", Self::LlamaCpp),
    ];
}

impl Keyword for PoolGroup {
    const SPELLINGS: Keywords<Self> = &[("stable", Self::Stable), ("alpha", Self::Alpha)];
}

impl Keyword for LogFormat {
    const SPELLINGS: Keywords<Self> = &[("text", Self::Text), ("json", Self::Json)];
}

impl Keyword for TraceProtocol {
    const SPELLINGS: Keywords<Self> = &[("http", Self::Http), ("grpc", Self::Grpc)];
}

impl Keyword for OpenPages {
    const SPELLINGS: Keywords<Self> =
        &[("all", Self::All), ("metrics", Self::Metrics), ("probes", Self::Probes)];
}

impl Keyword for OnQuota {
    const SPELLINGS: Keywords<Self> = &[("wait", Self::Wait), ("refuse", Self::Refuse)];
}

impl Keyword for ClientCertificates {
    const SPELLINGS: Keywords<Self> = &[("required", Self::Required), ("optional", Self::Optional)];
}

impl Keyword for EppTls {
    const SPELLINGS: Keywords<Self> =
        &[("auto", Self::Auto), ("required", Self::Required), ("off", Self::Off)];
}

impl Keyword for Bus {
    const SPELLINGS: Keywords<Self> = &[("session", Self::Session), ("system", Self::System)];
}

// === impl BackendKind ===

impl BackendKind {
    /// The kind that a word stands for.
    pub(crate) fn named(word: &str) -> Option<Self> {
        find(word)
    }

    /// The word for the kind.
    pub(crate) fn name(self) -> &'static str {
        spelling(self)
    }

    /// The words for all kinds, for an error message.
    pub(crate) fn known() -> String {
        list(&texts(&words::<Self>()))
    }
}

// === impl Bus ===

impl std::fmt::Display for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(spelling(*self))
    }
}
