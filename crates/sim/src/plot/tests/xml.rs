//! A reader of XML that is just strict enough to find what a browser would refuse.

/// Panics unless `text` is one element with balanced tags, quoted attributes and no bare signs.
pub(super) fn assert_well_formed(text: &str) {
    let forbidden = |letter: char| letter.is_control() && letter != '\n';
    assert!(!text.contains(forbidden), "a control character in {text}");
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.trim_end();
    let mut elements = 0;
    while let Some(start) = rest.find('<') {
        assert_plain(&rest[..start], text);
        assert!(!open.is_empty() || elements == 0, "more than one root in {text}");
        let end =
            start + rest[start..].find('>').unwrap_or_else(|| panic!("an open tag in {text}"));
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        elements += 1;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "a wrong end tag in {text}");
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert_attributes(attributes, text);
        if !closed {
            open.push(name);
        }
    }
    assert!(elements > 0 && open.is_empty() && rest.is_empty(), "{open:?} left open in {text}");
}

/// The values of attribute `name`, in order.
pub(super) fn attributes<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let mark = format!(" {name}=\"");
    text.split(mark.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// The texts between `<text …>` and its end, in order.
pub(super) fn texts(text: &str) -> Vec<&str> {
    let after = text.split("<text").skip(1).filter_map(|rest| rest.split_once('>'));
    after.filter_map(|(_, rest)| rest.split("</text>").next()).collect()
}

fn assert_attributes(attributes: &str, text: &str) {
    let mut rest = attributes;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{rest} in {text}"));
        assert!(name.chars().all(|letter| letter.is_alphanumeric() || letter == '-'), "{name}");
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{after} in {text}"));
        assert_plain(value, text);
        rest = after.trim_start();
    }
}

/// Panics at an ampersand that begins no known entity.
fn assert_plain(words: &str, text: &str) {
    for after in words.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(known.iter().any(|name| after.starts_with(name)), "a bare & in {text}");
    }
}
