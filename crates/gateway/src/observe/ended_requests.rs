//! The requests that ended last, so that an operator can look up how a request ended.
//!
//! A request hands its record over and gets the oldest one back, so that nothing is copied and,
//! once the ring is full, nothing is allocated.

use std::collections::BTreeMap;
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

/// The flow and the model of most requests that failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestMistake {
    pub(crate) reason: &'static str,
    pub(crate) flow: String,
    pub(crate) model: String,
    /// Where the backend answered that there is nothing.
    pub(crate) path: String,
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

    /// The flow, the model and the path of most requests that ended with a 3xx or 4xx status since
    /// then, for each reason. The client's own disconnect is none.
    pub(super) fn mistakes(&self, since: Time) -> Vec<RequestMistake> {
        let ring = self.ring();
        let mut counts: BTreeMap<(&'static str, [&str; 3]), u32> = BTreeMap::new();
        for (_, record) in ring.records.iter().filter(|(ended, _)| *ended >= since) {
            if (300..499).contains(&record.status) {
                let texts = [record.flow.as_str(), record.models().0, record.path_not_found()];
                *counts.entry((record.reason_of_failure(), texts)).or_default() += 1;
            }
        }
        let mut most: BTreeMap<&'static str, (u32, [&str; 3])> = BTreeMap::new();
        for ((reason, texts), count) in counts {
            let known = most.entry(reason).or_default();
            *known = (*known).max((count, texts));
        }
        let entry = |(reason, (_, texts)): (&'static str, (u32, [&str; 3]))| {
            let [flow, model, path] = texts.map(str::to_owned);
            RequestMistake { reason, flow, model, path }
        };
        most.into_iter().map(entry).collect()
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
    fn m03_the_most_frequent_mistake_of_each_reason_is_known() {
        let ended = EndedRequests::default();
        let fail = |at, (status, outcome, flow, model): (u16, &'static str, &str, &str)| {
            let (flow, model) = (flow.to_owned(), Some(model.into()));
            let record = Record { status, outcome, flow, model, ..Record::empty() };
            ended.keep(&mut Box::new(record), Time::from_millis(at));
        };
        fail(1, (404, "model_not_found", "old", "m"));
        fail(2, (404, "model_not_found", "a", "llama-3"));
        fail(3, (404, "model_not_found", "b", "llama-3"));
        fail(4, (404, "model_not_found", "a", "llama-3"));
        fail(5, (422, "ok", "c", "m"));
        fail(6, (499, "client_closed", "d", "m"));
        fail(7, (200, "ok", "d", "m"));
        let mistake = |reason, flow: &str, model: &str| RequestMistake {
            reason,
            flow: flow.to_owned(),
            model: model.to_owned(),
            path: String::new(),
        };
        let wanted =
            [mistake("model_not_found", "a", "llama-3"), mistake("refused_by_backend", "c", "m")];
        assert_eq!(ended.mistakes(Time::from_millis(2)), wanted);
    }

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
