//! From bytes to what is asked for: the one place that knows request headers and bodies.
//!
//! Pure: a request goes in, an [`Intent`] comes out. Headers and body are walked once each.

mod band_alias;
mod cost_estimate;
pub(crate) mod dispatch_headers;
pub(crate) mod duration;
pub(crate) mod headers;
mod identifier;
mod json_body;
mod json_scanner;
mod multipart_form;
pub(crate) mod paging;
pub(crate) mod path;
mod prompt_size;
mod workload;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use flow::identity::{self, Attribute, NAME_MAX};
use flow::{Band, Span};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use self::cost_estimate::CostEstimate;
use self::headers::{ControlHeaders, text};
use self::json_body::{BodyFields, ModelName};
use self::path::{Api, RequestKind, Route};
use self::workload::WorkloadContext;
use crate::config::Resolved;
use crate::config::resolved::Identity;
use crate::reply::Fault;

pub(crate) use self::prompt_size::BYTES_PER_TOKEN;

/// What a request asks for, with everything that deciding over it needs.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    /// The model as the client named it; nothing where the path needs none.
    pub(crate) model: Option<String>,
    /// The model it stands for.
    pub(crate) target: Option<String>,
    /// The name and the class of its flow.
    pub(crate) flow: String,
    pub(crate) class: u32,
    pub(crate) band: Band,
    /// The workload its sender gave; nothing for a generated one.
    pub(crate) workload: Option<String>,
    pub(crate) criticality: u8,
    /// Estimates: cost in the queue's unit, prompt tokens, prompt and output tokens.
    pub(crate) cost: u64,
    pub(crate) prompt: u64,
    pub(crate) tokens: u64,
    /// Whether the answer comes as a stream.
    pub(crate) streamed: bool,
    /// How long it may wait, and how long its client waits for an answer.
    pub(crate) ttl: Option<Span>,
    pub(crate) deadline: Option<Span>,
    pub(crate) latency_max: Option<Span>,
    pub(crate) latency_critical: bool,
    pub(crate) session: Option<u64>,
    /// Echoed and forwarded.
    pub(crate) request_id: HeaderValue,
    /// Whether the stream should tell its place while it waits.
    pub(crate) queue_status: bool,
}

/// Reads a request. The body comes back as it must be sent: the same bytes, unless the model's
/// name stands for another one. `draw` decides splits between variants.
pub(crate) fn read(
    config: &Resolved,
    parts: &Parts,
    body: Bytes,
    draw: u64,
) -> Result<(Intent, Bytes), Fault> {
    let Route::Proxied { api, kind } = path::classify(&parts.method, parts.uri.path())? else {
        return Err(Fault::NoSuchPath);
    };
    read_as((api, kind), config, parts, body, draw)
}

/// As [`read`], where another has decided which paths there are.
pub(crate) fn read_anything(
    config: &Resolved,
    parts: &Parts,
    body: Bytes,
    draw: u64,
) -> Result<(Intent, Bytes), Fault> {
    let work = match path::classify(&parts.method, parts.uri.path())? {
        Route::Proxied { api, kind } => (api, kind),
        _ => (Api::OpenAi, RequestKind::Other),
    };
    read_as(work, config, parts, body, draw)
}

fn read_as(
    (api, kind): (Api, RequestKind),
    config: &Resolved,
    parts: &Parts,
    body: Bytes,
    draw: u64,
) -> Result<(Intent, Bytes), Fault> {
    let controls = ControlHeaders::of(&parts.headers);
    let (fields, named) = look(kind, &controls, &body)?;
    let model = named.as_ref().map(|named| named.name.as_ref());
    let resolved = model.and_then(|model| config.names.resolve(model, draw));
    let renamed = controls.rewrite().filter(|_| model.is_some());
    let target = renamed.or(resolved.map(|resolved| resolved.target));
    let origin = WorkloadContext::of(controls.workload);

    let listed = listed(&config.identity, &parts.headers);
    let traits = identity::RequestAttributes {
        model,
        target_model: target,
        tenant: None,
        workload: origin.id.as_deref(),
        fairness_id: controls.fairness_id(),
        headers: &listed,
    };
    let flow = identity::flow_name(&config.identity.parts, &traits);
    let class = identity::class_of(&config.identity.rules, &traits);

    let estimate = CostEstimate::of(kind, &fields, body.len(), config.cost);
    let streamed = fields.stream.unwrap_or(api == Api::Ollama && kind.generates());
    let intent = Intent {
        model: model.map(str::to_owned),
        target: target.map(str::to_owned),
        flow,
        class,
        band: band_alias::band_of(
            &controls,
            &config.objectives,
            resolved.and_then(|found| found.band),
        ),
        criticality: origin.criticality,
        cost: estimate.cost,
        prompt: estimate.prompt,
        tokens: estimate.tokens,
        streamed,
        ttl: controls.ttl().map(|asked| asked.min(ttl_of(config, class))),
        deadline: controls.deadline(),
        latency_max: controls.latency_max(),
        latency_critical: controls.latency_critical(),
        session: fields.session.best(controls.session.and_then(text)),
        request_id: identifier::of(controls.request_id),
        // Lines between events belong to one of the two kinds of stream only.
        queue_status: streamed && api == Api::OpenAi && controls.queue_status(),
        workload: origin.id,
    };
    let rewritten = match (&named, target) {
        (Some(named), Some(target)) if named.name.as_ref() != target => {
            Some(named.replaced(&body, target).ok_or(Fault::Internal)?)
        }
        _ => None,
    };
    Ok((intent, rewritten.unwrap_or(body)))
}

/// What the body says, and the model it names. Where a path needs a model, its body must be in
/// order; anywhere else it is the backend's business.
fn look<'a>(
    kind: RequestKind,
    controls: &ControlHeaders<'_>,
    body: &'a [u8],
) -> Result<(BodyFields<'a>, Option<ModelName<'a>>), Fault> {
    if kind.needs_model() {
        let fields = json_body::parse(body)?;
        let Some(named) = fields.model()? else {
            let text = "'model' is missing: name the model that is to answer.";
            return Err(Fault::InvalidModel(text.into()));
        };
        return Ok((fields, Some(checked(named)?)));
    }
    let content_type = controls.content_type.and_then(text).unwrap_or_default();
    let is = |kind: &str| {
        content_type.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind))
    };
    if is("multipart/form-data") {
        let named = multipart_form::model(content_type, body)?.map(checked).transpose()?;
        return Ok((BodyFields::default(), named));
    }
    // Curl says of every body, if not told otherwise, that it is a form.
    let json = is("application/json") || is("application/x-www-form-urlencoded");
    if !(json || content_type.is_empty()) || body.is_empty() {
        return Ok((BodyFields::default(), None));
    }
    match json_body::parse(body) {
        Ok(fields) => {
            let named = fields.model().ok().flatten().map(checked).transpose()?;
            Ok((fields, named))
        }
        Err(twice @ Fault::InvalidModel(_)) => Err(twice),
        Err(_) => Ok((BodyFields::default(), None)),
    }
}

/// An estimate of the tokens in a body's prompt. A body that cannot be parsed counts as text.
pub(crate) fn prompt_tokens(body: &[u8]) -> u64 {
    json_body::parse(body)
        .map_or(body.len() as u64 / BYTES_PER_TOKEN, |fields| fields.prompt_size.tokens())
}

/// A model name that can be shown, logged and sent to a backend.
fn checked(named: ModelName<'_>) -> Result<ModelName<'_>, Fault> {
    let name = &named.name;
    let problem = match name.len() {
        0 => "'model' is empty: name the model that is to answer.".to_owned(),
        long if long > NAME_MAX => {
            format!("'model' has {long} bytes: at most {NAME_MAX} are allowed.")
        }
        _ if name.contains(char::is_control) => "'model' has control characters.".to_owned(),
        _ => return Ok(named),
    };
    Err(Fault::InvalidModel(problem))
}

/// Those headers that name a flow or its class.
fn listed<'a>(identity: &'a Identity, headers: &'a HeaderMap) -> Vec<(&'a str, &'a str)> {
    let patterns = identity.rules.iter().flat_map(|rule| &rule.patterns).map(|(part, _)| part);
    let mut listed: Vec<(&str, &str)> = Vec::new();
    for part in identity.parts.iter().chain(patterns) {
        let Attribute::Header(name) = part else { continue };
        if listed.iter().any(|(known, _)| known == name) {
            continue;
        }
        if let Some(value) = headers.get(name).and_then(text) {
            listed.push((name, value));
        }
    }
    listed
}

/// How long a request of this class may wait: what a client asks for can only be less.
pub(crate) fn ttl_of(config: &Resolved, class: u32) -> Span {
    let at = (class as usize).checked_sub(1);
    let class = at.and_then(|at| config.flow.classes.get(at));
    class.unwrap_or(&config.flow.default_class).ttl
}
