//! Tests of discovery in Kubernetes, without IO.

mod cluster;
mod driver;
mod endpoints;
mod fuzz;
mod reflector;
mod role;
mod rules;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::objects::Object;
use super::reflector::Objects;

/// Objects from JSON, by name.
fn objects<T: Object + DeserializeOwned>(values: impl IntoIterator<Item = Value>) -> Objects<T> {
    let object = |value: Value| {
        let object: T = serde_json::from_value(value).unwrap();
        (object.metadata().name.clone(), Arc::new(object))
    };
    values.into_iter().map(object).collect()
}
