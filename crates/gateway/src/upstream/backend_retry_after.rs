//! Whether a server is full, and its `Retry-After`: when to send it a request again.

use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode};

/// The longest time that a server's word is taken for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Some services say so when they are overloaded.
const SITE_OVERLOADED: u16 = 529;

/// Whether a status says that the server is full. It is no fault of the request.
pub(crate) fn is_full(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
        || status.as_u16() == SITE_OVERLOADED
}

/// The time until a server wants to be asked again, given in seconds or as a date (RFC 9110,
/// 10.2.3), at most a day. `now` is the time since 1970. Callers bound it further as they need.
pub(crate) fn retry_after(value: &HeaderValue, now: Duration) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    let after = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            date.duration_since(SystemTime::UNIX_EPOCH).ok()?.saturating_sub(now)
        }
    };
    Some(after.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_ask_for_seconds_or_name_a_date() {
        let read = |text: &'static str| {
            retry_after(&HeaderValue::from_static(text), Duration::from_secs(784_111_770))
        };
        assert_eq!(read("12"), Some(Duration::from_secs(12)));
        assert_eq!(read(" 12 "), Some(Duration::from_secs(12)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("soon"), None);
        let day = Some(Duration::from_secs(86_400));
        assert_eq!(read("18446744073709551615"), day, "an absurd value is cut");
        assert_eq!(read("Fri, 31 Dec 9999 23:59:59 GMT"), day);
    }
}
