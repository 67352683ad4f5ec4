//! The list `dispatch.gates`.

use std::collections::BTreeMap;

use crate::gates::{GateSettings, read};
use crate::schema::Section;

/// The gates that can be used, and the names of all: a gate with a problem is reported once, not
/// again by every queue that names it.
pub(super) fn gates(sections: Vec<Section<'_>>) -> (Vec<GateSettings>, Vec<String>) {
    let mut names = BTreeMap::new();
    let mut gates = Vec::new();
    for section in sections {
        let gate = read(&section);
        if let Some(name) = section.given::<String>("name") {
            let here = section.location().path.clone();
            if let Some(other) = names.insert(name.clone(), here) {
                let what = format!("is {name:?}, which is the name of {other} already");
                section.refuse("name", what);
            }
            gates.extend(gate);
        }
    }
    (gates, names.into_keys().collect())
}
