//! OTLP over gRPC: one call for each batch of traces.

use bytes::Bytes;

use super::{ExportError, RESPONSE_MAX, TIMEOUT};
use crate::upstream::grpc_client::{GrpcCall, GrpcClient, GrpcError, GrpcStatus};

const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// The codes after which the protocol asks clients to try again: cancelled, deadline exceeded,
/// aborted, out of range, unavailable, data loss.
const TRANSIENT: [u32; 6] = [1, 4, 10, 11, 14, 15];
/// Resource exhausted. A receiver that recovers says when, in the details of the status.
const EXHAUSTED: u32 = 8;
const RETRY_INFO: &[u8] = b"google.rpc.RetryInfo";

/// Sends one message.
pub(super) async fn send(client: &GrpcClient, message: Bytes) -> Result<(), ExportError> {
    let call = GrpcCall {
        method: METHOD,
        message,
        authorization: None,
        limit: TIMEOUT,
        most: RESPONSE_MAX,
    };
    match client.call(call).await {
        Ok(_) => Ok(()),
        Err(GrpcError::Failed(status)) => Err(failed(&status)),
        Err(GrpcError::Http(status)) => Err(ExportError::by_status(status)),
        Err(error @ GrpcError::Client(_)) => Err(ExportError::transient(error)),
        Err(error @ (GrpcError::NoStatus | GrpcError::Garbled)) => Err(ExportError::lasting(error)),
    }
}

fn failed(status: &GrpcStatus) -> ExportError {
    let recovers = || has_retry_info(&status.details);
    let transient = TRANSIENT.contains(&status.code) || (status.code == EXHAUSTED && recovers());
    ExportError { text: status.to_string(), transient }
}

/// Whether the details of a status, in base64, say when to try again.
fn has_retry_info(details: &str) -> bool {
    let mut bits = 0_u32;
    let mut bytes = Vec::with_capacity(details.len() / 4 * 3 + 3);
    for (at, letter) in details.bytes().filter(|letter| *letter != b'=').enumerate() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(value);
        // Each letter but the first of four completes a byte.
        let unused = [None, Some(4), Some(2), Some(0)][at % 4];
        bytes.extend(unused.map(|unused: u32| (bits >> unused) as u8));
    }
    bytes.windows(RETRY_INFO.len()).any(|window| window == RETRY_INFO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m02_only_the_codes_that_the_protocol_names_are_sent_again() {
        let is_transient = |code: u32, details: Option<&str>| {
            let details = details.unwrap_or_default().to_owned();
            failed(&GrpcStatus { code, text: String::new(), details }).transient
        };
        let again = (1..=16).filter(|code| is_transient(*code, None));
        assert_eq!(again.collect::<Vec<_>>(), [1, 4, 10, 11, 14, 15]);
        // A google.rpc.Status with a RetryInfo of one second, and one with another detail.
        let waits = "CAgaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAQ";
        let other = "CAgaLQopdHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLkJhZFJlcXVlc3QSAA==";
        assert!(is_transient(8, Some(waits)));
        assert!(!is_transient(8, Some(other)) && !is_transient(8, Some("!")));
        assert!(!is_transient(3, Some(waits)), "its code says that it is never taken");
    }
}
