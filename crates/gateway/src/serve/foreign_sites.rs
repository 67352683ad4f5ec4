//! Websites in the browser of a user: which of them may send requests to the gateway, and the CORS
//! headers of the responses.
//!
//! A browser lets any page send simple requests to any address, also to one of this machine. A page
//! of another origin says so in `Origin`. A name that was made to point to this machine (DNS
//! rebinding) has itself as `Origin`, but is a name of a domain in `Host`. Programs of this machine
//! use an address or `localhost`. A key proves its owner, because no foreign page has it. A client
//! certificate does not: the browser sends it for any page.

use std::net::IpAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, HOST,
    ORIGIN, VARY,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request};

use crate::admin_access;
use crate::config::Config;
use crate::ingress::headers::{self, is_preflight};
use crate::ingress::path::Route;
use crate::reply::Fault;

/// `same-origin` if the browser itself sees one origin. A page cannot set this header.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The origin that stands for all origins.
const ANY: &str = "*";
const METHODS: HeaderValue = HeaderValue::from_static("DELETE, GET, HEAD, OPTIONS, POST");
/// How long a browser remembers the answer to a preflight, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// How a request came here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) peer: Option<IpAddr>,
    /// With TLS, a browser has checked that the name in `Host` is one of this server.
    pub(super) has_tls: bool,
}

/// What a route shows to a client without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarded {
    /// The status pages and accounts. They are for pages of the gateway alone.
    Pages,
    /// Files and batches.
    Files,
    /// The models. A proxy on this machine forwards requests under names of domains, so `Host`
    /// counts only beside an `Origin`, which tells a browser from other programs.
    Models,
}

/// What the browser of a foreign page is told.
#[derive(Debug)]
pub(super) struct Cors {
    /// The value of `Access-Control-Allow-Origin`, for a page that may read the response.
    allowed: Option<HeaderValue>,
    /// The headers that the page wants to send, if the request is a preflight.
    asked: Option<Option<HeaderValue>>,
    /// Whether responses differ by origin.
    varies: bool,
}

/// Refuses a request that a foreign website may have made in the browser of a user.
pub(super) fn check<B>(
    config: &Config,
    route: Route,
    request: &Request<B>,
    arrival: Arrival,
) -> Result<Route, Fault> {
    let Some(guarded) = Guarded::by(&route) else { return Ok(route) };
    let headers = request.headers();
    if guarded == Guarded::Models && !headers::has(headers, &ORIGIN) {
        return Ok(route);
    }
    let known = if guarded == Guarded::Pages { &[] } else { &config.server.cors_origins[..] };
    if is_foreign(known, request, arrival) && !admin_access::has_key(config, headers)? {
        return Err(Fault::ForeignHost);
    }
    Ok(route)
}

/// Whether a website that is not `known` may have made the request.
fn is_foreign<B>(known: &[String], request: &Request<B>, arrival: Arrival) -> bool {
    let headers = request.headers();
    let authority = request.uri().authority().map(Authority::as_str);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or(authority);
    // A name that was made to point here has itself as its origin. A listed origin is another.
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let is_listed = origin.is_some_and(|origin| is_listed(known, origin));
    !is_listed && (is_rebound(known, host, arrival) || has_foreign_origin(known, host, headers))
}

/// Whether a request was refused by [`check`], and not by its path.
pub(super) fn is_refusal(fault: &Fault) -> bool {
    use Fault::{ExpiredKey, ForeignHost, InvalidKey, InvalidToken};
    matches!(fault, ForeignHost | InvalidKey | ExpiredKey | InvalidToken(_))
}

/// Whether `Host` is the name of a domain that may have been made to point to this machine.
fn is_rebound(known: &[String], host: Option<&str>, arrival: Arrival) -> bool {
    let is_local = arrival.peer.is_none_or(|peer| peer.to_canonical().is_loopback());
    let is_name = |origin: &String| {
        let name = authority_of(origin).unwrap_or_default();
        host.is_some_and(|host| origin == ANY || name.eq_ignore_ascii_case(host))
    };
    let is_known = known.iter().any(is_name);
    is_local && !arrival.has_tls && !is_known && host.is_some_and(is_domain)
}

fn has_foreign_origin(known: &[String], host: Option<&str>, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let is_own = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin");
    let origin = origin.to_str().unwrap_or_default();
    let is_same = host.is_some() && authority_of(origin) == host;
    !is_own && !is_same && !is_listed(known, origin)
}

fn authority_of(origin: &str) -> Option<&str> {
    origin.split_once("://").map(|(_, authority)| authority)
}

fn is_listed(known: &[String], origin: &str) -> bool {
    known.iter().any(|known| known == ANY || known.eq_ignore_ascii_case(origin))
}

/// Whether a host with its port is a name of a domain, and not an address or `localhost`.
fn is_domain(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(at, _)| at);
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_address = name.parse::<IpAddr>().is_ok() || name.starts_with('[');
    !is_address && name.contains('.') && !name.ends_with(".localhost")
}

// === impl Guarded ===

impl Guarded {
    /// What stands behind a route, if a key would protect it.
    fn by(route: &Route) -> Option<Self> {
        match route {
            Route::Visibility(_) | Route::Dispatch(_) | Route::Drain(_) => {
                route.needs_right().then_some(Self::Pages)
            }
            Route::Batch(_) => Some(Self::Files),
            Route::Proxied { .. } | Route::Models | Route::ModelCard | Route::Tags => {
                Some(Self::Models)
            }
            Route::Version | Route::Root | Route::Options | Route::NotFound => None,
        }
    }
}

// === impl Cors ===

impl Cors {
    /// The answer for the page that sent a request to the API. If no page did, a cache still has to
    /// know that the answer to a page differs.
    pub(super) fn of(config: &Config, headers: &HeaderMap) -> Option<Self> {
        let known = &config.server.cors_origins;
        if known.is_empty() {
            return None;
        }
        let for_all = known.iter().any(|known| known == ANY);
        let listed = |origin: &&HeaderValue| origin.to_str().is_ok_and(|at| is_listed(known, at));
        let allowed = headers.get(ORIGIN).filter(listed).map(|origin| match for_all {
            true => HeaderValue::from_static(ANY),
            false => origin.clone(),
        });
        let asked = || headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        Some(Self { allowed, asked: is_preflight(headers).then(asked), varies: !for_all })
    }

    /// Says what foreign pages may do.
    pub(super) fn write(self, headers: &mut HeaderMap) {
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("Origin"));
        }
        let Some(allowed) = self.allowed else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        match self.asked {
            None => {
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(ANY));
            }
            Some(asked) => {
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
                headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
                // `*` would not allow `Authorization`, so the browser gets its own list back.
                asked.map(|asked| headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_names_of_domains_are_told_from_addresses() {
        for host in ["localhost:8430", "127.0.0.1", "[::1]:8430", "gateway", "a.localhost:1"] {
            assert!(!is_domain(host), "{host}");
        }
        for host in ["attacker.example", "attacker.example:8430", "127.0.0.1.example", "a.b."] {
            assert!(is_domain(host), "{host}");
        }
    }

    #[test]
    fn x05_an_origin_is_foreign_unless_it_is_the_host_or_listed() {
        let of = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            headers
        };
        let listed = ["https://chat.example".to_owned()];
        let host = Some("localhost:8430");
        for (origin, is_foreign) in [
            ("http://localhost:8430", false),
            ("https://chat.example", false),
            ("https://chat.example:444", true),
            ("http://chat.example", true),
            ("https://attacker.example", true),
            ("http://localhost:3000", true),
            ("null", true),
            ("", true),
        ] {
            assert_eq!(has_foreign_origin(&listed, host, &of(origin)), is_foreign, "{origin}");
        }
        assert!(has_foreign_origin(&[], None, &of("null")));
        assert!(!has_foreign_origin(&[ANY.to_owned()], host, &of("null")));
    }
}
