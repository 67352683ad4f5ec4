//! Wall time such as `2023-11-16 18:15:46.6805900`, taken as UTC.
//!
//! Only differences matter, so there are no time zones: a written offset of zero is skipped, any
//! other is refused.

use flow::Time;

const YEARS: std::ops::RangeInclusive<u64> = 1970..=2500;
const NANOS_PER_SEC: u64 = 1_000_000_000;
const NANO_DIGITS: usize = 9;
const MONTHS: u64 = 12;

/// The moment that the text names, counted from 1970.
pub(super) fn moment(text: &str) -> Option<Time> {
    let text = text.strip_suffix("+00:00").or(text.strip_suffix('Z')).unwrap_or(text);
    let (date, clock) = text.split_once([' ', 'T'])?;
    let (clock, nanos) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, nanos(fraction)?),
        None => (clock, 0),
    };
    let secs = days(date)? * 86_400 + secs_of_day(clock)?;
    Some(Time::from_nanos(secs * NANOS_PER_SEC + nanos))
}

fn days(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    let known = YEARS.contains(&year) && (1..=MONTHS).contains(&month) && parts.next().is_none();
    if !known || !(1..=month_days(year, month)).contains(&day) {
        return None;
    }
    let years: u64 = (*YEARS.start()..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).map(|month| month_days(year, month)).sum();
    Some(years + months + day - 1)
}

fn month_days(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn secs_of_day(clock: &str) -> Option<u64> {
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second = digits(parts.next()?, 2)?;
    let known = hour < 24 && minute < 60 && second < 60 && parts.next().is_none();
    known.then_some((hour * 60 + minute) * 60 + second)
}

fn nanos(fraction: &str) -> Option<u64> {
    let count = fraction.len();
    let missing = NANO_DIGITS.checked_sub(count)?;
    Some(digits(fraction, count)? * 10u64.pow(missing as u32))
}

/// Exactly `count` digits, without signs or spaces.
fn digits(text: &str, count: usize) -> Option<u64> {
    let plain = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
