//! What a response means for its message, and how long the message waits before a retry.
//!
//! After an overload the message waits, and no failure is counted. After any other failure the
//! message is sent again, until it has failed too often. A gateway may have kept the request until
//! its time was over, because its backends failed it: that is no overload, and a failure of the
//! message if others are served. Every other response, good or bad, is the result. An error that
//! comes with a good status counts as one with status 502, or 400 if it blames the request.

use std::time::Duration;

use http::StatusCode;
use http::header::RETRY_AFTER;
use store::{Moment, Outcome};

use crate::reply::headers::FAILED_ATTEMPTS;
use crate::upstream::client::{ClientError, ClientResponse};
use crate::upstream::{InnerError, inner_error, is_full, retry_after};

/// What happens to a message after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The outcome is its result.
    Final(Outcome),
    /// Its deadline passed before the target answered.
    Unanswered,
    /// It failed. The outcome is its result if it has failed too often.
    Failed(Outcome, Option<Duration>),
    /// A gateway kept it until its time was over, because its backends failed it.
    KeptInVain(Outcome, Option<Duration>),
    /// The target was overloaded or not reachable, perhaps with a retry delay. The text says which.
    Congested(Option<Duration>, String),
}

/// The delays before a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backoff {
    pub(super) first: Duration,
    pub(super) longest: Duration,
}

/// Judges the end of an attempt.
pub(super) fn judge(ended: Result<ClientResponse, ClientError>, now: Moment) -> Verdict {
    match ended {
        Ok(answer) => judge_answer(answer, now),
        // Nothing was sent, because the target is not reachable.
        Err(error @ ClientError::Unreached { .. }) => Verdict::Congested(None, error.to_string()),
        // The response would be as long the next time.
        Err(error @ ClientError::TooLong) => {
            Verdict::Final(Outcome::failed(Outcome::FAILED, error.to_string()))
        }
        Err(error @ ClientError::Unwritable(_)) => {
            Verdict::Final(Outcome::failed(Outcome::INVALID, error.to_string()))
        }
        Err(error @ (ClientError::Lost(_) | ClientError::TimedOut(_))) => {
            Verdict::Failed(Outcome::failed(Outcome::FAILED, error.to_string()), None)
        }
    }
}

fn judge_answer(answer: ClientResponse, now: Moment) -> Verdict {
    let now = Duration::from_millis(now.millis());
    let later = answer.headers.get(RETRY_AFTER).and_then(|value| retry_after(value, now));
    let ClientResponse { status, headers, body } = answer;
    let status = told_status(status, &body);
    match status {
        status if headers.contains_key(FAILED_ATTEMPTS) => {
            Verdict::KeptInVain(Outcome::Answered { status: status.as_u16(), body }, later)
        }
        status if is_full(status) => Verdict::Congested(later, format!("it answered {status}")),
        status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            Verdict::Failed(Outcome::Answered { status: status.as_u16(), body }, later)
        }
        status => Verdict::Final(Outcome::Answered { status: status.as_u16(), body }),
    }
}

/// The status of a response, or of the error that a server reports with a good one.
fn told_status(status: StatusCode, body: &[u8]) -> StatusCode {
    if !status.is_success() {
        return status;
    }
    match inner_error(body) {
        Some(InnerError::Server) => StatusCode::BAD_GATEWAY,
        Some(InnerError::Request) => StatusCode::BAD_REQUEST,
        None => status,
    }
}

// === impl Backoff ===

impl Backoff {
    /// The time of the next try after `failures` failures. `chance` is from 0 to 1 and spreads
    /// messages that failed together. The delay that the server asked for is obeyed, up to half of
    /// the time that is left before the deadline, so that the message is not delayed until it
    /// expires.
    pub(super) fn due(
        self,
        (failures, asked): (u32, Option<Duration>),
        (now, deadline): (Moment, Moment),
        chance: f64,
    ) -> Moment {
        let doubled = self.first.saturating_mul(1 << failures.saturating_sub(1).min(20));
        let own = doubled.min(self.longest).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        let asked = asked.unwrap_or_default().mul_f64(1.0 + chance.clamp(0.0, 1.0) / 4.0);
        let left = deadline.since(now) / 2;
        now.after(own.max(asked).min(left))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue};

    use super::*;

    const BACKOFF: Backoff =
        Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(60) };
    const NOW: Moment = Moment::from_secs(1000);
    const FAR: Moment = Moment::from_secs(100_000);

    fn answered(status: u16, later: Option<&'static str>) -> Verdict {
        let mut headers = HeaderMap::new();
        if let Some(later) = later {
            headers.insert("retry-after", HeaderValue::from_static(later));
        }
        let status = StatusCode::from_u16(status).unwrap();
        judge(Ok(ClientResponse { status, headers, body: Bytes::from_static(b"{}") }), NOW)
    }

    #[test]
    fn d07_an_error_with_a_good_status_is_none() {
        let judged = |body: &'static str| {
            let (status, headers) = (StatusCode::OK, HeaderMap::new());
            judge(Ok(ClientResponse { status, headers, body: body.into() }), NOW)
        };
        let told = |status, body: &'static str| Outcome::Answered { status, body: body.into() };
        let failed = "{\"error\":{\"message\":\"CUDA\",\"code\":500}}";
        assert_eq!(judged(failed), Verdict::Failed(told(502, failed), None));
        let refused = "{\"error\":{\"message\":\"too long\",\"code\":400}}";
        assert_eq!(judged(refused), Verdict::Final(told(400, refused)));
        let good = "{\"choices\":[{\"text\":\"error\"}]}";
        assert_eq!(judged(good), Verdict::Final(told(200, good)));
    }

    fn outcome(status: u16) -> Outcome {
        Outcome::Answered { status, body: Bytes::from_static(b"{}") }
    }

    #[test]
    fn d05_an_overload_counts_as_no_failure() {
        let congested = |asked: Option<u64>, why: &str| {
            Verdict::Congested(asked.map(Duration::from_secs), why.to_owned())
        };
        assert_eq!(answered(429, None), congested(None, "it answered 429 Too Many Requests"));
        let later = congested(Some(7), "it answered 503 Service Unavailable");
        assert_eq!(answered(503, Some("7")), later);
        let full = congested(Some(7), "it answered 529 <unknown status code>");
        assert_eq!(answered(529, Some("7")), full, "as for other requests");
        let unreachable = judge(
            Err(ClientError::Unreached { place: "a:1".into(), source: "refused".into() }),
            NOW,
        );
        assert_eq!(
            unreachable,
            congested(None, "cannot connect to a:1: refused"),
            "no failure of the message"
        );
    }

    #[test]
    fn temporary_failures_are_retried_and_other_responses_are_final() {
        for status in [408, 500, 502, 504, 599] {
            assert_eq!(answered(status, None), Verdict::Failed(outcome(status), None));
        }
        for status in [200, 201, 301, 400, 401, 404, 413, 422] {
            assert_eq!(answered(status, None), Verdict::Final(outcome(status)));
        }
        let lost = judge(Err(ClientError::Lost("reset".into())), NOW);
        assert!(matches!(lost, Verdict::Failed(Outcome::Failed { .. }, None)), "{lost:?}");
        let odd =
            judge(Err(http::Error::from(http::Uri::try_from("a b").unwrap_err()).into()), NOW);
        assert!(matches!(odd, Verdict::Final(Outcome::Failed { .. })), "{odd:?}");
        let long = judge(Err(ClientError::TooLong), NOW);
        assert!(matches!(long, Verdict::Final(Outcome::Failed { .. })), "{long:?}");
    }

    #[test]
    fn n05_a_request_that_a_gateway_kept_in_vain_is_no_overload() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        headers.insert(FAILED_ATTEMPTS, HeaderValue::from_static("12"));
        let (status, body) = (StatusCode::SERVICE_UNAVAILABLE, Bytes::from_static(b"{}"));
        let kept = judge(Ok(ClientResponse { status, headers, body }), NOW);
        assert_eq!(kept, Verdict::KeptInVain(outcome(503), Some(Duration::from_secs(7))));
    }

    #[test]
    fn each_failure_doubles_the_wait_up_to_the_longest() {
        let wait = |failures| BACKOFF.due((failures, None), (NOW, FAR), 1.0).since(NOW).as_secs();
        assert_eq!([1, 2, 3, 5, 6, 100].map(wait), [2, 4, 8, 32, 60, 60]);
        let least = BACKOFF.due((3, None), (NOW, FAR), 0.0).since(NOW).as_secs();
        assert_eq!(least, 4, "half of it is chance");
    }

    #[test]
    fn the_retry_delay_of_the_server_is_obeyed_within_the_deadline() {
        let asked = Some(Duration::from_secs(100));
        let wait = |deadline| BACKOFF.due((1, asked), (NOW, deadline), 0.0).since(NOW).as_secs();
        assert_eq!(wait(FAR), 100);
        assert_eq!(wait(NOW.after(Duration::from_secs(60))), 30, "half of what is left");
        assert_eq!(wait(NOW), 0, "an expired message is not delayed");
    }
}
