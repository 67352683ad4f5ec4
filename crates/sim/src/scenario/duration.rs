//! Lengths of time as people write them: `200ms`, `1.5s`, `10m`, `2h`.

use flow::Span;
use serde::de::{Deserialize, Deserializer, Error};

/// A length of time in a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct DurationText(pub(super) Span);

const UNITS: [(&str, f64); 5] =
    [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
/// Longer ones are a slip of the pen: a month of virtual time would take hours.
const LONGEST: f64 = 31.0 * 86_400.0;

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(Self).ok_or_else(|| {
            let hint = "a length of time such as \"200ms\", \"1.5s\", \"10m\" or \"2h\"";
            Error::custom(format!("`{text}` is not {hint}, up to 31 days"))
        })
    }
}

/// The length of time that a text gives, if it gives one.
pub(super) fn parse(text: &str) -> Option<Span> {
    let (number, secs) = UNITS
        .iter()
        .find_map(|(unit, secs)| text.strip_suffix(unit).map(|number| (number, secs)))?;
    let value = number.trim().parse::<f64>().ok()? * secs;
    (0.0..=LONGEST).contains(&value).then(|| Span::from_secs_f64(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_with_common_units() {
        let millis = |text| parse(text).map(|span| span.nanos() / 1_000_000);
        assert_eq!(millis("200ms"), Some(200));
        assert_eq!(millis("1.5s"), Some(1500));
        assert_eq!(millis("10 m"), Some(600_000));
        assert_eq!(millis("2h"), Some(7_200_000));
        for wrong in ["", "5", "s", "-1s", "NaNs", "infs", "1e9h", "5 parsecs"] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
    }
}
