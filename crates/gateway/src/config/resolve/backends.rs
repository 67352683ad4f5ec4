//! The model servers, from the list `backends` and from flags.

use std::collections::BTreeMap;

use flow::BackendTraits;
use flow::identity::NAME_MAX;
use http::Uri;

use crate::config::Source;
use crate::config::keywords;
use crate::config::report::Report;
use crate::config::resolved::{BackendKind, BackendSpec};
use crate::config::section::Section;

/// A server's address that was checked.
struct Address {
    /// As it was given, without slashes at its end.
    url: String,
    /// Host and port, which name a backend that has no other name.
    authority: String,
    /// What is likely to run at this port.
    kind: BackendKind,
}

pub(super) fn resolve(
    sections: Vec<Section<'_>>,
    source: &Source,
    report: &Report,
) -> Vec<BackendSpec> {
    let mut ids = BTreeMap::new();
    let mut backends = Vec::new();
    for mut section in sections {
        let spec = backend(&mut section);
        if let Some(spec) = &spec {
            let here = section.place().path.clone();
            if let Some(other) = ids.insert(spec.id.clone(), here) {
                let what = format!("is {:?}, which is the id of {other} already", spec.id);
                section.refuse("id", what);
            }
        }
        backends.extend(spec);
        section.finish();
    }
    for flag in &source.backends {
        match from_flag(flag) {
            Ok(spec) => {
                if let Some(other) = ids.insert(spec.id.clone(), format!("--backend {flag}")) {
                    let what =
                        format!("--backend {flag}: {:?} is the id of {other} already", spec.id);
                    report.flag_problem(what);
                }
                backends.push(spec);
            }
            Err(problem) => report.flag_problem(format!("--backend {flag}: {problem}")),
        }
    }
    backends
}

fn backend(section: &mut Section<'_>) -> Option<BackendSpec> {
    let id = section.text("id");
    let id_problem = id.as_deref().and_then(|id| check_id(id).err());
    section.require("url");
    let url = section.text("url").map(|url| address(&url));
    let kind = section.word("kind", keywords::KINDS);
    let models = section.texts("models").unwrap_or_default();
    let traits = traits(section);
    let http2 = section.flag("http2").unwrap_or_default();
    if let Some(problem) = id_problem {
        section.refuse("id", problem);
    }
    let address = url?.map_err(|problem| section.refuse("url", problem)).ok()?;
    Some(BackendSpec {
        id: id.unwrap_or(address.authority),
        url: address.url,
        kind: kind.unwrap_or(address.kind),
        models: models.into_iter().map(|(model, _)| model).collect(),
        traits,
        http2,
    })
}

/// Each is checked alone, so that both can be told.
fn traits(section: &mut Section<'_>) -> BackendTraits {
    let default = BackendTraits::default();
    let mut read = |key, given: fn(f32) -> (f32, f32)| {
        let value = section.number(key)? as f32;
        let (power, latency) = given(value);
        let checked =
            BackendTraits::new(power, latency).map_err(|error| section.refuse_number(key, error));
        checked.ok().map(|_| value)
    };
    BackendTraits {
        power_watts: read("power_watts", |watts| (watts, 0.0)).unwrap_or(default.power_watts),
        latency_ms: read("latency_ms", |millis| (0.0, millis)).unwrap_or(default.latency_ms),
    }
}

/// `URL`, or `ID=URL`.
fn from_flag(flag: &str) -> Result<BackendSpec, String> {
    let named = flag.split_once('=').filter(|(id, _)| !id.contains("://"));
    let (id, url) = named.map_or((None, flag), |(id, url)| (Some(id), url));
    if let Some(id) = id {
        check_id(id).map_err(|problem| format!("the id {problem}"))?;
    }
    let address = address(url).map_err(|problem| format!("the address {problem}"))?;
    Ok(BackendSpec {
        id: id.map_or(address.authority, str::to_owned),
        url: address.url,
        kind: address.kind,
        models: Vec::new(),
        traits: BackendTraits::default(),
        http2: false,
    })
}

/// An id is shown in a header and as a label.
fn check_id(id: &str) -> Result<(), String> {
    let good = (1..=NAME_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    let allowed = format!("1 to {NAME_MAX} letters, digits and signs, without spaces");
    if good { Ok(()) } else { Err(format!("is {id:?}, allowed is {allowed}")) }
}

fn address(text: &str) -> Result<Address, String> {
    let allowed = "http://HOST:PORT, perhaps with a path";
    if text.starts_with("https://") {
        return Err(format!("is {text:?}: TLS to backends is not available yet, use http://"));
    }
    let wrong = || format!("is {text:?}, allowed is {allowed}");
    if !text.contains("://") {
        return Err(format!("{}; did you mean \"http://{text}\"?", wrong()));
    }
    if !text.starts_with("http://") {
        return Err(wrong());
    }
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    // What a `Uri` takes for a port need not be one.
    let port = authority.as_str().rsplit_once(']').map_or(authority.as_str(), |(_, rest)| rest);
    let port = port.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    let port_good = port.as_ref().is_none_or(|port| matches!(port, Ok(1..)));
    let bare = uri.query().is_none() && !authority.as_str().contains('@') && !text.contains('#');
    if authority.host().is_empty() || !port_good || !bare {
        return Err(wrong());
    }
    Ok(Address {
        url: text.trim_end_matches('/').to_owned(),
        authority: authority.to_string(),
        kind: kind_at(authority.port_u16()),
    })
}

/// What usually listens at a port.
fn kind_at(port: Option<u16>) -> BackendKind {
    match port {
        Some(11_434) => BackendKind::Ollama,
        Some(8000) => BackendKind::Vllm,
        Some(30_000) => BackendKind::Sglang,
        Some(8080) => BackendKind::LlamaCpp,
        _ => BackendKind::Generic,
    }
}
