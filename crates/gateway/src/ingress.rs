//! Reading of requests: headers and bodies become an [`Intent`]. No other module knows the names of
//! request headers and body fields.
//!
//! The module is pure. It reads the headers once and the body once.

pub(crate) mod address;
mod band;
mod batch_line;
mod batch_sender;
mod body_key;
mod body_prompts;
mod caller;
mod content_encoding;
mod content_type;
mod cost_estimate;
pub(crate) mod dispatch_headers;
pub(crate) mod duration;
mod form_model;
pub(crate) mod headers;
pub(crate) mod identifier;
mod json_body;
mod json_scanner;
pub(crate) mod paging;
pub(crate) mod path;
mod preferences;
mod prompt_size;
mod prompt_text;
mod request_flow;
mod scalar;
mod session;
pub(crate) mod usage_query;
mod workload;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use flow::identity::{NAME_MAX, RequestAttributes};
use flow::{Band, FlowClass, PromptBlocks, Span};
use http::request::Parts;
use http::{HeaderValue, Method};

use self::body_prompts::BodyPrompts;
use self::content_encoding::{encoding, plain};
use self::content_type::{ContentType, FORM_OF_TEXT};
use self::cost_estimate::CostEstimate;
use self::headers::{ControlHeaders, text};
use self::json_body::{BodyFields, ModelName};
use self::path::{Api, RequestKind};
use self::prompt_size::PromptSize;
use self::prompt_text::CacheScope;
use self::request_flow::{RequestFlow, listed};
use self::workload::WorkloadContext;
use crate::config::Config;
use crate::config::settings::Cost;
use crate::config::settings::tenants::Tenant;
use crate::reply::Fault;

pub(crate) use self::band::UnknownPriority;
pub(crate) use self::band::before_body as band_before_body;
pub(crate) use self::batch_line::{BatchLine, LineBody, LineError, LineText};
pub(crate) use self::batch_sender::Sender;
pub(crate) use self::caller::{Caller, Proof, admin_right, caller, credential_names, presented};
pub(crate) use self::content_encoding::decoded;
pub(crate) use self::cost_estimate::TokenClaim;
pub(crate) use self::preferences::Preferences;
pub(crate) use self::prompt_size::BYTES_PER_TOKEN;
pub(crate) use self::workload::WorkloadName;

/// What a request asks for, and everything that a decision about it needs.
#[derive(Clone, Debug)]
pub(crate) struct Intent {
    /// The model that the client named; `None` if the path needs no model.
    pub(crate) model: Option<Arc<str>>,
    /// The target model that the name resolves to.
    pub(crate) target: Option<Arc<str>>,
    /// The name and the class of its flow.
    pub(crate) flow: String,
    pub(crate) class: u32,
    pub(crate) band: Band,
    /// Whether the request claimed a higher band than its tenant may have.
    pub(crate) band_clamped: bool,
    /// What it named as its priority, if that is no band.
    pub(crate) unknown_priority: Option<Box<UnknownPriority>>,
    /// Its tenant and its key, where there are tenants.
    pub(crate) caller: Option<Caller>,
    pub(crate) workload: WorkloadName,
    pub(crate) criticality: u8,
    /// Estimates: the cost in the queue's unit, prompt tokens, prompt and output tokens.
    pub(crate) cost: u64,
    pub(crate) prompt: u64,
    pub(crate) tokens: u64,
    /// The blocks of its prompt, if backends are chosen for what they have cached.
    pub(crate) blocks: PromptBlocks,
    /// The prompt and the output that the client asks for. The estimate may be less.
    pub(crate) claimed: u64,
    /// The number of responses that it asks for.
    pub(crate) choices: u64,
    /// Whether its response is text that a model writes.
    pub(crate) generates: bool,
    /// Whether the time to its first byte can be bounded: it generates text, as a stream or up to a
    /// limit of the client.
    pub(crate) measurable: bool,
    /// Whether the response is a stream.
    pub(crate) streamed: bool,
    /// The longest wait.
    pub(crate) ttl: Option<Span>,
    pub(crate) preferences: Preferences,
    pub(crate) session: Option<u64>,
    /// The hash of its session inside its flow; 0 is none.
    pub(crate) flow_session: u32,
    /// Echoed to the client and forwarded to the backend.
    pub(crate) request_id: HeaderValue,
    /// Whether the stream reports the position in the queue while the request waits.
    pub(crate) queue_status: bool,
    /// Whether it goes to a backend without the queue, because it only reads.
    pub(crate) direct: bool,
    /// Whether its body came compressed and was decoded.
    pub(crate) decoded: bool,
    /// Whether its body is JSON that was labelled as a form.
    pub(crate) mislabelled: bool,
}

/// Why a response in the background is refused where tokens are charged.
const BACKGROUND: &str = "'background' is not offered here: nobody would know the tokens of a \
    response that is made later. Send the request without it, with 'stream' if it takes long.";

/// What the meaning of a request depends on beside the request itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) caller: Option<&'a Caller>,
    /// The name of the client's address, if it is needed.
    pub(crate) address: Option<&'a str>,
    /// Decides between the variants of a split.
    pub(crate) draw: u64,
}

/// Reads a request, whose path has been classified. Returns the body to forward: the same bytes,
/// unless the model name resolves to another model.
pub(crate) fn read(
    work: (Api, RequestKind),
    context: ReadContext<'_>,
    parts: &Parts,
    body: Bytes,
) -> Result<(Box<Intent>, Bytes), Fault> {
    let reads = path::is_read(&parts.method) || work.1 == RequestKind::Description;
    let direct = reads || parts.method == Method::OPTIONS;
    if direct && headers::asks_for_websocket(&parts.headers) {
        return Err(Fault::UpgradeNotSupported);
    }
    let deployment = path::deployment(parts.uri.path());
    let mut read = read_as((work, deployment), context, parts, body)?;
    read.0.direct = direct;
    Ok(read)
}

/// Like [`read`], for a caller that has already decided which paths are allowed, and may have a
/// prefix before them.
pub(crate) fn read_anything(
    context: ReadContext<'_>,
    parts: &Parts,
    body: Bytes,
) -> Result<(Box<Intent>, Bytes), Fault> {
    let (method, path) = (&parts.method, parts.uri.path());
    path::classify(method, path).and_then(|_| path::check(path))?;
    read_as((path::work(method, path), None), context, parts, body)
}

/// Reads a request whose path names an API, a kind and perhaps the model.
fn read_as(
    ((api, kind), deployment): ((Api, RequestKind), Option<String>),
    context: ReadContext<'_>,
    parts: &Parts,
    body: Bytes,
) -> Result<(Box<Intent>, Bytes), Fault> {
    let ReadContext { config, caller, address, draw } = context;
    let tenant = caller.map(|caller| &*caller.tenant);
    let controls = ControlHeaders::of(&parts.headers);
    let encoding = encoding(kind.needs_model(), &controls, &parts.headers)?;
    let (body, decoded) = plain(encoding, body, config.server.body_limit)?;
    let body = with_deployment(body, deployment)?;
    let mut fields = BodyFields::default();
    let named = look((kind, parts.uri.path()), &controls, &body, &mut fields)?;
    let charges_tokens = tenant.is_some() || config.cost == Cost::Tokens;
    if kind == RequestKind::Response && fields.background && charges_tokens {
        return Err(Fault::InvalidRequest(BACKGROUND.into()));
    }
    let model = named.as_ref().map(|named| named.name.as_ref());
    let resolved = model.and_then(|model| config.resolve_model(model, draw));
    let renamed = controls.rewrite().filter(|_| model.is_some());
    let target = renamed.or(resolved.map(|resolved| resolved.target));
    allowed(tenant, (model, renamed), &fields, parts)?;
    let origin = WorkloadContext::of(controls.workload);
    let session = fields.session.best(controls.session.and_then(text));
    let attributes = RequestAttributes {
        model,
        target_model: target,
        tenant: tenant.map(|tenant| tenant.name.as_str()),
        workload: origin.name.given(),
        fairness_id: controls.fairness_id(),
        address,
        headers: &listed(config, &parts.headers),
    };
    let flow = RequestFlow::of(&config.identity, &attributes, session);
    let bands =
        (band::stated(&controls, config, fields.tier), resolved.and_then(|found| found.band));
    let (band, band_clamped) = band::ruled(config, &attributes, bands, tenant);
    let estimate = CostEstimate::of(kind, &fields, body.len(), config.cost);
    let streamed = fields.stream.unwrap_or(api == Api::Ollama && kind.generates());
    let generated_by = target.filter(|_| kind.generates());
    let blocks = prompt_blocks(config, (&fields, &body), generated_by, attributes.tenant);
    let model: Option<Arc<str>> = model.map(Arc::from);
    // Comment lines between events exist only in OpenAI's streams.
    let queue_status = streamed && api == Api::OpenAi && controls.queue_status();
    let intent = Box::new(Intent {
        target: target.map(|target| shared(target, model.as_ref())),
        model,
        flow: flow.name,
        class: flow.class,
        band,
        band_clamped,
        unknown_priority: band::unknown(&controls, config).map(Box::new),
        caller: caller.cloned(),
        criticality: origin.criticality,
        cost: estimate.cost,
        prompt: estimate.prompt,
        tokens: estimate.tokens,
        blocks,
        claimed: estimate.tokens,
        choices: estimate.choices,
        generates: kind.generates() || parts.uri.path().ends_with(path::MESSAGES),
        measurable: kind.generates() && (streamed || fields.output.is_some()),
        streamed,
        ttl: controls.ttl().map(|asked| asked.min(ttl_of(config, flow.class))),
        preferences: controls.preferences(queue_status),
        session,
        flow_session: flow.session,
        request_id: identifier::of(controls.request_id),
        queue_status,
        direct: false,
        decoded,
        mislabelled: is_mislabelled(parts.uri.path(), &controls, &body),
        workload: origin.name,
    });
    let rewritten = rewritten(named.as_ref(), target, &body)?;
    Ok((intent, rewritten.unwrap_or(body)))
}

/// The prompt of a request that generates, by which prefix caches are known.
fn prompt_blocks(
    config: &Config,
    (fields, body): (&BodyFields<'_>, &[u8]),
    model: Option<&str>,
    tenant: Option<&str>,
) -> PromptBlocks {
    let Some(model) = model.filter(|_| config.flow.cache_tokens > 0) else {
        return PromptBlocks::UNKNOWN;
    };
    let tenant = tenant.filter(|_| config.cache_per_tenant);
    fields.prompt_text.blocks(body, CacheScope { model, tenant })
}

/// Checks that a tenant may use the model that the client names, the one that a header of the
/// client puts in its place, and those that are named where some server would take them from. Work
/// without a model could go to any model.
fn allowed(
    tenant: Option<&Tenant>,
    (model, renamed): (Option<&str>, Option<&str>),
    fields: &BodyFields<'_>,
    parts: &Parts,
) -> Result<(), Fault> {
    let Some(tenant) = tenant.filter(|tenant| !tenant.models.is_empty()) else { return Ok(()) };
    let works = !path::is_read(&parts.method) && parts.method != Method::OPTIONS;
    if works && model.is_none() {
        return Err(Fault::ModelNotAllowed(String::new()));
    }
    let elsewhere = path::named_models(&parts.method, &parts.uri).into_iter().map(Cow::Owned);
    let named = model.into_iter().chain(renamed).map(Cow::Borrowed);
    let mut named = named.chain(fields.adapter()).chain(elsewhere);
    let refused = named.find(|name| !tenant.may_use(name));
    refused.map_or(Ok(()), |name| Err(Fault::ModelNotAllowed(name.into_owned())))
}

/// The name of the target, which most often is that of the model.
fn shared(target: &str, model: Option<&Arc<str>>) -> Arc<str> {
    model.filter(|model| ***model == *target).cloned().unwrap_or_else(|| target.into())
}

/// The body with the name of the target, if the client used another name.
fn rewritten(
    named: Option<&ModelName<'_>>,
    target: Option<&str>,
    body: &Bytes,
) -> Result<Option<Bytes>, Fault> {
    match (named, target) {
        (Some(named), Some(target)) if named.name.as_ref() != target => {
            Ok(Some(named.replaced(body, target).ok_or(Fault::Internal)?))
        }
        _ => Ok(None),
    }
}

/// The body with the model that the path names, if it names one.
fn with_deployment(body: Bytes, deployment: Option<String>) -> Result<Bytes, Fault> {
    match deployment {
        Some(name) => json_body::with_model(body, &name),
        None => Ok(body),
    }
}

/// Reads the fields of the body, and returns the model that it names. If the path needs a model, an
/// invalid body is an error. On any other path the backend judges the body, as far as all servers
/// read it alike: some look at the content type, and some at the first bytes alone. So a body that
/// begins as an object must be one, whatever its type: of JSON lines, some servers would read the
/// first.
fn look<'a>(
    (kind, path): (RequestKind, &str),
    controls: &ControlHeaders<'_>,
    body: &'a [u8],
    fields: &mut BodyFields<'a>,
) -> Result<Option<ModelName<'a>>, Fault> {
    let is_read = kind.needs_model() || !(body.is_empty() || path::is_blob(path));
    if !is_read {
        return Ok(None);
    }
    let content_type = ContentType::of(controls)?;
    if kind.needs_model() {
        fields.parse(body)?;
        let named = match kind {
            RequestKind::Description => fields.described_model()?,
            _ => fields.model()?,
        };
        let Some(named) = named else {
            let text = "'model' is missing: name the model.";
            return Err(Fault::InvalidModel(text.into()));
        };
        return Ok(Some(checked(named)?));
    }
    if content_type.is("multipart/form-data") {
        let form = form_model::read(content_type.text(), body)?;
        fields.prompts = BodyPrompts::of_size(form.size);
        return form.model.map(checked).transpose();
    }
    if json_body::begins_object(body) {
        fields.parse(body)?;
        return fields.model()?.map(checked).transpose();
    }
    if content_type.is(FORM_OF_TEXT) {
        let text = "The body is a form without files, which is not read here: send JSON.";
        return Err(Fault::InvalidRequest(text.into()));
    }
    fields.prompts = BodyPrompts::of_size(PromptSize::of_bytes(body.len()));
    Ok(None)
}

/// Whether a body that was read as JSON is labelled as a form, as curl labels what it sends. A
/// server that goes by the label would read another request, so the label is corrected.
fn is_mislabelled(path: &str, controls: &ControlHeaders<'_>, body: &[u8]) -> bool {
    let is_form = || ContentType::of(controls).is_ok_and(|kind| kind.is(FORM_OF_TEXT));
    is_form() && !path::is_blob(path) && json_body::begins_object(body)
}

/// The estimated number of prompt tokens of a body. A body that cannot be parsed counts as text.
pub(crate) fn prompt_tokens(body: &[u8]) -> u64 {
    json_body::parse(body)
        .map_or(body.len() as u64 / BYTES_PER_TOKEN, |fields| fields.prompts.tokens())
}

/// A model name that can be shown, logged and forwarded.
fn checked(named: ModelName<'_>) -> Result<ModelName<'_>, Fault> {
    let name = &named.name;
    let problem = match name.len() {
        0 => "'model' is empty: name the model.".to_owned(),
        long if long > NAME_MAX => {
            format!("'model' has {long} bytes: at most {NAME_MAX} are allowed.")
        }
        _ if name.contains(char::is_control) => "'model' has control characters.".to_owned(),
        _ => return Ok(named),
    };
    Err(Fault::InvalidModel(problem))
}

/// The time to live of a class. A client can only ask for less.
pub(crate) fn ttl_of(config: &Config, class: u32) -> Span {
    class_of(config, class).ttl
}

/// The settings of a class by its number.
pub(crate) fn class_of(config: &Config, class: u32) -> &FlowClass {
    let at = (class as usize).checked_sub(1);
    let class = at.and_then(|at| config.flow.classes.get(at));
    class.unwrap_or(&config.flow.default_class)
}
