//! `GET /usage`: what tenants have used, as JSON or as CSV.
//!
//! An operator sees all tenants. A tenant sees its own sums with its own key.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use store::{StoreError, UsageAmounts, UsageKey, UsageQuery};

use crate::admin_access::{self, Visitor};
use crate::calendar;
use crate::clock;
use crate::config::settings::Config;
use crate::ingress::usage_query::UsageAsked;
use crate::reply::{Fault, content, error, json, uncached};
use crate::state::State;
use crate::task;
use crate::upstream::client;
use crate::usage::UsageRows;

const HOUR_SECS: u64 = 3600;
/// The header of a page that is not the last one, with the parameter `after` of the next.
const NEXT: HeaderName = HeaderName::from_static("x-next-after");
const CSV: &str = "text/csv; charset=utf-8";
const COLUMNS: &str = "hour,tenant,key,model,requests,refused,prompt_tokens,cached_tokens,\
    completion_tokens,engine_seconds,wait_seconds\n";

#[derive(Serialize)]
struct UsagePage<'a> {
    object: &'static str,
    data: Vec<UsageEntry>,
    /// The parameter `after` of the next page, if there is one.
    next: Option<&'a str>,
}

/// The sums of an hour.
#[derive(Serialize)]
struct UsageEntry {
    hour: String,
    tenant: String,
    key: String,
    model: String,
    requests: u64,
    refused: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
    engine_seconds: f64,
    wait_seconds: f64,
}

/// Responds to a request for the accounts. On a listener without status pages a request without a
/// key sees nothing, also if the pages need none.
pub(super) async fn answer<B>(
    state: &State,
    request: Request<B>,
    has_pages: bool,
) -> Response<Full<Bytes>> {
    let (mut parts, _) = request.into_parts();
    let read = read(state, &mut parts, has_pages).await;
    uncached(read.unwrap_or_else(|fault| error::response(&fault.into())))
}

async fn read(
    state: &State,
    parts: &mut Parts,
    has_pages: bool,
) -> Result<Response<Full<Bytes>>, Fault> {
    let config = state.config.load_full();
    let asked = UsageAsked::read(parts.uri.query(), clock::date_secs())?;
    let tenant = match own_tenant(state, &config, parts)? {
        Some(own) if asked.tenant.as_ref().is_some_and(|asked| *asked != own) => {
            return Err(Fault::AdminOnly);
        }
        Some(own) => Some(own),
        None => {
            let visitor = Visitor::of(&parts.headers, &parts.extensions);
            admin_access::may_read_accounts(&config, visitor, has_pages)?;
            asked.tenant
        }
    };
    let accounts = state.observer.accounts().cloned().ok_or(Fault::UsageDisabled)?;
    let query = UsageQuery {
        tenant,
        since: asked.since / HOUR_SECS,
        until: asked.until.div_ceil(HOUR_SECS),
        after: asked.after,
        limit: asked.limit,
    };
    // Many rows take long to write, too.
    let written = task::blocking(move || {
        let rows = accounts.read(&query)?;
        let next = rows.last().filter(|_| rows.len() == query.limit).map(|(key, _)| cursor(key));
        let mut response = if asked.csv { csv(rows) } else { page(rows, next.as_deref()) };
        if let Some(next) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
            response.headers_mut().insert(NEXT, next);
        }
        Ok(response)
    });
    written.await.map_err(|_| Fault::Internal)?.map_err(|error: StoreError| {
        tracing::error!(%error, "the accounts cannot be read");
        Fault::UsageAway
    })
}

/// The name of a row, without characters that a query or a header cannot have.
fn cursor(UsageKey { hour, tenant, key, model }: &UsageKey) -> String {
    format!("{hour}:{tenant}:{key}:{}", client::escaped(model))
}

/// The tenant of a client that is no operator.
fn own_tenant(
    state: &State,
    config: &Arc<Config>,
    parts: &mut Parts,
) -> Result<Option<String>, Fault> {
    if admin_access::is_operator(config, Visitor::of(&parts.headers, &parts.extensions)) {
        return Ok(None);
    }
    match state.caller(config, parts) {
        Ok(caller) => Ok(caller.map(|caller| caller.tenant.name.clone())),
        Err(Fault::MissingKey) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn page(rows: UsageRows, next: Option<&str>) -> Response<Full<Bytes>> {
    let data = rows.into_iter().map(UsageEntry::from).collect();
    json(StatusCode::OK, &UsagePage { object: "list", data, next })
}

fn csv(rows: UsageRows) -> Response<Full<Bytes>> {
    let mut text = COLUMNS.to_owned();
    for entry in rows.into_iter().map(UsageEntry::from) {
        let names = [&entry.hour, &entry.tenant, &entry.key, &entry.model];
        text.extend(names.map(|name| field(name) + ","));
        let counts = [
            entry.requests,
            entry.refused,
            entry.prompt_tokens,
            entry.cached_tokens,
            entry.completion_tokens,
        ];
        text.extend(counts.map(|count| format!("{count},")));
        text += &format!("{},{}\n", entry.engine_seconds, entry.wait_seconds);
    }
    content(StatusCode::OK, CSV, text.into())
}

/// A field of CSV.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

// === impl UsageEntry ===

impl From<(UsageKey, UsageAmounts)> for UsageEntry {
    fn from((key, amounts): (UsageKey, UsageAmounts)) -> Self {
        Self {
            hour: calendar::rfc3339(key.hour * HOUR_SECS),
            tenant: key.tenant,
            key: key.key,
            model: key.model,
            requests: amounts.requests,
            refused: amounts.refused,
            prompt_tokens: amounts.prompt,
            cached_tokens: amounts.cached,
            completion_tokens: amounts.completion,
            engine_seconds: amounts.engine_ms as f64 / 1e3,
            wait_seconds: amounts.wait_ms as f64 / 1e3,
        }
    }
}
