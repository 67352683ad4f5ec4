//! [`Store::standing`](crate::Store::standing): whether claims are held and messages cancelled.

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::columns::first;
use crate::{ClaimRef, Standing};

pub(super) fn standing(
    tx: &Transaction<'_>,
    claims: &[ClaimRef],
) -> rusqlite::Result<Vec<Standing>> {
    let sql = "SELECT cancelled FROM messages WHERE seq = ?1 AND token = ?2";
    let mut sql = tx.prepare_cached(sql)?;
    let standing_of = |claim: &ClaimRef| {
        let values = params![claim.seq(), claim.token];
        let cancelled: Option<bool> = sql.query_row(values, first).optional()?;
        Ok(Standing::new(cancelled.is_some(), cancelled == Some(true)))
    };
    claims.iter().map(standing_of).collect()
}
