//! [`Store::renew`](crate::Store::renew): extends leases.

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::columns::{first, millis};
use crate::moment::Moment;
use crate::{ClaimRef, Standing};

pub(super) fn renew(
    tx: &Transaction<'_>,
    claims: &[ClaimRef],
    until: Moment,
) -> rusqlite::Result<Vec<Standing>> {
    let sql = "UPDATE messages SET due = ?3 WHERE seq = ?1 AND token = ?2 RETURNING cancelled";
    let mut sql = tx.prepare_cached(sql)?;
    let renew_one = |claim: &ClaimRef| {
        let values = params![claim.seq(), claim.token, millis(until)];
        let cancelled: Option<bool> = sql.query_row(values, first).optional()?;
        Ok(Standing::new(cancelled.is_some(), cancelled == Some(true)))
    };
    claims.iter().map(renew_one).collect()
}
