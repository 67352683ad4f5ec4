//! What an error of the server or of the way to it means for whoever asked.

use redis::{ErrorKind as RedisErrorKind, RedisError, ServerErrorKind};

use crate::error::{ErrorKind, StoreError};

/// What helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// To look again for the server that takes writes, and to ask once more.
    LookAgain,
    /// To teach the server the scripts, and to ask once more.
    Teach,
    /// Nothing that we can do.
    None,
}

/// Words with which a server says that it will be another one soon, or this one later.
const CHANGING: &[&str] = &[
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    "ASK",
    "BUSY",
    "NOREPLICAS",
    "UNBLOCKED",
];

/// Words with which a server says that it has no room.
const FULL: &[&str] = &["OOM", "MISCONF"];

/// What helps against an error.
pub(super) fn remedy(error: &RedisError) -> Remedy {
    match error.kind() {
        RedisErrorKind::Server(ServerErrorKind::NoScript) => Remedy::Teach,
        _ if says(error, CHANGING) => Remedy::LookAgain,
        RedisErrorKind::Io | RedisErrorKind::Parse | RedisErrorKind::ClusterConnectionNotFound => {
            Remedy::LookAgain
        }
        _ if error.is_timeout() || error.is_connection_dropped() => Remedy::LookAgain,
        _ => Remedy::None,
    }
}

/// An error as whoever asked hears it.
pub(super) fn explain(error: &RedisError) -> StoreError {
    let (kind, hint) = match error.kind() {
        _ if remedy(error) != Remedy::None => (ErrorKind::Unavailable, ""),
        _ if says(error, FULL) => (ErrorKind::Full, "Redis takes no more: "),
        _ if says(error, &["WRONGTYPE"]) => {
            (ErrorKind::Broken, "a key of the queue is in use for something else: ")
        }
        _ if says(error, &["CROSSSLOT"]) => (ErrorKind::Broken, "names in several slots: "),
        RedisErrorKind::AuthenticationFailed => (ErrorKind::Broken, "user or password is wrong: "),
        _ if says(error, &["NOAUTH", "WRONGPASS", "NOPERM"]) => {
            (ErrorKind::Broken, "user or password is wrong, or the user may not do this: ")
        }
        RedisErrorKind::InvalidClientConfig => (ErrorKind::Invalid, ""),
        _ => (ErrorKind::Broken, ""),
    };
    StoreError::new(kind, format!("{hint}{error}"))
}

/// Whether an error says one of these words. Servers before 7 put what went wrong in a script into
/// the text of another error.
fn says(error: &RedisError, words: &[&str]) -> bool {
    let text = error.detail().unwrap_or_default();
    words
        .iter()
        .any(|word| error.code() == Some(word) || text.split([' ', ':']).any(|part| part == *word))
}
