//! Timestamps of log lines: RFC 3339 in UTC, to the millisecond.

use std::time::Duration;

use crate::calendar::{DAY_SECS, date};

/// Writes the time that is `since_epoch` after the start of 1970.
pub(super) fn write(out: &mut String, since_epoch: Duration) {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = date(seconds / DAY_SECS);
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
