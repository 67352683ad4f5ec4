//! Parser for the Prometheus text format: a line is a name, labels and a value.
//!
//! The text is long and few of its lines matter. So a line is parsed in two steps: first the name,
//! and the rest only if the name is wanted. The text is untrusted: a line that does not follow the
//! format is ignored.

/// The lines of a text.
pub(crate) fn lines(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut from = 0;
    let ends = memchr::memchr_iter(b'\n', page).chain(std::iter::once(page.len()));
    ends.map(move |end| {
        let line = &page[from.min(end)..end];
        from = end + 1;
        line
    })
}

/// The name of a line, and the rest.
pub(crate) fn name(line: &[u8]) -> Option<(&[u8], &[u8])> {
    Some(line.split_at(memchr::memchr3(b'{', b' ', b'\t', line)?))
}

/// The labels and the value after a name. A value that is not a number becomes NaN.
pub(crate) fn sample(rest: &[u8]) -> Option<(&str, f64)> {
    let rest = str::from_utf8(rest).ok()?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => inside.split_at(labels_end(inside)?),
        None => ("", rest),
    };
    let value = rest.trim_start_matches('}').split_ascii_whitespace().next()?;
    Some((labels, value.parse().unwrap_or(f64::NAN)))
}

/// The time after the value, if the line has one, in milliseconds since 1970.
pub(crate) fn time(rest: &[u8]) -> Option<u64> {
    let rest = str::from_utf8(rest).ok()?;
    let after_labels = rest.rsplit_once('}').map_or(rest, |(_, rest)| rest);
    after_labels.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The end of the labels: the first brace outside quotes.
fn labels_end(inside: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The value of a label, still escaped.
pub(crate) fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = labels;
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let mut escaped = false;
        let end = after.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        if key.trim_start_matches([',', ' ']) == name {
            return after.get(..end);
        }
        rest = after.get(end + 1..)?;
    }
}

/// Whether an escaped value equals `text`. A missing label equals an empty one.
pub(crate) fn means(quoted: Option<&str>, text: &str) -> bool {
    let mut letters = quoted.unwrap_or_default().chars();
    let plain = std::iter::from_fn(|| match letters.next()? {
        '\\' => letters.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped }),
        letter => Some(letter),
    });
    plain.eq(text.chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken_apart(line: &str) -> Option<(&[u8], &str, f64)> {
        let (name, rest) = name(line.as_bytes())?;
        let (labels, value) = sample(rest)?;
        Some((name, labels, value))
    }

    #[test]
    fn d02_a_line_is_a_name_labels_and_a_number() {
        assert_eq!(taken_apart("up 1"), Some((&b"up"[..], "", 1.0)));
        assert_eq!(taken_apart("up\t1 1700000000000"), Some((&b"up"[..], "", 1.0)));
        let line = r#"a:b{x="}{",y="\"}",} 0.25"#;
        assert_eq!(taken_apart(line), Some((&b"a:b"[..], r#"x="}{",y="\"}","#, 0.25)));
        assert_eq!(taken_apart("up +Inf").unwrap().2, f64::INFINITY);
        assert!(taken_apart("up many").unwrap().2.is_nan());
    }

    #[test]
    fn d06_a_line_may_have_a_time() {
        for (line, millis) in [
            ("up 1", None),
            ("up 1 1700000000123", Some(1_700_000_000_123)),
            ("up{x=\"} 2 3\"}  0.5\t7 ", Some(7)),
            ("up 1 soon", None),
        ] {
            let (_, rest) = name(line.as_bytes()).unwrap();
            assert_eq!(time(rest), millis, "{line}");
        }
    }

    #[test]
    fn d02_a_malformed_line_is_ignored() {
        for line in ["", "up", "up{", r#"up{x="} 1"#, "up{}", "up ", "{", "up{x=\"\\\"} 1"] {
            assert_eq!(taken_apart(line), None, "{line:?}");
        }
        assert!(sample(b" \xFF").is_none());
        assert!(sample(b"{x=\"\xFF\"} 1").is_none());
    }

    #[test]
    fn d02_labels_are_found_and_compared_as_they_are_meant() {
        let labels = r#"a="1", b="two \"2\" \\ \n",c="","#;
        assert_eq!(label(labels, "a"), Some("1"));
        assert!(means(label(labels, "b"), "two \"2\" \\ \n"));
        assert!(!means(label(labels, "b"), "two"));
        assert!(means(label(labels, "c"), "") && means(label(labels, "d"), ""));
        assert!(!means(label(labels, "d"), "1"));
        assert_eq!(label("a=\"1", "a"), None);
        assert_eq!(label("a=\"1\\", "a"), None);
        assert!(means(Some("\\"), "") && !means(Some("\\"), "\\"));
    }

    #[test]
    fn d02_lines_end_with_the_page() {
        let found: Vec<&[u8]> = lines(b"a\n\nb\r\nc").collect();
        assert_eq!(found, [&b"a"[..], b"", b"b\r", b"c"]);
        assert_eq!(lines(b"").count(), 1);
    }
}
