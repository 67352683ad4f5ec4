//! Compressed request bodies. A backend gets them decoded, because most model servers read plain
//! JSON alone, and the gateway has to read them in any case.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use crate::reply::Fault;

/// An encoding that is decoded here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentEncoding {
    Gzip,
    Deflate,
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
        match self {
            Self::Gzip => read(MultiGzDecoder::new(body), limit),
            Self::Deflate if is_zlib(body) => read(ZlibDecoder::new(body), limit),
            // Some clients leave out the frame that the name stands for.
            Self::Deflate => read(DeflateDecoder::new(body), limit),
        }
    }
}

/// Whether bytes begin with the header of zlib (RFC 1950).
fn is_zlib(body: &[u8]) -> bool {
    let [first, second] = *body.first_chunk::<2>().unwrap_or(&[0, 0]);
    first & 0x0F == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31)
}

fn read(decoder: impl Read, limit: usize) -> Result<Bytes, Fault> {
    let mut decoded = Vec::new();
    let most = (limit as u64).saturating_add(1);
    if let Err(error) = decoder.take(most).read_to_end(&mut decoded) {
        return Err(Fault::InvalidRequest(format!("The body cannot be decoded: {error}.")));
    }
    if decoded.len() > limit {
        return Err(Fault::BodyTooLarge(limit));
    }
    Ok(decoded.into())
}
