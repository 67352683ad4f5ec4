//! The models that a path and its query name, beside the body.
//!
//! A lock on models must know every place where some server takes a name: KServe's
//! `/v1/models/NAME:predict`, OpenAI's older `/v1/engines/NAME/completions`, and `?model=NAME`.

use http::{Method, Uri};

use super::azure::OPERATIONS;
use super::operation::{CARDS, ENGINES};
use super::{is_read, percent_decoded};
use crate::ingress::body_key::is_like_model;

/// The names, as a server decodes them.
pub(crate) fn named_models(method: &Method, uri: &Uri) -> Vec<String> {
    let path = decoded(uri.path());
    let cards = behind(&path, CARDS).map(|rest| of_card(method, rest));
    let in_path = cards.chain(behind(&path, ENGINES).map(of_engine)).map(str::to_owned);
    // Some servers take a semicolon for an ampersand.
    let pairs = uri.query().unwrap_or_default().split(['&', ';']);
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let in_query = pairs.filter(|(name, _)| is_like_model(&decoded(name)));
    in_path.chain(in_query.map(|(_, value)| decoded(value))).collect()
}

/// A call of a model ends with its verb.
fn of_card<'p>(method: &Method, rest: &'p str) -> &'p str {
    if is_read(method) { rest } else { rest.rsplit_once(':').map_or(rest, |(name, _)| name) }
}

fn of_engine(rest: &str) -> &str {
    let name = |end: &&str| rest.strip_suffix(*end)?.strip_suffix('/');
    OPERATIONS.iter().find_map(name).unwrap_or(rest)
}

/// What follows each place where a path has this part.
fn behind<'p>(path: &'p str, part: &'static str) -> impl Iterator<Item = &'p str> {
    path.match_indices(part).map(move |(at, found)| &path[at + found.len()..])
}

fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&percent_decoded(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_names_of_models_are_found_in_paths_and_queries() {
        let cases: [(Method, &str, &[&str]); 10] = [
            (Method::POST, "/v1/models/a/b:predict", &["a/b"]),
            (Method::POST, "/v1/models/llama3:8b%3Apredict", &["llama3:8b"]),
            (Method::POST, "/v1/models/a/v1/models/b:predict", &["a/v1/models/b", "b"]),
            (Method::GET, "/v1/models/llama3:8b", &["llama3:8b"]),
            (Method::POST, "/x/v1/engines/a%2Fb/chat/completions", &["a/b"]),
            (Method::POST, "/v1/engines/a/embeddings", &["a"]),
            (Method::GET, "/v1/engines/a", &["a"]),
            (Method::GET, "/v1/x?a=1&Model=a%20b;model=c&models=d", &["a b", "c"]),
            (Method::GET, "/v1/x?model", &[""]),
            (Method::POST, "/v1/chat/completions?api-version=1", &[]),
        ];
        for (method, uri, names) in cases {
            assert_eq!(named_models(&method, &uri.parse().unwrap()), names, "{uri}");
        }
    }
}
