//! Dates of the Gregorian calendar in UTC, as days since 1970 and back.

/// Seconds of a day.
pub(crate) const DAY_SECS: u64 = 86_400;

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_EPOCH: u64 = 719_468;
const DAYS_PER_400_YEARS: u64 = 146_097;
/// The last year that is accepted.
const YEAR_MAX: u64 = 9999;

/// Year, month and day. Years begin with March, so that the leap day is the last day.
pub(crate) fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_TO_EPOCH;
    let (era, day_of_era) = (days / DAYS_PER_400_YEARS, days % DAYS_PER_400_YEARS);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, five months have 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Days since 1970; `None` for what is no date, or one before 1970.
pub(crate) fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=YEAR_MAX).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let from_march = year - u64::from(month <= 2);
    let (era, year_of_era) = (from_march / 400, from_march % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * DAYS_PER_400_YEARS + day_of_era).checked_sub(DAYS_TO_EPOCH)?;
    (date(days) == (year, month, day)).then_some(days)
}

/// The first day of the month of a day, in days since 1970.
pub(crate) fn month_start(day: u64) -> u64 {
    day - (date(day).2 - 1)
}

/// The first day of the next month.
pub(crate) fn next_month(day: u64) -> u64 {
    let start = month_start(day);
    // No month has more than 31 days, and 32 days later is never the month after the next.
    month_start(start + 32)
}

/// A time in seconds since 1970, as RFC 3339.
pub(crate) fn rfc3339(secs: u64) -> String {
    let (year, month, day) = date(secs / DAY_SECS);
    let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Reads a day (`2027-01-31`) or a time in UTC (`2027-01-31T12:00:00Z`): its beginning in seconds
/// since 1970, and whether it is a whole day.
pub(crate) fn parse(text: &str) -> Option<(u64, bool)> {
    let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
    let [year, month, day] = numbers(date, '-')?;
    let days = days(year, month, day)?;
    let Some(time) = time else { return Some((days * DAY_SECS, true)) };
    let [hour, minute, second] = numbers(time.strip_suffix('Z')?, ':')?;
    let fits = hour < 24 && minute < 60 && second < 60;
    fits.then_some((days * DAY_SECS + hour * 3600 + minute * 60 + second, false))
}

fn numbers(text: &str, sign: char) -> Option<[u64; 3]> {
    let digits = |part: &str| part.bytes().all(|letter| letter.is_ascii_digit());
    let number = |part: &str| part.parse().ok().filter(|_| digits(part));
    let parts: Vec<&str> = text.split(sign).collect();
    let parts: [&str; 3] = parts.try_into().ok()?;
    Some([number(parts[0])?, number(parts[1])?, number(parts[2])?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_begins_on_its_first_day() {
        for number in 0..2000 {
            let (year, month, _) = date(number);
            assert_eq!(date(month_start(number)), (year, month, 1));
            let (later, next, day) = date(next_month(number));
            assert_eq!((later * 12 + next, day), (year * 12 + month + 1, 1), "{number}");
        }
        assert_eq!(rfc3339(1_800_000_000), "2027-01-15T08:00:00Z");
        assert_eq!(parse("2027-01-15T08:00:00Z"), Some((1_800_000_000, false)));
        assert_eq!(parse("1970-01-02"), Some((DAY_SECS, true)));
    }

    #[test]
    fn days_and_dates_are_inverse_and_impossible_dates_are_none() {
        for number in (0..80_000).step_by(7) {
            let (year, month, day) = date(number);
            assert_eq!(days(year, month, day), Some(number));
        }
        assert_eq!(days(1970, 1, 1), Some(0));
        assert_eq!(days(2024, 2, 29), Some(19_782));
        for (year, month, day) in
            [(2023, 2, 29), (2024, 0, 1), (2024, 13, 1), (2024, 4, 31), (2024, 1, 0), (1969, 1, 1)]
        {
            assert_eq!(days(year, month, day), None, "{year}-{month}-{day}");
        }
    }
}
