//! The base64 of tokens: with `-` and `_`, and without padding (RFC 7515, section 2).

/// Decodes a text. There is one text for each value: unused bits that are set, padding, white space
/// and other letters are refused.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for letter in group {
            bits = bits << 6 | u32::from(value(*letter)?);
        }
        let (unused, count) = unused_bits_and_bytes(group.len())?;
        if bits & ((1 << unused) - 1) != 0 {
            return None;
        }
        let group = (bits >> unused).to_be_bytes();
        bytes.extend_from_slice(&group[group.len() - count..]);
    }
    Some(bytes)
}

/// The unused bits and the bytes of a group. One letter has too few bits for a byte.
const fn unused_bits_and_bytes(letters: usize) -> Option<(u32, usize)> {
    match letters {
        4 => Some((0, 3)),
        3 => Some((2, 2)),
        2 => Some((4, 1)),
        _ => None,
    }
}

const fn value(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn x05_base64_of_tokens_has_one_text_for_each_value() {
        for (text, expected) in [
            ("", &b""[..]),
            ("Zg", b"f"),
            ("Zm8", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYmE", b"fooba"),
            ("-_8", &[0xfb, 0xff]),
        ] {
            assert_eq!(decode(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["Z", "Zm9vY", "Zg==", "Zh", "Zm9", "+/8", "Zm9v\n", "Zm 9v", "Zé"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
