//! Compressed request bodies. A backend gets them decoded, because most model servers read plain
//! JSON alone, and the gateway has to read them in any case.

use std::fmt;
use std::io::Read;

use bytes::Bytes;
use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};

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
