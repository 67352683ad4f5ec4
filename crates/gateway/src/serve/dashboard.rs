//! The page `/dashboard`: its files are part of the program, and it loads nothing from elsewhere.
//!
//! The files show nothing about the gateway, so they need no key. The page reads `/status/stream`
//! with the key that the operator enters.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

use crate::ingress::path::DashboardFile;
use crate::reply::content;

/// Only files of the gateway itself run or load, and no other site can show the page in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The response for a file of the page.
pub(super) fn answer(file: DashboardFile) -> Response<Full<Bytes>> {
    let (media_type, text) = match file {
        DashboardFile::Page => {
            ("text/html; charset=utf-8", include_str!("../../web/dashboard.html"))
        }
        DashboardFile::Style => ("text/css; charset=utf-8", include_str!("../../web/style.css")),
        DashboardFile::App => (SCRIPT, include_str!("../../web/app.js")),
        DashboardFile::Charts => (SCRIPT, include_str!("../../web/charts.js")),
        DashboardFile::Tables => (SCRIPT, include_str!("../../web/tables.js")),
    };
    let mut response = content(StatusCode::OK, media_type, Bytes::from_static(text.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A new version of the program has new files under the same names.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
