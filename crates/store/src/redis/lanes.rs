//! [`Store::lanes`](crate::Store::lanes): the tenants of the first pending messages.

use super::RedisStore;
use super::pending::{WINDOW, peek};
use crate::Lane;
use crate::error::StoreError;
use crate::moment::Moment;

pub(super) async fn lanes(
    store: &RedisStore,
    queue: &str,
    now: Moment,
) -> Result<Vec<Lane>, StoreError> {
    let mut lanes: Vec<Lane> = Vec::new();
    for member in peek(store, &store.layout.queue(queue), 0..WINDOW, now).await? {
        let message = member.decoded.message;
        match lanes.iter_mut().find(|lane| lane.tenant == message.tenant) {
            Some(lane) => lane.waiting += 1,
            None => {
                let (tenant, deadline) = (message.tenant, message.deadline);
                lanes.push(Lane { tenant, waiting: 1, deadline });
            }
        }
    }
    Ok(lanes)
}
