//! Whether the last responses of a backend refused the requests, without a lock.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

use http::StatusCode;

/// How many responses count.
const KEPT: u32 = 32;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct LastAnswers {
    /// One bit for each response, the last one lowest, below a bit that marks their number.
    bits: AtomicU64,
    /// The status of the last refusal.
    status: AtomicU16,
}

/// How many of the last responses of a backend refused the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastRefusals {
    pub(crate) responses: u32,
    pub(crate) refused: u32,
    /// The status of the last one; 0 without any.
    pub(crate) status: u16,
}

/// Whether a backend refuses with this status what it should serve: it wants another key, does not
/// know the path or the model, or sends the client elsewhere. The other statuses are about one
/// request, or about the load.
fn is_refusal(status: u16) -> bool {
    match StatusCode::from_u16(status) {
        Ok(
            StatusCode::BAD_REQUEST
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::TOO_MANY_REQUESTS,
        ) => false,
        Ok(StatusCode::NOT_IMPLEMENTED) => true,
        Ok(status) => status.is_client_error() || status.is_redirection(),
        Err(_) => false,
    }
}

// === impl LastAnswers ===

impl LastAnswers {
    /// Adds a response. Of two concurrent ones the later counts as the last.
    pub(super) fn add(&self, status: u16) {
        let refused = is_refusal(status);
        if refused {
            self.status.store(status, Relaxed);
        }
        let next = |bits: u64| {
            let more = bits.max(1) << 1 | u64::from(refused);
            let is_full = more >> (KEPT + 1) > 0;
            Some(if is_full { more & ((1 << KEPT) - 1) | 1 << KEPT } else { more })
        };
        // The closure always returns a value.
        let _ = self.bits.fetch_update(Relaxed, Relaxed, next);
    }

    pub(super) fn refusals(&self) -> LastRefusals {
        let bits = self.bits.load(Relaxed).max(1);
        let (responses, refused) = (bits.ilog2(), bits.count_ones() - 1);
        LastRefusals { responses, refused, status: self.status.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(statuses: impl IntoIterator<Item = u16>) -> LastRefusals {
        let last = LastAnswers::default();
        statuses.into_iter().for_each(|status| last.add(status));
        last.refusals()
    }

    #[test]
    fn m03_the_last_responses_that_refuse_are_counted() {
        assert_eq!(after([]), LastRefusals::default());
        let some = after([200, 401, 200, 404]);
        assert_eq!(some, LastRefusals { responses: 4, refused: 2, status: 404 });
        let many = after([[401; 100].as_slice(), &[200; 10]].concat());
        assert_eq!(many, LastRefusals { responses: 32, refused: 22, status: 401 });
        assert_eq!(after([200; 500]), LastRefusals { responses: 32, refused: 0, status: 0 });
        let of_the_request = after([400, 408, 413, 422, 429, 500, 503]);
        assert_eq!((of_the_request.responses, of_the_request.refused), (7, 0));
        assert_eq!(after([401, 403, 404, 405, 410, 501]).refused, 6);
    }
}
