//! The paths of the dispatcher's pages.

use http::Method;

use super::{POST_METHODS, Route};
use crate::reply::Fault;
use crate::reply::error::READ_METHODS;

const ROOT: &str = "/dispatch";

/// A call of the dispatcher's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DispatchCall {
    /// Queues and gates, as JSON and as text.
    Overview,
    Text,
    DeadLetters,
    Redrive,
    Purge,
    /// The path does not accept this method, but these.
    OtherMethod(&'static str),
}

/// The dead letters that a query selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeadLetterQuery {
    pub(crate) queue: String,
    pub(crate) after: Option<u64>,
}

/// The route of a path of the dispatcher; `None` for any other path.
pub(super) fn at(method: &Method, path: &str) -> Option<Route> {
    let (call, wanted) = match path.strip_prefix(ROOT)? {
        "" => (DispatchCall::Overview, Method::GET),
        ".txt" => (DispatchCall::Text, Method::GET),
        "/dead" => (DispatchCall::DeadLetters, Method::GET),
        "/dead/redrive" => (DispatchCall::Redrive, Method::POST),
        "/dead/purge" => (DispatchCall::Purge, Method::POST),
        _ => return None,
    };
    let right = *method == wanted || (wanted == Method::GET && *method == Method::HEAD);
    let methods = if wanted == Method::GET { READ_METHODS } else { POST_METHODS };
    Some(Route::Dispatch(if right { call } else { DispatchCall::OtherMethod(methods) }))
}

// === impl DeadLetterQuery ===

impl DeadLetterQuery {
    /// Parses a query.
    pub(crate) fn read(query: Option<&str>) -> Result<Self, Fault> {
        let mut wanted = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("queue", name) => wanted.queue = decoded(name),
                ("after", number) => {
                    let what = "'after' must be the number of a dead letter.";
                    let wrong = |_| Fault::InvalidField("after", what.into());
                    wanted.after = Some(number.parse().map_err(wrong)?);
                }
                _ => {}
            }
        }
        if wanted.queue.is_empty() {
            let what = "'queue' is missing: name the queue of the dead letters.";
            return Err(Fault::InvalidField("queue", what.into()));
        }
        Ok(wanted)
    }
}

/// A value of a query; empty if it is not UTF-8.
fn decoded(value: &str) -> String {
    String::from_utf8(super::percent_decoded(value)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatch_paths_are_read_with_get_and_changed_with_post() {
        let rows = [
            ("/dispatch", Method::GET, DispatchCall::Overview),
            ("/dispatch.txt", Method::HEAD, DispatchCall::Text),
            ("/dispatch/dead", Method::GET, DispatchCall::DeadLetters),
            ("/dispatch/dead/redrive", Method::POST, DispatchCall::Redrive),
            ("/dispatch/dead/purge", Method::POST, DispatchCall::Purge),
            ("/dispatch/dead/purge", Method::GET, DispatchCall::OtherMethod("OPTIONS, POST")),
            ("/dispatch", Method::POST, DispatchCall::OtherMethod("GET, HEAD, OPTIONS")),
        ];
        for (path, method, call) in rows {
            assert_eq!(at(&method, path), Some(Route::Dispatch(call)), "{method} {path}");
        }
        for path in ["/dispatcher", "/dispatch/", "/dispatch/dead/", "/"] {
            assert_eq!(at(&Method::GET, path), None, "{path}");
        }
    }

    #[test]
    fn a_query_names_the_queue_and_where_to_go_on() {
        let read = |query| DeadLetterQuery::read(Some(query));
        let wanted = DeadLetterQuery { queue: "a b".into(), after: Some(7) };
        assert_eq!(read("queue=a%20b&after=7&x=y"), Ok(wanted));
        assert!(matches!(read("after=7"), Err(Fault::InvalidField("queue", _))));
        assert!(matches!(read("queue=q&after=x"), Err(Fault::InvalidField("after", _))));
        assert!(matches!(DeadLetterQuery::read(None), Err(Fault::InvalidField("queue", _))));
    }
}
