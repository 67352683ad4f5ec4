//! Elements of DER, the encoding of certificates and public keys.
//!
//! The reader copies nothing and never panics. Bytes that are no element end it.

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;

/// Elements of DER that follow each other.
pub(crate) struct Elements<'a>(pub(crate) &'a [u8]);

// === impl Elements ===

impl<'a> Elements<'a> {
    /// The content of the next element, if it has this tag.
    pub(crate) fn of(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// The tag and the content of the next element.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], mut rest) = self.0.split_first_chunk()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            // The first byte has the number of bytes of the length.
            let bytes = usize::from(first & 0x7f);
            if !(1..=4).contains(&bytes) {
                return None;
            }
            let (digits, after) = rest.split_at_checked(bytes)?;
            length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            rest = after;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}
