//! [`Store::take_results`](crate::Store::take_results): removes and returns results.

use super::connection::Durability;
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use super::{RedisStore, keys};
use crate::error::StoreError;
use crate::llm_d_async::result_record;
use crate::message::StoredResult;
use crate::token;

/// The maximum number of results per script.
const SCRIPT_MAX: usize = 32;

/// Takes results in several scripts. When a later script fails, the results of the earlier ones are
/// still returned.
pub(super) async fn take_results(
    store: &RedisStore,
    route: &str,
    limit: usize,
) -> Result<Vec<StoredResult>, StoreError> {
    let mut results = Vec::new();
    while results.len() < limit {
        match take_some(store, route, SCRIPT_MAX.min(limit - results.len())).await {
            Ok(taken) if taken.is_empty() => break,
            Ok(taken) => results.extend(taken.iter().map(|text| result_record::decode(text))),
            Err(error) if results.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(results)
}

async fn take_some(
    store: &RedisStore,
    route: &str,
    limit: usize,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let (taken_key, consumer) = (keys::taken(route), token::owner());
    let command = Command::script(&SCRIPTS.take_results, &[route, &taken_key]);
    let command = command.arg(&consumer).arg(limit);
    let taken: Vec<Vec<u8>> = store.connection.query(command, Durability::Primary).await?;
    if !taken.is_empty() {
        // Without this acknowledgement another consumer gets the results again, which is better
        // than losing them.
        let acknowledge = vec![Command::new("HDEL", &taken_key).arg(&consumer)];
        _ = store.connection.run(acknowledge, Durability::Primary).await;
    }
    Ok(taken)
}
