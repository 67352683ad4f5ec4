//! [`Store::lanes`](crate::Store::lanes): the tenants that have pending messages.

use rusqlite::{Row, Transaction};

use super::columns;
use crate::Lane;

/// The tenants of a queue, the number of pending messages of each, and the earliest deadline.
pub(super) const LANES: &str = "SELECT tenant, pending, \
     (SELECT deadline FROM messages m WHERE m.queue = l.queue AND m.tenant = l.tenant \
      AND m.state = 'pending' ORDER BY deadline, seq LIMIT 1) \
     FROM lanes l WHERE queue = ?1 AND pending > 0";

pub(super) fn lanes(tx: &Transaction<'_>, queue: &str) -> rusqlite::Result<Vec<Lane>> {
    let read = |row: &Row<'_>| {
        let (waiting, deadline) = (columns::count(row, 1)?, columns::moment(row, 2)?);
        Ok(Lane { tenant: row.get(0)?, waiting, deadline })
    };
    tx.prepare_cached(LANES)?.query_map([queue], read)?.collect()
}
