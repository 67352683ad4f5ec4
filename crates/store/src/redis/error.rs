//! Errors of Redis: how to recover from them, and what the caller sees.

use redis::{ErrorKind as RedisErrorKind, RedisError, ServerErrorKind};

use crate::error::{ErrorKind, StoreError};

/// How to recover from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Find the server that takes writes again, and retry.
    Reconnect,
    /// Load the scripts into the server, and retry.
    LoadScripts,
    /// A retry does not help.
    None,
}

/// The codes of a server that is starting, failing over, or no longer the primary.
const FAILOVER: &[&str] = &[
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

/// The codes of a server without room.
const FULL: &[&str] = &["OOM", "MISCONF"];

/// How to recover from an error.
pub(super) fn recovery(error: &RedisError) -> Recovery {
    match error.kind() {
        RedisErrorKind::Server(ServerErrorKind::NoScript) => Recovery::LoadScripts,
        _ if has_code(error, FAILOVER) => Recovery::Reconnect,
        RedisErrorKind::Io | RedisErrorKind::Parse | RedisErrorKind::ClusterConnectionNotFound => {
            Recovery::Reconnect
        }
        _ if error.is_timeout() || error.is_connection_dropped() => Recovery::Reconnect,
        _ => Recovery::None,
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        let (kind, hint) = explain(&error);
        Self::new(kind, format!("{hint}{error}")).caused_by(error)
    }
}

fn explain(error: &RedisError) -> (ErrorKind, &'static str) {
    match error.kind() {
        _ if recovery(error) != Recovery::None => (ErrorKind::Unavailable, ""),
        _ if has_code(error, FULL) => (ErrorKind::Full, "Redis is full: "),
        _ if has_code(error, &["WRONGTYPE"]) => {
            (ErrorKind::Broken, "a key of the queue has another type: ")
        }
        _ if has_code(error, &["CROSSSLOT"]) => (ErrorKind::Broken, "keys in several slots: "),
        RedisErrorKind::AuthenticationFailed => (ErrorKind::Broken, "user or password is wrong: "),
        _ if has_code(error, &["NOAUTH", "WRONGPASS", "NOPERM"]) => {
            (ErrorKind::Broken, "user or password is wrong, or the user may not do this: ")
        }
        RedisErrorKind::InvalidClientConfig => (ErrorKind::Invalid, ""),
        _ => (ErrorKind::Broken, ""),
    }
}

/// Whether an error has one of these codes. Servers before version 7 put the code of an error
/// inside a script into the text of another error.
fn has_code(error: &RedisError, codes: &[&str]) -> bool {
    let text = error.detail().unwrap_or_default();
    codes
        .iter()
        .any(|code| error.code() == Some(code) || text.split([' ', ':']).any(|part| part == *code))
}
