//! Timestamps of log lines: RFC 3339 in UTC, to the millisecond.

use std::time::Duration;

/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_TO_EPOCH: u64 = 719_468;
const DAYS_PER_400_YEARS: u64 = 146_097;

/// Year, month and day. Years begin with March, so that the leap day is the last day.
fn date(days: u64) -> (u64, u64, u64) {
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

/// Writes the time that is `since_epoch` after the start of 1970.
pub(super) fn write(out: &mut String, since_epoch: Duration) {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = u64::from(since_epoch.subsec_millis());
    let parts = [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (hour, 2, ':'),
        (minute, 2, ':'),
        (second, 2, '.'),
        (millis, 3, 'Z'),
    ];
    for (value, width, after) in parts {
        digits(out, value, width);
        out.push(after);
    }
}

/// Writes a number with at least `width` digits. A log line has two dozen numbers, and `write!`
/// would take longer for them than all other work on the line.
pub(super) fn digits(out: &mut String, mut value: u64, width: usize) {
    const LONGEST: usize = 20;
    let mut text = [b'0'; LONGEST];
    let mut at = LONGEST;
    while value > 0 {
        at -= 1;
        text[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    let first = at.min(LONGEST - width.min(LONGEST));
    out.push_str(str::from_utf8(&text[first..]).unwrap_or_default());
}
