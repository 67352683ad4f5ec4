//! The error response of a refused request.

use bytes::Bytes;
use flow::identity::ABSENT;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use super::headers::FAILED_ATTEMPTS;
use super::{Fault, Refused, content, retry_after};

/// The methods of a page, and of a path of the API.
pub(crate) const READ_METHODS: &str = "GET, HEAD, OPTIONS";
pub(crate) const API_METHODS: &str = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";

/// The form of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    OpenAi,
    /// `error` is the text itself.
    Ollama,
    /// As OpenAI's, but without `param`, a timeout in the queue does not tell its cause, and a full
    /// queue names the key of its limit.
    Nexus,
}

#[derive(Serialize)]
struct OllamaError<'a> {
    error: &'a str,
    code: &'a str,
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    message: &'a str,
    r#type: &'a str,
    code: &'a str,
    /// `null` if no field is at fault, and no field at all in the form of Nexus.
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<Option<&'a str>>,
}

/// The response to a refused request, in the form of OpenAI.
pub(crate) fn response(refused: &Refused) -> Response<Full<Bytes>> {
    response_in(ErrorFormat::OpenAi, refused)
}

/// The response to a refused request.
pub(crate) fn response_in(format: ErrorFormat, refused: &Refused) -> Response<Full<Bytes>> {
    let fault = &refused.fault;
    let status = fault.status();
    let mut response = content(status, "application/json", body_in(format, refused));
    let headers = response.headers_mut();
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        let value = match fault {
            Fault::QuotaExceeded => retry_after::exact(refused.retry_after),
            _ => retry_after::value(refused.retry_after),
        };
        headers.insert(RETRY_AFTER, value);
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Fault::MethodNotAllowed(methods) = fault {
        headers.insert(ALLOW, HeaderValue::from_static(methods));
    }
    if matches!(fault, Fault::UnsupportedEncoding(_)) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate"));
    }
    if let Fault::FailedTimeout(_, _, failures) = fault {
        headers.insert(FAILED_ATTEMPTS, HeaderValue::from(*failures));
    }
    if fault.closes() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The response to OPTIONS: the methods that a page, or a path of the API, may take.
pub(crate) fn options(is_page: bool) -> Response<Full<Bytes>> {
    let methods = if is_page { READ_METHODS } else { API_METHODS };
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// The JSON of a refusal, on one line: it also stands in the `event: error` of a stream.
pub(crate) fn body(refused: &Refused) -> Bytes {
    body_in(ErrorFormat::OpenAi, refused)
}

/// The JSON of a refusal.
pub(crate) fn body_in(format: ErrorFormat, refused: &Refused) -> Bytes {
    let fault = &refused.fault;
    let message = match format {
        ErrorFormat::Nexus => message_of_nexus(fault),
        _ => fault.message(),
    };
    if format == ErrorFormat::Ollama {
        let error = OllamaError { error: &message, code: fault.code() };
        return serde_json::to_vec(&error).unwrap_or_default().into();
    }
    let error = Details {
        message: &message,
        r#type: fault.family(),
        code: fault.code(),
        param: (format != ErrorFormat::Nexus).then(|| fault.param()),
    };
    // Strings always serialise; an empty body still has its status.
    serde_json::to_vec(&Envelope { error }).unwrap_or_default().into()
}

/// The text for clients of Nexus, whose queue has one limit, unless there are tenants.
fn message_of_nexus(fault: &Fault) -> String {
    match fault {
        Fault::FailedTimeout(waited, ..) => Fault::QueueTimeout(*waited).message(),
        Fault::FlowFull { flow, .. } if flow != ABSENT => fault.message(),
        Fault::FlowFull { .. } | Fault::QueueFull | Fault::TooManyFlows => {
            "The queue is full: as many requests wait as max_size allows. Try again later.".into()
        }
        fault => fault.message(),
    }
}

// === impl ErrorFormat ===

impl ErrorFormat {
    /// The form that the clients of this path read.
    pub(crate) fn of(path: &str, nexus: bool) -> Self {
        if path.starts_with("/api/") { Self::Ollama } else { Self::of_openai(nexus) }
    }

    /// That of OpenAI's API, or as Nexus writes it.
    pub(crate) const fn of_openai(nexus: bool) -> Self {
        if nexus { Self::Nexus } else { Self::OpenAi }
    }
}
