//! Who dispatches beside us: a sorted set of names by when each was last known to be there.

use super::RedisStore;
use super::link::{Kept, next};
use super::step::Step;
use crate::Membership;
use crate::error::StoreError;
use crate::moment::Moment;

/// A group that nobody has been seen in for so long is forgotten, in seconds.
const FORGOTTEN_AFTER: u64 = 24 * 3600;

// === impl RedisStore ===

impl RedisStore {
    pub(super) async fn sign(
        &self,
        group: &str,
        name: &str,
        until: Moment,
        now: Moment,
    ) -> Result<Membership, StoreError> {
        let key = format!("{{tidegate}}:dispatchers:{group}");
        let steps = vec![
            Step::new("ZADD", &key).arg(until.millis()).arg(name),
            Step::new("ZREMRANGEBYSCORE", &key).arg("-inf").arg(now.millis()),
            Step::new("EXPIRE", &key).arg(FORGOTTEN_AFTER),
            Step::new("ZRANGE", &key).arg(0).arg(-1),
        ];
        let mut said = self.link.run(steps, Kept::Here).await?.skip(3);
        let mut names: Vec<String> = next(&mut said)?;
        // By name: when each was last there changes all the time.
        names.sort_unstable();
        let rank = names.iter().position(|present| present == name).unwrap_or(0);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Membership { rank: count(rank), size: count(names.len().max(1)) })
    }
}
