//! The head of a request as it is written, and of a response as it is read.

use std::mem::MaybeUninit;

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use httparse::{ParserConfig, Status};

use super::{ExchangeError, Framing, HEAD_MAX, HEAD_TOO_LARGE};
use crate::hop_by_hop::ForwardedHeaders;

/// The most headers that a backend may send.
const HEADERS_MAX: usize = 128;
/// The most interim responses before a response.
const INTERIM_MAX: usize = 128;
/// Room for those that the gateway adds: a map that must grow is built twice.
const ADDED: usize = 8;

/// A request to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http1Request<'a> {
    pub(crate) method: &'a Method,
    /// The base path of the backend.
    pub(crate) base: &'a str,
    pub(crate) path: &'a PathAndQuery,
    pub(crate) host: &'a HeaderValue,
    /// The backend's own `Authorization`, in place of the client's.
    pub(crate) credential: Option<&'a HeaderValue>,
    /// Without the headers of the connection, the host and the length.
    pub(crate) headers: &'a ForwardedHeaders,
    pub(crate) body: &'a Bytes,
}

/// A backend's head.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) response: Response<()>,
    pub(super) framing: Framing,
    /// Whether the connection stays open.
    pub(super) lasts: bool,
}

/// How far the head of a response has been read.
#[derive(Debug, Default)]
pub(super) struct HeadProgress {
    /// The bytes that were scanned without an end.
    scanned: usize,
    /// The interim responses so far, and their bytes.
    interim: usize,
    interim_bytes: usize,
}

/// The headers that decide where the body and the connection end.
#[derive(Debug, Default)]
struct Says {
    chunked: bool,
    length: Option<u64>,
    close: bool,
    keep: bool,
}

// === impl Http1Request ===

impl Http1Request<'_> {
    /// Writes the head. Its parts were checked when they were made: none has a line break.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.reserve(256 + 64 * self.headers.most() + self.body.len());
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.base.as_bytes());
        out.extend_from_slice(self.path.as_str().as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        header(out, &HOST, self.host.as_bytes());
        if let Some(credential) = self.credential {
            header(out, &AUTHORIZATION, credential.as_bytes());
        }
        for (name, value) in self.headers.iter() {
            if self.credential.is_none() || *name != AUTHORIZATION {
                header(out, name, value.as_bytes());
            }
        }
        if self.tells_length() {
            out.extend_from_slice(b"content-length: ");
            decimal(out, self.body.len());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Where a body is usual, none is told too (RFC 9110, 8.6).
    fn tells_length(&self) -> bool {
        let usual = matches!(*self.method, Method::POST | Method::PUT | Method::PATCH);
        usual || !self.body.is_empty()
    }
}

fn header(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn decimal(out: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        decimal(out, number / 10);
    }
    out.push(b'0' + (number % 10) as u8);
}

/// Takes the head of the response, once all of it has come. Interim responses (100, 103) are
/// skipped.
pub(super) fn read(
    came: &mut BytesMut,
    progress: &mut HeadProgress,
    wanted: &Http1Request<'_>,
) -> Result<Option<ResponseHead>, ExchangeError> {
    while has_end(came, progress.scanned) {
        progress.scanned = came.len();
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut []);
        let length = match parse(&mut parsed, came, &mut headers)? {
            Status::Complete(length) => length,
            Status::Partial => return Ok(None),
        };
        // One read may bring more than the limit at once.
        if length > HEAD_MAX {
            return Err(HEAD_TOO_LARGE);
        }
        let found = ResponseHead::of(&parsed, wanted.method)?;
        came.advance(length);
        progress.scanned = 0;
        let status = found.response.status();
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Some(found));
        }
        progress.skip(length)?;
    }
    Ok(None)
}

// === impl HeadProgress ===

impl HeadProgress {
    /// Counts an interim response. A backend that sends them without end would occupy its worker.
    fn skip(&mut self, length: usize) -> Result<(), ExchangeError> {
        self.interim += 1;
        self.interim_bytes += length;
        if self.interim > INTERIM_MAX || self.interim_bytes > HEAD_MAX {
            return Err(ExchangeError::Protocol("it sends too many interim responses"));
        }
        Ok(())
    }
}

/// Whether a head may end in the bytes that were not scanned before: a head that comes byte by byte
/// must not be parsed from its beginning for each of them.
fn has_end(came: &[u8], seen: usize) -> bool {
    let fresh = &came[seen.saturating_sub(3)..];
    seen == 0 && !came.is_empty()
        || memchr::memmem::find(fresh, b"\n\r\n").is_some()
        || memchr::memmem::find(fresh, b"\n\n").is_some()
}

fn parse<'a, 'b>(
    parsed: &mut httparse::Response<'b, 'a>,
    came: &'a [u8],
    headers: &'b mut [MaybeUninit<httparse::Header<'a>>],
) -> Result<Status<usize>, ExchangeError> {
    ParserConfig::default()
        .parse_response_with_uninit_headers(parsed, came, headers)
        .map_err(ExchangeError::Head)
}

// === impl ResponseHead ===

impl ResponseHead {
    fn of(parsed: &httparse::Response<'_, '_>, method: &Method) -> Result<Self, ExchangeError> {
        let strange = || ExchangeError::Protocol("its head cannot be read");
        let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or_else(strange)?;
        let version = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
        let mut says = Says::default();
        let mut response = Response::new(());
        let headers = response.headers_mut();
        headers.reserve(parsed.headers.len() + ADDED);
        for header in &*parsed.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| strange())?;
            let value = HeaderValue::from_bytes(header.value).map_err(|_| strange())?;
            says.hear(&name, header.value)?;
            headers.append(name, value);
        }
        let framing = says.framing(method, status, version)?;
        let lasts = framing != Framing::UntilClose
            && status != StatusCode::SWITCHING_PROTOCOLS
            && says.lasts(version);
        *response.status_mut() = status;
        *response.version_mut() = version;
        Ok(Self { response, framing, lasts })
    }
}

// === impl Says ===

impl Says {
    fn hear(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), ExchangeError> {
        if *name == CONTENT_LENGTH {
            return self.hear_length(value);
        }
        if *name == TRANSFER_ENCODING {
            let known = !self.chunked && value.eq_ignore_ascii_case(b"chunked");
            self.chunked = true;
            // No other coding was asked for.
            return known.then_some(()).ok_or_else(coded);
        }
        if *name == CONNECTION {
            for word in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= word.eq_ignore_ascii_case(b"close");
                self.keep |= word.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }

    fn hear_length(&mut self, value: &[u8]) -> Result<(), ExchangeError> {
        let unclear = || ExchangeError::Protocol("its content-length is not one number");
        for told in value.split(|&byte| byte == b',') {
            let told = number(told.trim_ascii()).ok_or_else(unclear)?;
            if self.length.replace(told).is_some_and(|length| length != told) {
                return Err(unclear());
            }
        }
        Ok(())
    }

    /// Where the body ends (RFC 9112, 6.3).
    fn framing(
        &self,
        method: &Method,
        status: StatusCode,
        version: Version,
    ) -> Result<Framing, ExchangeError> {
        let empty = status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match self.length {
            _ if empty || *method == Method::HEAD => Ok(Framing::Length(0)),
            _ if self.chunked && version == Version::HTTP_11 => Ok(Framing::chunked()),
            // Before 1.1 there was no coding.
            _ if self.chunked => Err(coded()),
            Some(length) => Ok(Framing::Length(length)),
            None => Ok(Framing::UntilClose),
        }
    }

    /// Whether the connection stays open. After an answer that tells its length twice it does not:
    /// who reads the other length finds the next answer elsewhere.
    fn lasts(&self, version: Version) -> bool {
        let kept = if version == Version::HTTP_10 { self.keep } else { !self.close };
        kept && !(self.chunked && self.length.is_some())
    }
}

fn coded() -> ExchangeError {
    ExchangeError::Protocol("its transfer coding is not one that was asked for")
}

fn number(digits: &[u8]) -> Option<u64> {
    // A sign would be read as well.
    let plain = digits.iter().all(u8::is_ascii_digit);
    plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}
