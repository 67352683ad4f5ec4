//! Errors of the disk and of the ledger as faults for clients.

use std::io;

use store::{ErrorKind, StoreError};

use crate::reply::Fault;

/// The fault for an error of the disk.
pub(super) fn disk(error: &io::Error) -> Fault {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    tracing::warn!(%error, "a file of the Batch API could not be written or read");
    match error.kind() {
        StorageFull | QuotaExceeded => full("disk"),
        _ => Fault::Internal,
    }
}

/// The fault for an error of the ledger.
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
