//! The list `backends`.

use std::collections::BTreeMap;

use flow::BackendTraits;

use crate::config::sections::backend_address;
use crate::config::settings::BackendSpec;
use crate::schema::Section;

pub(super) fn backends(sections: Vec<Section<'_>>) -> Vec<BackendSpec> {
    let mut ids = BTreeMap::new();
    let mut backends = Vec::new();
    for section in sections {
        let Some(spec) = backend(&section) else { continue };
        let here = section.location().path.clone();
        if let Some(other) = ids.insert(spec.id.clone(), here) {
            let what = format!("is {:?}, which is the id of {other} already", spec.id);
            section.refuse("id", what);
        }
        backends.push(spec);
    }
    backends
}

fn backend(section: &Section<'_>) -> Option<BackendSpec> {
    let url: String = section.given("url")?;
    let address = backend_address(&url).ok()?;
    let authority = address.authority()?;
    Some(BackendSpec {
        id: section.given("id").unwrap_or_else(|| authority.to_string()),
        url: url.trim_end_matches('/').to_owned(),
        kind: section.get("kind"),
        models: section.given("models").unwrap_or_default(),
        traits: BackendTraits {
            power_watts: section.get("power_watts"),
            latency_ms: section.get("latency_ms"),
        },
        http2: section.get("http2"),
    })
}
