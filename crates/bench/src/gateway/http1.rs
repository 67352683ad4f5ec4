//! As much of HTTP/1.1 as measuring needs, read from raw bytes.
//!
//! Load and origin share a core with each other, and what they spend is not for the measured proxy
//! to use: so no HTTP library here, and no more parsing than finding where a message ends.

use std::str;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How the body of a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// After so many bytes.
    After(usize),
    /// With the empty chunk.
    Chunked,
}

/// A message's head as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Where the body begins.
    pub(crate) length: usize,
    pub(crate) ends: Ends,
}

/// The bytes that came and are not used yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
}

const EMPTY_CHUNK: &[u8] = b"0\r\n\r\n";
const READ: usize = 16 << 10;

/// Reads a head if it is complete.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let mut ends = Ends::After(0);
    for line in bytes[..end].split(|&byte| byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            ends = Ends::After(str::from_utf8(value)?.parse().context("no length")?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            ends = Ends::Chunked;
        }
    }
    Ok(Some(Head { length: end + 4, ends }))
}

// === impl Inbox ===

impl Inbox {
    /// Waits for more bytes; nothing when the other side has closed.
    pub(crate) async fn more(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<Option<()>> {
        self.bytes.reserve(READ);
        let read = stream.read_buf(&mut self.bytes).await?;
        Ok((read > 0).then_some(()))
    }

    /// Waits for a whole head; nothing when the other side has closed.
    pub(crate) async fn head(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<Option<Head>> {
        loop {
            if let Some(head) = head(&self.bytes)? {
                return Ok(Some(head));
            }
            if self.more(stream).await?.is_none() {
                return Ok(None);
            }
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Waits for the end of the body behind `head`.
    pub(crate) async fn whole(
        &mut self,
        head: Head,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<()> {
        while !self.ended(head) {
            if self.more(stream).await?.is_none() {
                bail!("the connection ended inside a message");
            }
        }
        Ok(())
    }

    /// Forgets the message; nothing of the next one is here yet, since they go one at a time.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
    }

    fn ended(&self, head: Head) -> bool {
        let body = &self.bytes[head.length..];
        match head.ends {
            Ends::After(length) => body.len() >= length,
            Ends::Chunked => {
                // The payloads sent here never look like the end of a body.
                body == EMPTY_CHUNK
                    || (body.ends_with(EMPTY_CHUNK) && body.ends_with(b"\r\n0\r\n\r\n"))
            }
        }
    }
}
