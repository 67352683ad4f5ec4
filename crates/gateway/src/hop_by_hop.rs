//! Hop-by-hop headers: they belong to one connection and are not forwarded, in either direction
//! (RFC 9110, 7.6.1).

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The most names of a `Connection` header that are read: more than a request has headers.
const NAMED_MAX: usize = 128;

/// The headers of a request that a backend gets: without those of the connection, those that it
/// names, and those that `ends` picks. They are left out when the rest is written: to remove them
/// from the map, or to make a list of the rest, costs more.
#[derive(Debug)]
pub(crate) struct ForwardedHeaders {
    came: HeaderMap,
    named: Vec<HeaderName>,
    ends: fn(&str) -> bool,
    /// In place of those that came under the same names.
    set: Vec<(HeaderName, HeaderValue)>,
}

/// Removes the headers of the connection, those that it names, and those that `also` picks.
pub(crate) fn strip(headers: &mut HeaderMap, also: impl Fn(&str) -> bool) {
    let ends = |name: &&HeaderName| is_hop(name.as_str()) || also(name.as_str());
    let mut gone: Vec<HeaderName> = headers.keys().filter(ends).cloned().collect();
    if gone.contains(&CONNECTION) {
        gone.extend(named(headers));
    }
    // A chunked message has no other length, whatever its headers say (RFC 9112, 6.3).
    if gone.contains(&TRANSFER_ENCODING) {
        gone.push(CONTENT_LENGTH);
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

// === impl ForwardedHeaders ===

impl ForwardedHeaders {
    pub(crate) fn new(came: HeaderMap, ends: fn(&str) -> bool) -> Self {
        let is_named = came.keys().any(|name| *name == CONNECTION);
        let named = if is_named { named(&came) } else { Vec::new() };
        Self { came, named, ends, set: Vec::new() }
    }

    /// Sets a header, in place of any of the same name.
    pub(crate) fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.set.retain(|(other, _)| *other != name);
        // There are one or two.
        self.set.reserve_exact(1);
        self.set.push((name, value));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        let came = self.came.iter().filter(|(name, _)| self.passes(name));
        came.chain(self.set.iter().map(|(name, value)| (name, value)))
    }

    /// No more than so many.
    pub(crate) fn most(&self) -> usize {
        self.came.len() + self.set.len()
    }

    fn passes(&self, name: &HeaderName) -> bool {
        let text = name.as_str();
        let is_set = || self.set.iter().any(|(set, _)| set == name);
        !(is_hop(text) || (self.ends)(text) || self.named.contains(name) || is_set())
    }
}

#[cfg(test)]
mod tests {
    //! X03: what belongs to one connection ends there.

    use super::*;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn sorted<'a>(names: impl Iterator<Item = &'a HeaderName>) -> Vec<&'a str> {
        let mut names: Vec<&str> = names.map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
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
        let mut stripped = headers(&given);
        strip(&mut stripped, |_| false);
        assert_eq!(sorted(stripped.keys()), ["trailer", "x-also", "x-kept"]);
        let mut forwarded = ForwardedHeaders::new(headers(&given), |name| name == "x-also");
        assert_eq!(sorted(forwarded.iter().map(|(name, _)| name)), ["trailer", "x-kept"]);
        forwarded.set(HeaderName::from_static("x-kept"), HeaderValue::from_static("2"));
        forwarded.set(HeaderName::from_static("te"), HeaderValue::from_static("trailers"));
        forwarded.set(HeaderName::from_static("x-kept"), HeaderValue::from_static("3"));
        let kept = forwarded.iter().filter(|(name, _)| *name == "x-kept");
        assert_eq!(kept.map(|(_, value)| value).collect::<Vec<_>>(), ["3"]);
        assert_eq!(sorted(forwarded.iter().map(|(name, _)| name)), ["te", "trailer", "x-kept"]);
    }

    #[test]
    fn x03_all_values_of_a_header_pass_or_none() {
        let given = [("x-many", "1"), ("x-gone", "1"), ("x-many", "2"), ("x-gone", "2")];
        let forwarded = ForwardedHeaders::new(headers(&given), |name| name == "x-gone");
        let mut list: Vec<_> =
            forwarded.iter().map(|(name, value)| (name.as_str(), value)).collect();
        list.sort_by(|one, other| one.1.as_bytes().cmp(other.1.as_bytes()));
        let value = HeaderValue::from_static;
        assert_eq!(list, [("x-many", &value("1")), ("x-many", &value("2"))]);
    }

    #[test]
    fn x03_a_backends_connection_ends_at_the_gateway() {
        let mut response = headers(&[
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("content-type", "text/event-stream"),
            ("content-length", "5"),
            ("trailer", "x-sum"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
        ]);
        strip(&mut response, |_| false);
        let kept = ["content-type", "set-cookie", "set-cookie", "trailer"];
        assert_eq!(sorted(response.iter().map(|(name, _)| name)), kept);
    }
}
