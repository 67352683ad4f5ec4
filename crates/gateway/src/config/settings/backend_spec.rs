//! One backend as its source describes it: the configuration, a file, a port, a cluster.

use std::path::PathBuf;

use flow::BackendTraits;

use super::DrainCause;
use super::tenants::{Secret, SecretSource};

/// The configuration of one model server.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSpec {
    /// Its name.
    pub id: String,
    /// Its address: `http://host:port` or `https://host:port`, optionally with a path.
    pub url: String,
    /// Its software, as configured.
    pub kind: BackendKind,
    /// The models it serves; read from it if empty. `*` stands for any model.
    pub models: Vec<String>,
    /// Its stated latency and power.
    pub traits: BackendTraits,
    /// How many requests it runs at once, if the operator says so.
    pub places: Option<u32>,
    /// Whether requests to it use HTTP/2.
    pub http2: bool,
    /// Where the key for requests to it is.
    pub api_key: Option<SecretSource>,
    /// The key itself, once it was read.
    pub credential: Option<Secret>,
    /// The root certificates for TLS to it; by default those of the system.
    pub ca_file: Option<PathBuf>,
    /// The name that its certificate must have; by default the host of its URL.
    pub tls_name: Option<String>,
    /// Why it gets no new requests, if its source says so.
    pub drain: Option<DrainCause>,
}

/// The software of a model server, which determines the paths of its health, models and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackendKind {
    /// Not given: the server is asked.
    #[default]
    Auto,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Ollama.
    Ollama,
    /// llama.cpp's server.
    LlamaCpp,
    /// A remote API: it has no metrics and no automatic bounds.
    OpenAi,
    /// Anything that speaks HTTP.
    Generic,
}

// === impl BackendSpec ===

impl BackendSpec {
    /// A backend of which only the name and the address are known.
    pub fn new(id: String, url: String) -> Self {
        Self {
            id,
            url,
            kind: BackendKind::default(),
            models: Vec::new(),
            traits: BackendTraits::default(),
            places: None,
            http2: false,
            api_key: None,
            credential: None,
            ca_file: None,
            tls_name: None,
            drain: None,
        }
    }
}
