//! The query parameters of a list request.

use crate::reply::Fault;

/// The longest value of a parameter.
const WORD_MAX: usize = 128;

/// The requested page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paging {
    /// The page begins after the object with this id.
    pub(crate) after: Option<String>,
    /// The most objects of a page.
    pub(crate) limit: Option<usize>,
    /// Whether the oldest object comes first.
    pub(crate) oldest_first: bool,
    /// Only files with this purpose.
    pub(crate) purpose: Option<String>,
}

// === impl Paging ===

impl Paging {
    /// Parses a query. Unknown parameters are ignored. If a parameter occurs twice, the last one
    /// counts.
    pub(crate) fn read(query: Option<&str>) -> Result<Self, Fault> {
        let mut paging = Self::default();
        for pair in query.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "after" => paging.after = Some(word("after", value)?),
                "purpose" => paging.purpose = Some(word("purpose", value)?),
                "limit" => paging.limit = Some(limit(value)?),
                "order" => paging.oldest_first = oldest_first(value)?,
                _ => {}
            }
        }
        Ok(paging)
    }
}

/// A value without percent encoding: ids and purposes need none.
fn word(field: &'static str, value: &str) -> Result<String, Fault> {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    if !value.is_empty() && value.len() <= WORD_MAX && value.bytes().all(plain) {
        return Ok(value.to_owned());
    }
    Err(Fault::InvalidField(field, format!("'{field}' is not a valid value.")))
}

fn limit(value: &str) -> Result<usize, Fault> {
    let limit = value.parse().ok().filter(|&limit| limit > 0);
    limit.ok_or_else(|| Fault::InvalidField("limit", "'limit' must be a number from 1 on.".into()))
}

fn oldest_first(value: &str) -> Result<bool, Fault> {
    match value {
        "asc" => Ok(true),
        "desc" => Ok(false),
        _ => Err(Fault::InvalidField("order", "'order' must be asc or desc.".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_a_query_says_which_part_of_a_list_is_wanted() {
        assert_eq!(Paging::read(None), Ok(Paging::default()));
        let query = "limit=5&after=file-0a_B&order=asc&purpose=batch&extra=%00&limit=7";
        let wanted = Paging {
            after: Some("file-0a_B".into()),
            limit: Some(7),
            oldest_first: true,
            purpose: Some("batch".into()),
        };
        assert_eq!(Paging::read(Some(query)), Ok(wanted));
    }

    #[test]
    fn d10_an_invalid_query_names_its_parameter() {
        let long = format!("after={}", "a".repeat(WORD_MAX + 1));
        let rows = [
            ("limit=0", "limit"),
            ("limit=-1", "limit"),
            ("limit", "limit"),
            ("limit=99999999999999999999999", "limit"),
            ("order=up", "order"),
            ("after=", "after"),
            ("after=../etc", "after"),
            ("purpose=%20", "purpose"),
            (long.as_str(), "after"),
        ];
        for (query, field) in rows {
            let fault = Paging::read(Some(query));
            assert!(matches!(fault, Err(Fault::InvalidField(name, _)) if name == field), "{query}");
        }
    }
}
