//! Where a body ends: by its length, by chunks, or with the connection.

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use httparse::{EMPTY_HEADER, Status};
use memchr::memchr;

use super::ExchangeError;

/// The longest line before a chunk; extensions of a chunk are ignored.
const LINE_MAX: usize = 4 << 10;
/// The most bytes that may follow the last chunk.
const TRAILERS_MAX: usize = 16 << 10;
const TRAILERS_COUNT_MAX: usize = 64;

/// How much of a body is still to come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes; none is the end.
    Length(u64),
    Chunked(Chunk),
    UntilClose,
}

/// The next part of a body in chunks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// The line with its length.
    Size,
    /// So many bytes of it.
    Data(u64),
    /// The line's end behind it.
    End,
    /// What follows the last one.
    Trailers,
}

/// The outcome of taking a part.
#[derive(Debug)]
pub(super) enum Step {
    Frame(Frame<Bytes>),
    /// More bytes are needed.
    More,
    /// The body is at its end.
    Over,
}

// === impl Framing ===

impl Framing {
    pub(super) fn chunked() -> Self {
        Self::Chunked(Chunk::Size)
    }

    /// Whether all has been taken.
    pub(crate) fn is_over(&self) -> bool {
        *self == Self::Length(0)
    }

    /// How many bytes are still to come, as far as is known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Length(left) => SizeHint::with_exact(*left),
            Self::Chunked(_) | Self::UntilClose => SizeHint::default(),
        }
    }

    /// Takes the next part from the bytes that have come.
    pub(super) fn take(&mut self, came: &mut BytesMut) -> Result<Step, ExchangeError> {
        match self {
            Self::Length(0) => Ok(Step::Over),
            Self::Length(left) => Ok(data(came, left)),
            Self::UntilClose => {
                let mut left = u64::MAX;
                Ok(data(came, &mut left))
            }
            Self::Chunked(_) => self.take_chunk(came),
        }
    }

    /// The connection has ended, and with it the body, if that is how it was to end.
    pub(super) fn close(&mut self) -> Result<(), ExchangeError> {
        match self {
            Self::Length(0) => Ok(()),
            Self::UntilClose => {
                *self = Self::Length(0);
                Ok(())
            }
            Self::Length(_) | Self::Chunked(_) => {
                Err(ExchangeError::Protocol("it closed the connection in the middle of its answer"))
            }
        }
    }

    fn take_chunk(&mut self, came: &mut BytesMut) -> Result<Step, ExchangeError> {
        while let Self::Chunked(chunk) = self {
            let next = match chunk {
                Chunk::Size => size(came)?,
                Chunk::Data(0) => Some(Chunk::End),
                Chunk::Data(left) => return Ok(data(came, left)),
                Chunk::End => line_end(came)?,
                Chunk::Trailers => return self.take_trailers(came),
            };
            let Some(next) = next else { return Ok(Step::More) };
            *chunk = next;
        }
        Ok(Step::Over)
    }

    fn take_trailers(&mut self, came: &mut BytesMut) -> Result<Step, ExchangeError> {
        let Some(trailers) = trailers(came)? else { return Ok(Step::More) };
        *self = Self::Length(0);
        let any = !trailers.is_empty();
        Ok(if any { Step::Frame(Frame::trailers(trailers)) } else { Step::Over })
    }
}

/// Takes the bytes that belong to the body.
fn data(came: &mut BytesMut, left: &mut u64) -> Step {
    if came.is_empty() {
        return Step::More;
    }
    let length = usize::try_from(*left).map_or(came.len(), |left| left.min(came.len()));
    *left -= length as u64;
    Step::Frame(Frame::data(came.split_to(length).freeze()))
}

/// The line before a chunk. Anything but plain digits might be read otherwise by another program.
fn size(came: &mut BytesMut) -> Result<Option<Chunk>, ExchangeError> {
    let wrong = || ExchangeError::Protocol("a chunk's length cannot be read");
    let Some(end) = memchr(b'\n', came) else {
        return if came.len() > LINE_MAX { Err(wrong()) } else { Ok(None) };
    };
    let line = came[..end].strip_suffix(b"\r").ok_or_else(wrong)?;
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
    let hex = line.len() <= LINE_MAX && digits.iter().all(u8::is_ascii_hexdigit);
    // Some programs take a lone carriage return for a line's end.
    let hex = hex && memchr(b'\r', line).is_none();
    let size = std::str::from_utf8(digits).ok().filter(|_| hex);
    let size = size.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(wrong)?;
    came.advance(end + 1);
    Ok(Some(if size == 0 { Chunk::Trailers } else { Chunk::Data(size) }))
}

fn line_end(came: &mut BytesMut) -> Result<Option<Chunk>, ExchangeError> {
    if !came.starts_with(&b"\r\n"[..came.len().min(2)]) {
        return Err(ExchangeError::Protocol("a chunk is longer than it says"));
    }
    if came.len() < 2 {
        return Ok(None);
    }
    came.advance(2);
    Ok(Some(Chunk::Size))
}

fn trailers(came: &mut BytesMut) -> Result<Option<HeaderMap>, ExchangeError> {
    let wrong = || ExchangeError::Protocol("what follows its last chunk cannot be read");
    let mut lines = [EMPTY_HEADER; TRAILERS_COUNT_MAX];
    let (length, lines) = match httparse::parse_headers(came, &mut lines) {
        Ok(Status::Complete(parsed)) => parsed,
        Ok(Status::Partial) if came.len() <= TRAILERS_MAX => return Ok(None),
        Ok(Status::Partial) | Err(_) => return Err(wrong()),
    };
    // The parser takes half a line's end for a whole one, others do not.
    if memchr::memchr_iter(b'\n', &came[..length]).any(|at| !came[..at].ends_with(b"\r")) {
        return Err(wrong());
    }
    let mut trailers = HeaderMap::new();
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| wrong())?;
        let value = HeaderValue::from_bytes(line.value).map_err(|_| wrong())?;
        trailers.append(name, value);
    }
    came.advance(length);
    Ok(Some(trailers))
}
