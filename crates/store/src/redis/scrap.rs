//! What can be told of a message that cannot be read, so that its sender can find it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::ID_MAX;

/// How much of it is shown.
const SHOWN: usize = 200;

/// Where an id may be: in the envelope's data, or in what has no envelope.
#[derive(Deserialize)]
struct Somewhere<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// The id, if there is one that can be used, and how the text begins.
pub(super) fn of(member: &[u8]) -> (Option<String>, String) {
    let text = String::from_utf8_lossy(member);
    let begins: String = text.chars().take(SHOWN).collect();
    (id(&text), format!("{begins:?}"))
}

fn id(text: &str) -> Option<String> {
    let Somewhere { id, data } = serde_json::from_str(text).ok()?;
    let own = id.and_then(|id| serde_json::from_str(id.get()).ok());
    own.or_else(|| {
        let inside: Somewhere<'_> = serde_json::from_str(data?.get()).ok()?;
        serde_json::from_str(inside.id?.get()).ok()
    })
    .filter(|id: &String| !id.is_empty() && id.len() <= ID_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_wherever_it_is_and_never_a_wrong_one() {
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
        let (id, begins) = of(long.as_bytes());
        assert_eq!(id, None, "nobody could name it");
        assert!(begins.len() < 500, "{begins}");
        assert_eq!(of(b"\xff\n").1, "\"\u{fffd}\\n\"", "nothing of it acts on a terminal");
    }
}
