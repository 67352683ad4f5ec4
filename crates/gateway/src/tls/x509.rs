//! The fields of a certificate that the gateway shows to operators and finds tenants by: its dates
//! and its names.
//!
//! rustls verifies certificates and shows none of their fields. This reader finds a few of them in
//! DER and verifies nothing. It never panics, and a certificate that it cannot read has no fields.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use crate::der::{Elements, INTEGER, SEQUENCE};

/// The fields of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The first and the last second in which it is valid, since 1970.
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    /// The common name of its subject, if there is exactly one.
    pub(crate) common_name: Option<String>,
    /// The alternative names of its subject: DNS names, IP addresses, URIs and mail addresses.
    pub(crate) names: Vec<String>,
}

/// The longest name that is read, and the most names.
const NAME_MAX: usize = 256;
const NAMES_MAX: usize = 1024;

const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const MAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
const IP: u8 = 0x87;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

// === impl Certificate ===

impl Certificate {
    /// Reads a certificate in DER.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let mut fields = Elements(Elements(Elements(der).of(SEQUENCE)?).of(SEQUENCE)?);
        if fields.0.first() == Some(&VERSION) {
            fields.next()?;
        }
        fields.of(INTEGER)?;
        fields.of(SEQUENCE)?;
        let _issuer = fields.of(SEQUENCE)?;
        let mut validity = Elements(fields.of(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let common_name = common_name(fields.of(SEQUENCE)?);
        let _public_key = fields.of(SEQUENCE)?;
        let extensions = std::iter::from_fn(|| fields.next()).find(|(tag, _)| *tag == EXTENSIONS);
        let names = extensions.and_then(|(_, inside)| alternative_names(inside));
        Some(Self { not_before, not_after, common_name, names: names.unwrap_or_default() })
    }

    /// Its names for servers, in lower case. Browsers and rustls do not look at the common name.
    pub(crate) fn dns_names(&self) -> Vec<String> {
        self.names.iter().map(|name| name.to_ascii_lowercase()).collect()
    }

    /// When it expires, for people.
    pub(crate) fn last_day(&self) -> String {
        let seconds = Duration::from_secs(self.not_after.max(0).unsigned_abs());
        httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + seconds)
    }
}

/// The one common name of a subject, or an empty one if it cannot be read. Two would leave open
/// which of them counts.
fn common_name(subject: &[u8]) -> Option<String> {
    let mut found = None;
    let mut sets = Elements(subject);
    while let Some((SET, set)) = sets.next() {
        let mut attributes = Elements(set);
        while let Some((SEQUENCE, attribute)) = attributes.next() {
            let mut attribute = Elements(attribute);
            if attribute.of(OID)? != COMMON_NAME {
                continue;
            }
            let (tag, value) = attribute.next()?;
            let is_text = matches!(tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING);
            let usable = found.is_none() && is_text;
            found = Some(usable.then(|| text(value)).flatten().unwrap_or_default());
        }
    }
    found
}

fn alternative_names(extensions: &[u8]) -> Option<Vec<String>> {
    let mut extensions = Elements(Elements(extensions).of(SEQUENCE)?);
    while let Some((SEQUENCE, extension)) = extensions.next() {
        let mut extension = Elements(extension);
        if extension.of(OID)? != ALTERNATIVE_NAMES {
            continue;
        }
        if extension.0.first() == Some(&BOOLEAN) {
            extension.next()?;
        }
        let mut names = Elements(Elements(extension.of(OCTET_STRING)?).of(SEQUENCE)?);
        let names = std::iter::from_fn(|| names.next()).take(NAMES_MAX);
        return Some(names.filter_map(|(tag, value)| alternative_name(tag, value)).collect());
    }
    None
}

fn alternative_name(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        DNS | URI | MAIL => text(value),
        IP => {
            let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// A name for logs and settings: short, and without characters that a log must not contain.
fn text(value: &[u8]) -> Option<String> {
    let text = str::from_utf8(value).ok()?;
    let fits = (1..=NAME_MAX).contains(&text.len()) && !text.contains(char::is_control);
    fits.then(|| text.to_owned())
}

/// The seconds since 1970 of a time such as `20301231235959Z`. RFC 5280 allows no other form.
fn time((tag, value): (u8, &[u8])) -> Option<i64> {
    let text = str::from_utf8(value).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year: i64 = text[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let seconds = part(4)? * 3600 + part(6)? * 60 + part(8)?;
    Some(days(year, part(0)?, part(2)?) * 86_400 + seconds)
}

/// The days from 1970 to a date. The year begins in March here, so that a leap day is its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests;
