//! One key as it is stored: a line of a key file, or an entry of `auth.keys`.
//!
//! ```text
//! sha256:DIGEST TENANT NAME [EXPIRY]
//! ```
//!
//! The tenant of an admin key is `admin:read` or `admin:change`.

use std::fmt;
use std::str::FromStr;

use super::KeyDigest;
use crate::calendar::{self, DAY_SECS};

const ALGORITHM: &str = "sha256:";
const ADMIN: &str = "admin:";
const NAME_MAX: usize = 64;

/// A stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLine {
    /// The digest of the key.
    pub digest: KeyDigest,
    /// Whose key it is.
    pub holder: KeyHolder,
    /// The name by which people know the key.
    pub name: String,
    /// When it ends, in seconds since 1970.
    pub expires: Option<u64>,
}

/// Whose key it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyHolder {
    /// A tenant, by its name.
    Tenant(String),
    /// An operator.
    Admin(AdminRight),
}

/// What an admin key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminRight {
    /// To read the status pages.
    Read,
    /// To read them, and to change what they show.
    Change,
}

/// Why a text is no stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLineError {
    /// The number of the line, from 1.
    pub line: usize,
    problem: KeyLineProblem,
}

/// What is wrong in a line. The text may be a key itself, so only names and times are repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyLineProblem {
    /// It has too few or too many words.
    Form,
    /// It has no digest.
    Digest,
    /// It names this right, which does not exist.
    Right(String),
    /// No tenant can have this name.
    Tenant(String),
    /// No key can have this name.
    Name(String),
    /// It ends at this time, which is none.
    Expiry(String),
}

/// The keys of a file. Empty lines and lines that begin with `#` say nothing.
pub fn read_lines(text: &str) -> Result<Vec<KeyLine>, KeyLineError> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed: Result<KeyLine, KeyLineError> = line.parse();
        lines.push(parsed.map_err(|error| KeyLineError { line: number + 1, ..error })?);
    }
    Ok(lines)
}

/// Reads a day (`2027-01-31`, which ends with it) or a time in UTC (`2027-01-31T12:00:00Z`), in
/// seconds since 1970.
pub fn expiry(text: &str) -> Option<u64> {
    calendar::parse(text).map(|(secs, is_day)| if is_day { secs + DAY_SECS } else { secs })
}

/// Whether a text can name a key or a tenant in a line.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(plain)
}

// === impl KeyLine ===

impl FromStr for KeyLine {
    type Err = KeyLineError;

    fn from_str(text: &str) -> Result<Self, KeyLineError> {
        let wrong = |problem: KeyLineProblem| KeyLineError { line: 1, problem };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (digest, holder, name, expires) = match words[..] {
            [digest, holder, name] => (digest, holder, name, None),
            [digest, holder, name, expires] => (digest, holder, name, Some(expires)),
            _ => return Err(wrong(KeyLineProblem::Form)),
        };
        let digest = digest.strip_prefix(ALGORITHM).and_then(KeyDigest::parse);
        let digest = digest.ok_or_else(|| wrong(KeyLineProblem::Digest))?;
        let expires = expires
            .map(|text| expiry(text).ok_or_else(|| wrong(KeyLineProblem::Expiry(text.to_owned()))));
        let holder: KeyHolder = holder.parse().map_err(wrong)?;
        if !is_name(name) {
            return Err(wrong(KeyLineProblem::Name(name.to_owned())));
        }
        Ok(Self { digest, holder, name: name.to_owned(), expires: expires.transpose()? })
    }
}

impl fmt::Display for KeyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{} {} {}", self.digest, self.holder, self.name)?;
        let Some(expires) = self.expires else { return Ok(()) };
        write!(f, " {}", calendar::rfc3339(expires))
    }
}

// === impl KeyHolder ===

impl FromStr for KeyHolder {
    type Err = KeyLineProblem;

    fn from_str(text: &str) -> Result<Self, KeyLineProblem> {
        match text.strip_prefix(ADMIN) {
            Some("read") => Ok(Self::Admin(AdminRight::Read)),
            Some("change") => Ok(Self::Admin(AdminRight::Change)),
            Some(right) => Err(KeyLineProblem::Right(right.to_owned())),
            None if is_name(text) => Ok(Self::Tenant(text.to_owned())),
            None => Err(KeyLineProblem::Tenant(text.to_owned())),
        }
    }
}

impl fmt::Display for KeyHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(name) => f.write_str(name),
            Self::Admin(AdminRight::Read) => write!(f, "{ADMIN}read"),
            Self::Admin(AdminRight::Change) => write!(f, "{ADMIN}change"),
        }
    }
}

// === impl KeyLineError ===

impl fmt::Display for KeyLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for KeyLineError {}

// === impl KeyLineProblem ===

impl fmt::Display for KeyLineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = "1 to 64 letters, digits, '-', '_' and '.' are allowed";
        match self {
            Self::Form => f.write_str("is not 'sha256:DIGEST TENANT NAME [EXPIRY]'"),
            Self::Digest => f.write_str("does not begin with sha256: and 64 hexadecimal digits"),
            Self::Right(right) => {
                write!(f, "has the right {right:?}; read and change are allowed")
            }
            Self::Tenant(name) => write!(f, "has the tenant {name:?}; {names}"),
            Self::Name(name) => write!(f, "has the name {name:?}; {names}"),
            Self::Expiry(text) => {
                let forms = "2027-01-31 and 2027-01-31T12:00:00Z are allowed";
                write!(f, "has the expiry {text:?}; {forms}")
            }
        }
    }
}

impl std::error::Error for KeyLineProblem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_a_line_is_read_as_it_is_written() {
        let digest = KeyDigest::of("abc");
        for (holder, expires, end) in [
            (KeyHolder::Tenant("team-a".into()), None, "team-a laptop"),
            (
                KeyHolder::Admin(AdminRight::Change),
                Some(1_800_000_000),
                "admin:change laptop 2027-01-15T08:00:00Z",
            ),
        ] {
            let line = KeyLine { digest, holder, name: "laptop".into(), expires };
            assert!(line.to_string().ends_with(end), "{line}");
            assert_eq!(line.to_string().parse(), Ok(line));
        }
    }

    #[test]
    fn x05_a_wrong_line_is_named_by_its_number_and_never_repeated() {
        let good = format!("sha256:{} team-a laptop", KeyDigest::of("abc"));
        let text = format!("# keys\n\n{good}\n{good} 2027-01-31\n");
        assert_eq!(read_lines(&text).unwrap().len(), 2);
        let secret = "tg-0123456789";
        for wrong in [
            secret.to_owned(),
            format!("{secret} team-a laptop"),
            good.replace("team-a", "admin:all"),
            good.replace("team-a", "team/a"),
            good.replace("laptop", "l*"),
            format!("{good} tomorrow"),
            format!("{good} 2027-01-31 more"),
        ] {
            let error = read_lines(&format!("{good}\n{wrong}")).unwrap_err();
            assert_eq!(error.line, 2, "{wrong}");
            assert!(!error.to_string().contains(secret), "{error}");
        }
    }

    #[test]
    fn x05_an_expiry_is_the_end_of_a_day_or_a_time() {
        assert_eq!(expiry("1970-01-01"), Some(DAY_SECS));
        assert_eq!(expiry("1970-01-02T01:01:01Z"), Some(DAY_SECS + 3661));
        for wrong in ["", "2027", "2027-13-01", "2027-01-01T00:00:00", "2027-01-01T24:00:00Z"] {
            assert_eq!(expiry(wrong), None, "{wrong}");
        }
        assert_eq!(expiry("+2027-01-01"), None);
    }
}
