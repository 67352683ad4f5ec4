//! The query of `GET /usage`.

use super::duration;
use crate::api_keys::is_name;
use crate::calendar::{self, DAY_SECS};
use crate::reply::Fault;

/// The span without `since`.
const USUAL_SECS: u64 = 7 * DAY_SECS;
const ROWS_MAX: usize = 10_000;

/// What a client asks for; times in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsageAsked {
    pub(crate) tenant: Option<String>,
    pub(crate) since: u64,
    pub(crate) until: u64,
    pub(crate) limit: usize,
    /// The last row of the page before.
    pub(crate) after: Option<UsageCursor>,
    pub(crate) csv: bool,
}

/// A row, by its hour since 1970, tenant, key and model.
pub(crate) type UsageCursor = (u64, String, String, String);

// === impl UsageAsked ===

impl UsageAsked {
    /// Parses a query. Unknown parameters are ignored.
    pub(crate) fn read(query: Option<&str>, now: u64) -> Result<Self, Fault> {
        let since = now.saturating_sub(USUAL_SECS);
        let (limit, after) = (ROWS_MAX, None);
        let mut asked = Self { tenant: None, since, until: now, limit, after, csv: false };
        for pair in query.unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            asked.set(name, value, now)?;
        }
        Ok(asked)
    }

    fn set(&mut self, name: &str, value: &str, now: u64) -> Result<(), Fault> {
        let wrong = |field, text: &str| Err(Fault::InvalidField(field, text.into()));
        match (name, value) {
            ("tenant", name) if is_name(name) => self.tenant = Some(name.to_owned()),
            ("tenant", _) => return wrong("tenant", "'tenant' is no name."),
            ("since", text) => self.since = time("since", text, now)?.0,
            ("until", text) => {
                let (secs, is_day) = time("until", text, now)?;
                self.until = secs + if is_day { DAY_SECS } else { 0 };
            }
            ("limit", text) => match text.parse() {
                Ok(limit @ 1..=ROWS_MAX) => self.limit = limit,
                _ => return wrong("limit", "'limit' must be a number from 1 to 10000."),
            },
            ("after", text) => match cursor(text) {
                Some(after) => self.after = Some(after),
                None => return wrong("after", "'after' is not the 'next' of a page."),
            },
            ("format", "csv") => self.csv = true,
            ("format", "json") => self.csv = false,
            ("format", _) => return wrong("format", "'format' must be json or csv."),
            _ => {}
        }
        Ok(())
    }
}

/// A row as the field `next` of a page names it.
fn cursor(text: &str) -> Option<UsageCursor> {
    let text = String::from_utf8(super::path::percent_decoded(text)).ok()?;
    let mut parts = text.splitn(4, ':');
    let hour = parts.next()?.parse().ok()?;
    let mut name = || parts.next().map(str::to_owned);
    Some((hour, name()?, name()?, name()?))
}

/// A time, or a span before now such as `7d`.
fn time(field: &'static str, text: &str, now: u64) -> Result<(u64, bool), Fault> {
    let text = text.replace("%3A", ":");
    let before = || duration::parse(&text).map(|span| span.nanos() / 1_000_000_000);
    let ago = || before().map(|secs| (now.saturating_sub(secs), false));
    calendar::parse(&text).or_else(ago).ok_or_else(|| {
        let forms = "2027-01-31, 2027-01-31T12:00:00Z or a span such as 7d";
        Fault::InvalidField(field, format!("'{field}' must be {forms}."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_a_query_of_usage_has_times_and_spans() {
        let now = 1_800_000_000;
        let read = |query| UsageAsked::read(Some(query), now);
        let usual = UsageAsked::read(None, now).unwrap();
        assert_eq!((usual.since, usual.until, usual.csv), (now - USUAL_SECS, now, false));
        let asked = read("tenant=a&since=1h&until=2027-01-15&format=csv&x=y").unwrap();
        assert_eq!(asked.tenant.as_deref(), Some("a"));
        assert_eq!((asked.since, asked.until), (now - 3600, 1_800_000_000 - 28_800 + DAY_SECS));
        assert!(asked.csv);
        assert_eq!(read("since=2027-01-15T08%3A00%3A00Z").unwrap().since, now);
        let page = read("limit=5&after=12:a:b:m%2F1:2").unwrap();
        let after = (12, "a".to_owned(), "b".to_owned(), "m/1:2".to_owned());
        assert_eq!((page.limit, page.after), (5, Some(after)));
        for wrong in [
            "limit=0",
            "limit=10001",
            "after=x:a:b:m",
            "after=1:a:b",
            "since=x",
            "until=",
            "tenant=a/b",
            "format=xml",
        ] {
            assert!(matches!(read(wrong), Err(Fault::InvalidField(..))), "{wrong}");
        }
    }
}
