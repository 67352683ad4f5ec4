//! Websites in the browser of a user: which of them may send requests to the gateway, and the CORS
//! headers of the responses.
//!
//! A browser lets any page send simple requests to any address. A page of another origin says so in
//! `Origin`. A name that was made to point to this machine (DNS rebinding) has itself as `Origin`,
//! but is a name of a public domain in `Host`, which `host_names` tells from others. A key proves
//! its owner, because no foreign page has it. A client certificate does not: the browser sends it
//! for any page.

use std::net::IpAddr;

use http::header::{
    ACCEPT_LANGUAGE, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, HOST, ORIGIN, REFERER, VARY,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tokio::net::TcpStream;

use super::host_names::is_public;
use crate::admin_access::{self, Peer, Visitor};
use crate::config::Config;
use crate::ingress::headers::{self, is_preflight};
use crate::ingress::path::{AdminPage, Route, is_api, is_read};
use crate::reply::Fault;

/// `same-origin` if the browser itself sees one origin, and `none` if its user asked for a page. A
/// page cannot set this header, and browsers send it to `https` addresses and this machine alone.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Likewise, but Node.js sends it to every address.
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// The origin that stands for all origins.
const ANY: &str = "*";
const METHODS: HeaderValue = HeaderValue::from_static("DELETE, GET, HEAD, OPTIONS, POST");
/// How long a browser remembers the answer to a preflight, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// How a request came here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) client: Peer,
    /// Whether the client is a program of this machine, by whichever of its addresses, also by one
    /// that other machines reach. A page in a browser here uses those, too.
    pub(super) is_own_machine: bool,
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
    /// counts only in a browser.
    Models,
}

/// The websites that the configuration lists, for a route.
#[derive(Clone, Copy, Debug)]
struct Sites<'a> {
    listed: &'a [String],
    guarded: Guarded,
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

/// Refuses a request that a foreign website may have made in the browser of a user. What a cluster
/// says about its token has been asked before.
pub(super) fn check<B>(
    config: &Config,
    route: Route,
    request: &Request<B>,
    arrival: Arrival,
) -> Result<Route, Fault> {
    let headers = request.headers();
    let guarded = match route {
        // A browser asks so before it sends the request of a page, which never comes if this fails.
        Route::Options if is_preflight(headers) && is_api(request.uri().path()) => Guarded::Models,
        _ => match Guarded::by(&route, config) {
            Some(guarded) => guarded,
            None => return Ok(route),
        },
    };
    if guarded == Guarded::Models && !is_of_page(request) {
        return Ok(route);
    }
    let sites = Sites { listed: &config.server.cors_origins, guarded };
    let visitor = Visitor::of(headers, request.extensions());
    if is_foreign(sites, request, arrival) && !admin_access::has_key(config, visitor)? {
        return Err(Fault::ForeignHost);
    }
    Ok(route)
}

/// Whether a website that may not use the route may have made the request.
fn is_foreign<B>(sites: Sites<'_>, request: &Request<B>, arrival: Arrival) -> bool {
    let headers = request.headers();
    let authority = request.uri().authority().map(Authority::as_str);
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or(authority);
    let known = sites.known();
    // A name that was made to point here has itself as its origin. A listed origin is another.
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let is_listed = origin.is_some_and(|origin| is_listed(known, origin));
    let is_rebound = || host.is_some_and(|host| is_rebound(sites, host, headers, arrival));
    !is_listed && (is_rebound() || has_foreign_origin(known, host, headers))
}

/// Whether a request was refused by [`check`], and not by its path.
pub(super) fn is_refusal(fault: &Fault) -> bool {
    use Fault::{ExpiredKey, ForeignHost, InvalidKey, InvalidToken};
    matches!(fault, ForeignHost | InvalidKey | ExpiredKey | InvalidToken(_))
}

/// Whether `Host` is a name that may have been made to point to this machine, in the browser of a
/// user. Programs of other machines may use any name, so of their requests only those of a browser
/// count.
fn is_rebound(sites: Sites<'_>, host: &str, headers: &HeaderMap, arrival: Arrival) -> bool {
    let counts = arrival.is_own_machine || is_from_browser(headers);
    counts && !arrival.has_tls && !has_checked_name(headers) && !sites.name(host) && is_public(host)
}

/// Whether a page may have sent the request. A browser names the origin, unless a page reads from
/// its own: that of a rebound name is the gateway's.
fn is_of_page<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    headers::has(headers, &ORIGIN) || (is_read(request.method()) && is_from_browser(headers))
}

/// Whether a browser without TLS may have sent the request. It always says which languages its user
/// reads, and a page cannot prevent that.
fn is_from_browser(headers: &HeaderMap) -> bool {
    let has = |name| headers::has(headers, name);
    has(&ORIGIN) || has(&REFERER) || (has(&ACCEPT_LANGUAGE) && !has(&SEC_FETCH_MODE))
}

/// Whether a browser has checked the name by TLS with a proxy in front, and saw no other site.
fn has_checked_name(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin" || site == "none")
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

// === impl Sites ===

impl<'a> Sites<'a> {
    /// The websites that may use the route.
    fn known(self) -> &'a [String] {
        if self.guarded == Guarded::Pages { &[] } else { self.listed }
    }

    /// Whether the operator names a host as one of this gateway. For its pages only its own origin
    /// is such a name, because another listed website is not to see them.
    fn name(self, host: &str) -> bool {
        let is_own = |origin: &str| {
            let name = origin.strip_prefix("http://").unwrap_or_default();
            name.eq_ignore_ascii_case(host)
        };
        let is_name = |origin: &str| {
            let name = authority_of(origin).unwrap_or_default();
            origin == ANY || name.eq_ignore_ascii_case(host)
        };
        let pages = self.guarded == Guarded::Pages;
        self.listed.iter().any(|origin| if pages { is_own(origin) } else { is_name(origin) })
    }
}

// === impl Arrival ===

impl Arrival {
    pub(super) fn of(stream: &TcpStream, has_tls: bool) -> Self {
        let (peer, own) = (stream.peer_addr().ok(), stream.local_addr().ok());
        let client = Peer::of(peer, || own);
        let is_loopback = |peer: IpAddr| peer.to_canonical().is_loopback();
        let is_own_machine =
            client.ip == own.map(|own| own.ip()) || client.ip.is_none_or(is_loopback);
        Self { client, is_own_machine, has_tls }
    }
}

// === impl Guarded ===

impl Guarded {
    /// What stands behind a route, if a key would protect it. The files of the live page show
    /// nothing, and ask for a key where there are keys: then their page may have any name.
    fn by(route: &Route, config: &Config) -> Option<Self> {
        match route {
            Route::Visibility(AdminPage::Dashboard(_)) => {
                (!admin_access::has_keys(config)).then_some(Self::Pages)
            }
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
    pub(super) fn of<B>(config: &Config, request: &Request<B>) -> Option<Self> {
        let (known, headers) = (&config.server.cors_origins, request.headers());
        if known.is_empty() || !is_api(request.uri().path()) {
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
    fn x05_a_browser_without_tls_is_told_from_programs() {
        let of = |names: &[&'static str]| -> HeaderMap {
            let named = |name: &&'static str| HeaderName::from_static(name);
            names.iter().map(|name| (named(name), HeaderValue::from_static("x"))).collect()
        };
        for browser in [&["origin"][..], &["referer"], &["accept-language", "user-agent"]] {
            assert!(is_from_browser(&of(browser)), "{browser:?}");
        }
        for program in [&[][..], &["user-agent", "accept"], &["accept-language", "sec-fetch-mode"]]
        {
            assert!(!is_from_browser(&of(program)), "{program:?}");
        }
    }

    #[test]
    fn x05_only_the_gateways_own_origin_names_it_for_its_pages() {
        let listed = ["https://chat.example".to_owned(), "http://gateway.example:8430".to_owned()];
        let named = |guarded, host| Sites { listed: &listed, guarded }.name(host);
        for (host, pages) in [("chat.example", false), ("Gateway.example:8430", true)] {
            assert!(named(Guarded::Models, host) && named(Guarded::Files, host), "{host}");
            assert_eq!(named(Guarded::Pages, host), pages, "{host}");
        }
        assert!(!named(Guarded::Models, "gateway.example"));
        let any = Sites { listed: &[ANY.to_owned()], guarded: Guarded::Pages };
        assert!(!any.name("chat.example"));
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
