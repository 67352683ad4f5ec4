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
                Chunk::Data(left) => return Ok(chunks(came, left)),
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

/// Takes what has come of this chunk and of those behind it as one piece: what follows costs about
/// as much for each piece as for each event of a stream. The lines between them are closed up.
fn chunks(came: &mut BytesMut, left: &mut u64) -> Step {
    if came.is_empty() {
        return Step::More;
    }
    let (mut length, mut read) = (0, 0);
    loop {
        let part = usize::try_from(*left).unwrap_or(usize::MAX).min(came.len() - read);
        if read > length {
            came.copy_within(read..read + part, length);
        }
        length += part;
        read += part;
        *left -= part as u64;
        // Whatever else follows is left for the next step, which also finds what is wrong with it.
        let line = came[read..].strip_prefix(b"\r\n").map(size_line);
        let Some(Ok(Some((line, size @ 1..)))) = line else { break };
        if came.len() == read + 2 + line {
            break;
        }
        read += 2 + line;
        *left = size;
    }
    let piece = came.split_to(length).freeze();
    came.advance(read - length);
    Step::Frame(Frame::data(piece))
}

/// Takes the line before a chunk.
fn size(came: &mut BytesMut) -> Result<Option<Chunk>, ExchangeError> {
    let Some((line, size)) = size_line(came)? else { return Ok(None) };
    came.advance(line);
    Ok(Some(if size == 0 { Chunk::Trailers } else { Chunk::Data(size) }))
}

/// The length of the line before a chunk, and of the chunk. Anything but plain digits might be read
/// otherwise by another program.
fn size_line(came: &[u8]) -> Result<Option<(usize, u64)>, ExchangeError> {
    let wrong = || ExchangeError::Protocol("a chunk's length cannot be read");
    let Some(end) = memchr(b'\n', came) else {
        return if came.len() > LINE_MAX { Err(wrong()) } else { Ok(None) };
    };
    let line = came[..end].strip_suffix(b"\r").ok_or_else(wrong)?;
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
    // Some programs take a lone carriage return for a line's end.
    let is_plain = !digits.is_empty() && line.len() <= LINE_MAX && !line.contains(&b'\r');
    let size = digits.iter().try_fold(0_u64, |size, &byte| {
        size.checked_mul(16)?.checked_add(char::from(byte).to_digit(16)?.into())
    });
    let size = size.filter(|_| is_plain).ok_or_else(wrong)?;
    Ok(Some((end + 1, size)))
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
