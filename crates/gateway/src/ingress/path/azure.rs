//! The paths of Azure OpenAI: `/openai/deployments/{name}/chat/completions?api-version=…`.
//!
//! Model servers do not have these paths. A request goes to the same operation under `/v1/`,
//! without its query, and its body names the deployment as the model.

use std::borrow::Cow;

use super::{check, percent_decoded};
use crate::reply::Fault;

/// The beginning of all paths of Azure OpenAI.
pub(super) const PREFIX: &str = "/openai/";
const DEPLOYMENTS: &str = "/openai/deployments/";
/// The operations of a deployment, which all have a JSON body.
pub(super) const OPERATIONS: [&str; 3] = ["chat/completions", "completions", "embeddings"];

/// The path at a backend; `None` for a path that is not offered. An ambiguous path is an error, and
/// so is a deployment whose name cannot be read: the request would go by the model of its body.
pub(super) fn path(path: &str) -> Result<Option<Cow<'_, str>>, Fault> {
    check(path)?;
    if split(path).is_some() && deployment(path).is_none() {
        let what = "The name of the deployment in the path is not UTF-8.";
        return Err(Fault::InvalidRequest(what.into()));
    }
    Ok(match split(path) {
        Some((_, operation)) => Some(Cow::Owned(format!("/v1/{operation}"))),
        None => path.strip_prefix("/openai").filter(|rest| rest.starts_with("/v1/")).map(Cow::from),
    })
}

/// The name of the deployment in a path.
pub(super) fn deployment(path: &str) -> Option<String> {
    let (name, _) = split(path)?;
    String::from_utf8(percent_decoded(name)).ok()
}

fn split(path: &str) -> Option<(&str, &str)> {
    let (name, operation) = path.strip_prefix(DEPLOYMENTS)?.split_once('/')?;
    OPERATIONS.contains(&operation).then_some((name, operation))
}
