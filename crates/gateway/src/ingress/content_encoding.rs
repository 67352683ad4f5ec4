//! Compressed request bodies. A backend gets them decoded, because most model servers read plain
//! JSON alone, and the gateway has to read them in any case.

use std::fmt;
use std::io::Read;

use bytes::Bytes;
use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};
use http::HeaderMap;

use super::headers::{BODY_ENCODING, ControlHeaders, text};
use crate::reply::Fault;

/// The most parts of a gzip body. Each costs some microseconds, even if it stands for nothing.
const MEMBERS_MAX: usize = 1024;

/// An encoding that is decoded here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentEncoding {
    Gzip,
    Deflate,
}

/// The decoded bytes, and the most that there may be.
struct Decoded {
    bytes: Vec<u8>,
    limit: usize,
}

/// The body of a call that the gateway answers itself, decoded like that of any other request.
pub(crate) fn decoded(headers: &HeaderMap, body: Bytes, limit: usize) -> Result<Bytes, Fault> {
    let encoding = encoding(true, &ControlHeaders::of(headers), headers)?;
    Ok(plain(encoding, body, limit)?.0)
}

/// The body without its encoding and its mark of UTF-8, and whether it was encoded.
pub(super) fn plain(
    encoding: Option<ContentEncoding>,
    body: Bytes,
    limit: usize,
) -> Result<(Bytes, bool), Fault> {
    let encoding = encoding.filter(|_| !body.is_empty());
    let decoded = match encoding {
        Some(encoding) => encoding.decode(&body, limit)?,
        None => body,
    };
    Ok((without_bom(decoded), encoding.is_some()))
}

/// How the body has to be decoded. An unknown encoding is an error if the gateway needs the body.
pub(super) fn encoding(
    needed: bool,
    controls: &ControlHeaders<'_>,
    headers: &HeaderMap,
) -> Result<Option<ContentEncoding>, Fault> {
    if controls.content_encoding.is_none() {
        return Ok(None);
    }
    // Several headers are several encodings, one after the other.
    let names = headers.get_all(BODY_ENCODING).iter().filter_map(text);
    let name = names.collect::<Vec<_>>().join(", ");
    let encoding = ContentEncoding::of(&name);
    let is_plain = name.is_empty() || name.eq_ignore_ascii_case("identity");
    if encoding.is_none() && !is_plain && needed {
        return Err(Fault::UnsupportedEncoding(name.chars().take(40).collect()));
    }
    Ok(encoding)
}

/// A JSON body without the mark of UTF-8 in front of it, which not every server accepts.
fn without_bom(body: Bytes) -> Bytes {
    match body.strip_prefix(b"\xEF\xBB\xBF") {
        Some(rest) if rest.trim_ascii_start().starts_with(b"{") => body.slice(3..),
        _ => body,
    }
}

// === impl ContentEncoding ===

impl ContentEncoding {
    /// The encoding of a name; `None` for any other, or for several at once.
    pub(super) fn of(name: &str) -> Option<Self> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match () {
            () if is("gzip") || is("x-gzip") => Some(Self::Gzip),
            () if is("deflate") => Some(Self::Deflate),
            () => None,
        }
    }

    /// Decodes a body. The size is limited while it is decoded: a small body can stand for a
    /// thousand times as many bytes.
    pub(super) fn decode(self, body: &[u8], limit: usize) -> Result<Bytes, Fault> {
        let mut decoded = Decoded { bytes: Vec::new(), limit };
        match self {
            Self::Gzip => gunzip(body, &mut decoded)?,
            Self::Deflate if is_zlib(body) => decoded.read(ZlibDecoder::new(body))?,
            // Some clients leave out the frame that the name stands for.
            Self::Deflate => decoded.read(DeflateDecoder::new(body))?,
        }
        Ok(decoded.bytes.into())
    }
}

/// Whether bytes begin with the header of zlib (RFC 1950).
fn is_zlib(body: &[u8]) -> bool {
    let [first, second] = *body.first_chunk::<2>().unwrap_or(&[0, 0]);
    first & 0x0F == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31)
}

/// A gzip body is one member after another (RFC 1952).
fn gunzip(mut body: &[u8], decoded: &mut Decoded) -> Result<(), Fault> {
    for _ in 0..MEMBERS_MAX {
        let mut member = GzDecoder::new(body);
        decoded.read(&mut member)?;
        body = member.into_inner();
        if body.is_empty() {
            return Ok(());
        }
    }
    Err(undecodable(&format!("it has more than {MEMBERS_MAX} gzip members")))
}

fn undecodable(reason: &dyn fmt::Display) -> Fault {
    Fault::InvalidRequest(format!("The body cannot be decoded: {reason}."))
}

// === impl Decoded ===

impl Decoded {
    fn read(&mut self, decoder: impl Read) -> Result<(), Fault> {
        let most = (self.limit - self.bytes.len()) as u64 + 1;
        let read = decoder.take(most).read_to_end(&mut self.bytes);
        read.map_err(|error| undecodable(&error))?;
        if self.bytes.len() > self.limit {
            return Err(Fault::BodyTooLarge(self.limit));
        }
        Ok(())
    }
}
