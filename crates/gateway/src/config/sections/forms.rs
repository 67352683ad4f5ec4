//! Texts of a particular form: names, paths and addresses.

use flow::identity::NAME_MAX;
use http::Uri;
use http::uri::Scheme;

use crate::config::settings::BackendSpec;
use crate::schema::{Form, Misfit};
use crate::tls;

/// The id of a backend, which is shown in a header and as a label.
pub(super) const BACKEND_ID: Form = Form {
    allowed: "visible ASCII, up to 256 characters",
    check: |id| {
        let allowed = format!("1 to {NAME_MAX} letters, digits and signs, without spaces");
        if BackendSpec::allows_id(id) {
            Ok(())
        } else {
            Err(Misfit::of(&format_args!("{id:?}"), &allowed))
        }
    },
    example: "gpu-1",
};

/// The address of a backend.
pub(super) const BACKEND_URL: Form = Form {
    allowed: "http://HOST:PORT[/path] or https://HOST[:PORT][/path]",
    check: |url| backend_address(url).map(|_| ()),
    example: "http://10.0.0.5:8000",
};

/// The name of a server in its certificate.
pub(super) const TLS_NAME: Form = Form {
    allowed: "a DNS name or an IP address",
    check: |name| match tls::parse_name(name) {
        Some(_) => Ok(()),
        None => Err(Misfit::of(&format_args!("{name:?}"), "a DNS name or an IP address")),
    },
    example: "gpu-1.example.com",
};

/// The origin of a website, as a browser sends it.
pub(super) const ORIGIN: Form = Form {
    allowed: "origins such as https://chat.example, or `*`",
    check: |origin| match origin {
        "*" => Ok(()),
        _ => website(origin),
    },
    example: "https://app.example",
};

/// The path of a request.
pub(super) const URL_PATH: Form = Form {
    allowed: "a path that begins with /",
    check: |path| match path.starts_with('/') {
        true => Ok(()),
        false => Err(Misfit(format!("is {path:?}, it must begin with /"))),
    },
    example: "/v1/completions",
};

/// Checks the origin of a website. A browser sends it in one spelling alone, so an entry in another
/// one would never match.
fn website(origin: &str) -> Result<(), Misfit> {
    let wrong = |what: &str| Err(Misfit(format!("is {origin:?}, {what}")));
    let form = "it must be an origin such as https://chat.example, or *";
    let Some((scheme, place)) = origin.split_once("://") else { return wrong(form) };
    if place.contains('*') {
        return wrong("which has a * inside: name each origin, or * alone for all");
    }
    if place.contains(['/', '?', '#']) {
        return wrong("which has a path: a browser sends none, leave it out");
    }
    if place.contains('@') {
        return wrong("which has a user: a browser sends none, leave it out");
    }
    let bracket = place.rfind(']').unwrap_or_default();
    let (host, port) = match place.rfind(':').filter(|at| *at > bracket) {
        Some(at) => (&place[..at], Some(&place[at + 1..])),
        None => (place, None),
    };
    let is_port = |port: &str| !port.starts_with('0') && port.parse::<u16>().is_ok();
    let is_word = |text: &str, more: &[u8]| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
        !text.is_empty() && text.bytes().all(fits)
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_word(host, b".-_"),
    };
    if !is_word(scheme, b"+-.") || !is_host || !port.is_none_or(is_port) {
        return wrong(form);
    }
    match (scheme.to_ascii_lowercase().as_str(), port) {
        ("https", Some("443")) | ("http", Some("80")) => {
            wrong("whose port is the usual one: a browser does not send it, leave it out")
        }
        _ => Ok(()),
    }
}

/// The server at the address of a backend, in one spelling.
pub(crate) fn server_address(url: &str) -> Option<String> {
    let uri = backend_address(url).ok()?;
    let authority = uri.authority()?;
    let host = match authority.host().to_ascii_lowercase() {
        name if name == "localhost" => "127.0.0.1".to_owned(),
        host => host,
    };
    let path = uri.path().trim_end_matches('/');
    let port = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    Some(format!("{host}:{}{path}", authority.port_u16().unwrap_or(port)))
}

/// The parsed address of a backend.
pub(in crate::config) fn backend_address(text: &str) -> Result<Uri, Misfit> {
    let quoted = format!("{text:?}");
    let allowed = "http://HOST:PORT or https://HOST:PORT, perhaps with a path";
    let wrong = || Misfit::of(&quoted, allowed);
    if !text.contains("://") {
        return Err(Misfit(format!("{}; did you mean \"http://{text}\"?", wrong())));
    }
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return Err(wrong());
    }
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    let bare = uri.query().is_none() && !authority.as_str().contains('@') && !text.contains('#');
    if authority.host().is_empty() || !has_valid_port(authority.as_str()) || !bare {
        return Err(wrong());
    }
    Ok(uri)
}

/// Whether the port, if there is one, is a number from 1 to 65535. `Uri` accepts others.
fn has_valid_port(authority: &str) -> bool {
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest);
    let port = after_host.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    port.is_none_or(|port| matches!(port, Ok(1..)))
}
