//! What the disk and the ledger say when they fail, as clients hear it.

use std::io;

use store::{ErrorKind, StoreError};

use crate::reply::Fault;

/// The disk did not take or give something.
pub(super) fn disk(error: &io::Error) -> Fault {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    tracing::warn!(%error, "a file of the Batch API was not written or read");
    match error.kind() {
        StorageFull | QuotaExceeded => full("disk"),
        _ => Fault::Internal,
    }
}

/// The ledger did not.
pub(super) fn ledger(error: &StoreError) -> Fault {
    tracing::warn!(%error, "the ledger of the Batch API failed");
    match error.kind {
        ErrorKind::Full => full("ledger's disk"),
        _ => Fault::Internal,
    }
}

fn full(what: &str) -> Fault {
    Fault::StorageFull(format!("The gateway's {what} is full: make room, then try again."))
}
