//! [`Store::reclaim`](crate::Store::reclaim): forgets claims whose lease has ended, makes due
//! messages pending, and renews the leases of messages that no claim holds.

use std::time::Duration;

use super::held::{Held, HeldMessage, State};
use super::{PubSubStore, Queue};
use crate::Reclaimed;
use crate::error::StoreError;
use crate::moment::Moment;

pub(super) async fn reclaim(
    store: &PubSubStore,
    queue: &str,
    now: Moment,
) -> Result<Reclaimed, StoreError> {
    store.saw(now);
    let Some(queue) = store.queue(queue) else { return Ok(Reclaimed::default()) };
    let (lost, due) = pass(&mut queue.held(), now);
    if due > 0 {
        store.changed.notify_waiters();
    }
    renew_unclaimed(store, queue, now).await?;
    queue.demand.notify_one();
    let held = queue.held();
    // Otherwise the queue would seem to be in order again. Lost claims are told before that.
    if let Some(trouble) = held.trouble.as_ref().filter(|_| lost == 0) {
        return Err(trouble.clone());
    }
    let next = next(&held, store.settings.lease);
    drop(held);
    Ok(Reclaimed { lost, due, next })
}

/// Applies the time; returns how many claims ended and how many messages are due.
fn pass(held: &mut Held, now: Moment) -> (u64, u64) {
    let ended = |(id, held): (&String, &HeldMessage)| {
        (held.lease_until <= now).then(|| (id.clone(), held.is_claimed()))
    };
    let ended: Vec<(String, bool)> = held.messages.iter().filter_map(ended).collect();
    let lost = ended.iter().filter(|(_, claimed)| *claimed).count() as u64;
    for (id, _) in ended {
        held.lose(&id);
    }
    let mut due = 0;
    for waiting in held.messages.values_mut() {
        if matches!(waiting.state, State::Waiting(until) if until <= now) {
            waiting.state = State::Pending;
            due += 1;
        }
    }
    (lost, due)
}

async fn renew_unclaimed(
    store: &PubSubStore,
    queue: &Queue,
    now: Moment,
) -> Result<(), StoreError> {
    let lease = store.settings.lease;
    let soon = |held: &HeldMessage| !held.is_claimed() && renewal(held.lease_until, lease) <= now;
    let ack_ids: Vec<String> = {
        let held = queue.held();
        let soon = held.messages.values().filter(|held| soon(held));
        soon.map(|held| held.ack_id.clone()).collect()
    };
    if ack_ids.is_empty() {
        return Ok(());
    }
    let gone = store.extend(queue, &ack_ids, lease).await?;
    let mut held = queue.held();
    for message in held.messages.values_mut().filter(|held| ack_ids.contains(&held.ack_id)) {
        message.lease_until = message.lease_until.max(now.after(lease));
    }
    let gone = held.messages.iter().filter(|(_, held)| gone.contains(&held.ack_id));
    for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
        held.lose(&id);
    }
    Ok(())
}

/// When a lease is renewed: after a third of it.
fn renewal(lease_until: Moment, lease: Duration) -> Moment {
    let rest = u64::try_from((lease * 2 / 3).as_millis()).unwrap_or(u64::MAX);
    Moment::from_millis(lease_until.millis().saturating_sub(rest))
}

/// When there is something to do again.
fn next(held: &Held, lease: Duration) -> Option<Moment> {
    let of_message = |held: &HeldMessage| match held.state {
        State::Claimed(_) | State::Ending(_) => held.lease_until,
        State::Pending => renewal(held.lease_until, lease),
        State::Waiting(due) => due.min(renewal(held.lease_until, lease)),
    };
    held.messages.values().map(of_message).min()
}
