//! Hop-by-hop headers: they belong to one connection and are not forwarded, in either direction
//! (RFC 9110, 7.6.1).

use http::header::CONNECTION;
use http::{HeaderMap, HeaderName};

/// The most names of a `Connection` header that are read: more than a request has headers.
const NAMED_MAX: usize = 128;

/// Removes the headers of the connection, those that it names, and whatever `also` picks.
pub(crate) fn strip(headers: &mut HeaderMap, also: impl Fn(&str) -> bool) {
    let picked = |name: &&HeaderName| is_hop(name.as_str()) || also(name.as_str());
    let mut gone: Vec<HeaderName> = headers.keys().filter(picked).cloned().collect();
    if gone.contains(&CONNECTION) {
        gone.extend(named(headers));
    }
    for name in gone {
        headers.remove(name);
    }
}

/// `Trailer` is not among them: the trailers of a response pass, if it announces them.
fn is_hop(name: &str) -> bool {
    match name {
        "connection" | "keep-alive" | "te" | "transfer-encoding" | "upgrade" | "http2-settings" => {
            true
        }
        _ => name.starts_with("proxy-"),
    }
}

/// The headers that `Connection` declares to be of the connection too.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).into_iter();
    let tokens = values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    let names = tokens.take(NAMED_MAX).map(|token| token.trim_ascii());
    let common = |name: &&str| {
        !name.eq_ignore_ascii_case("keep-alive") && !name.eq_ignore_ascii_case("close")
    };
    names.filter(common).filter_map(|name| HeaderName::try_from(name).ok()).collect()
}

#[cfg(test)]
mod tests {
    //! X03: what belongs to one connection ends there.

    use http::HeaderValue;

    use super::*;

    fn stripped(given: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_static(value));
        }
        strip(&mut headers, |name| name == "x-also");
        let mut left: Vec<String> = headers.keys().map(|name| name.as_str().to_owned()).collect();
        left.sort();
        left
    }

    #[test]
    fn x03_headers_of_the_connection_and_those_it_names_end_here() {
        let given = [
            ("connection", "keep-alive, X-Hop"),
            ("connection", "x-other,, not a name"),
            ("keep-alive", "timeout=5"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("x-also", "1"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("http2-settings", "x"),
            ("proxy-authorization", "secret"),
            ("proxy-connection", "close"),
            ("x-kept", "1"),
            ("trailer", "x-sum"),
        ];
        assert_eq!(stripped(&given), ["trailer", "x-kept"]);
    }
}
