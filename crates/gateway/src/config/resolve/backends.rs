//! The list `backends`.

use std::collections::BTreeMap;

use flow::{BackendTraits, Bounds};
use http::uri::Scheme;

use crate::config::sections::backend_address;
use crate::config::settings::BackendSpec;
use crate::config::settings::tenants::SecretSource;
use crate::schema::Section;

pub(super) fn backends(sections: Vec<Section<'_>>, bounds: Bounds) -> Vec<BackendSpec> {
    let mut ids = BTreeMap::new();
    let mut backends = Vec::new();
    for section in sections {
        let spec = backend(&section);
        // The id of an entry whose URL has a problem counts as well.
        let id = spec.as_ref().map(|spec| spec.id.clone()).or_else(|| section.given("id"));
        if let Some(id) = id {
            let here = section.location().path.clone();
            if let Some(other) = ids.insert(id.clone(), here) {
                let what = format!("is {id:?}, which is the id of {other} already");
                section.refuse("id", what);
            }
        }
        if bounds != Bounds::Auto && section.has("places") {
            section.notice("places", "has no effect: the bounds are fixed, not automatic");
        }
        backends.extend(spec);
    }
    backends
}

fn backend(section: &Section<'_>) -> Option<BackendSpec> {
    let url: String = section.given("url")?;
    let address = backend_address(&url).ok()?;
    let authority = address.authority()?;
    if address.scheme() == Some(&Scheme::HTTP) {
        for key in ["ca_file", "tls_name"] {
            if section.given::<String>(key).is_some() {
                section.notice(key, "has no effect: the URL does not begin with https");
            }
        }
    }
    Some(BackendSpec {
        id: section.given("id").unwrap_or_else(|| authority.to_string()),
        url: url.trim_end_matches('/').to_owned(),
        kind: section.get("kind"),
        models: section.given("models").unwrap_or_default(),
        traits: BackendTraits {
            power_watts: section.get("power_watts"),
            latency_ms: section.get("latency_ms"),
        },
        places: section.given("places"),
        http2: section.get("http2"),
        api_key: api_key(section),
        credential: None,
        ca_file: section.path("ca_file"),
        tls_name: section.given("tls_name"),
        drain: None,
    })
}

fn api_key(section: &Section<'_>) -> Option<SecretSource> {
    if section.has("api_key_env") && section.has("api_key_file") {
        section.refuse("api_key_file", "is given beside api_key_env: give one of them");
    }
    let variable = section.given("api_key_env").map(SecretSource::Variable);
    variable.or_else(|| section.path("api_key_file").map(SecretSource::File))
}
