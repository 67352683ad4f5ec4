//! What can be told of an unreadable message, so that its producer can find it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::ID_MAX;

/// How many characters are shown.
const SHOWN_MAX: usize = 200;

/// The fields in which an id may be: `data.id` of an envelope, or `id` without one.
#[derive(Deserialize)]
struct IdFields<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// The id, if there is a usable one, and the beginning of the text.
pub(crate) fn describe(member: &[u8]) -> (Option<String>, String) {
    let text = String::from_utf8_lossy(member);
    let begins: String = text.chars().take(SHOWN_MAX).collect();
    (id(&text), format!("{begins:?}"))
}

fn id(text: &str) -> Option<String> {
    let IdFields { id, data } = serde_json::from_str(text).ok()?;
    let own = id.and_then(|id| serde_json::from_str(id.get()).ok());
    own.or_else(|| {
        let inside: IdFields<'_> = serde_json::from_str(data?.get()).ok()?;
        serde_json::from_str(inside.id?.get()).ok()
    })
    .filter(|id: &String| !id.is_empty() && id.len() <= ID_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_in_both_places_and_never_a_wrong_one() {
        let rows = [
            (r#"{"id":"a","deadline":1}"#, Some("a")),
            (r#"{"request_kind":"alien","data":{"id":"b"}}"#, Some("b")),
            (r#"{"id":7,"data":{"id":"b"}}"#, Some("b")),
            (r#"{"id":""}"#, None),
            (r#"{"data":5}"#, None),
            ("[]", None),
            ("not JSON", None),
        ];
        for (text, expected) in rows {
            assert_eq!(id(text).as_deref(), expected, "{text}");
        }
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(2000));
        let (id, begins) = describe(long.as_bytes());
        assert_eq!(id, None, "an id that is too long cannot be used");
        assert!(begins.len() < 500, "{begins}");
        assert_eq!(describe(b"\xff\n").1, "\"\u{fffd}\\n\"", "control characters are escaped");
    }
}
