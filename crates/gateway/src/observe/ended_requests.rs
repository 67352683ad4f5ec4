//! The requests that ended last, so that an operator can look up how a request ended.
//!
//! A request hands its record over and gets the oldest one back, so that nothing is copied and,
//! once the ring is full, nothing is allocated.

use std::sync::{Mutex, MutexGuard, PoisonError};

use flow::Time;

use super::Record;

/// How many records are kept.
const KEPT: usize = 1024;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct EndedRequests {
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    records: Vec<(Time, Box<Record>)>,
    /// The place of the oldest record, once the ring is full.
    next: usize,
}

// === impl EndedRequests ===

impl EndedRequests {
    /// Keeps a record, and leaves the oldest one in its place.
    pub(super) fn keep(&self, record: &mut Box<Record>, now: Time) {
        let mut ring = self.ring();
        if ring.records.len() < KEPT {
            let kept = std::mem::replace(record, Box::new(Record::empty()));
            ring.records.push((now, kept));
            return;
        }
        let next = ring.next;
        ring.next = (next + 1) % KEPT;
        let (ended, kept) = &mut ring.records[next];
        *ended = now;
        std::mem::swap(kept, record);
    }

    /// The newest record with this request id, and when it ended.
    pub(super) fn find(&self, id: &[u8]) -> Option<(Time, Record)> {
        let ring = self.ring();
        let same = |(_, record): &&(Time, Box<Record>)| record.request_id.as_bytes() == id;
        let found = ring.records.iter().filter(same).max_by_key(|(ended, _)| *ended);
        found.map(|(ended, record)| (*ended, Record::clone(record)))
    }

    /// The newest records, the newest first.
    pub(super) fn last(&self, most: usize) -> Vec<(Time, Record)> {
        let ring = self.ring();
        let (newer, older) = (&ring.records[..ring.next], &ring.records[ring.next..]);
        let newest = newer.iter().rev().chain(older.iter().rev()).take(most);
        newest.map(|(ended, record)| (*ended, Record::clone(record))).collect()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn m03_the_last_ended_requests_are_kept_and_older_ones_are_not() {
        let ended = EndedRequests::default();
        for number in 0..KEPT + 10 {
            let mut record = Box::new(Record::empty());
            record.request_id = HeaderValue::from_str(&format!("r{number}")).unwrap();
            ended.keep(&mut record, Time::from_millis(number as u64));
            let left = if number < KEPT { "" } else { &format!("r{}", number - KEPT) };
            assert_eq!(record.request_id, left);
        }
        assert!(ended.find(b"r9").is_none());
        let last: Vec<_> = ended.last(12).into_iter().map(|(_, one)| one.request_id).collect();
        let newest: Vec<_> = (0..12).map(|back| format!("r{}", KEPT + 9 - back)).collect();
        assert_eq!(last, newest);
        assert_eq!(ended.find(b"r10").unwrap().0, Time::from_millis(10));
        assert!(ended.find(format!("r{}", KEPT + 9).as_bytes()).is_some());
    }
}
