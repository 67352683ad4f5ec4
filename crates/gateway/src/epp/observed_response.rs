//! The response as Envoy shows it, and how it settles its request.

use std::sync::Arc;

use bytes::Bytes;
use envoy::ext_proc::{HttpBody, HttpHeaders};
use flow::{ModelId, Span};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::request::{self, ResponseBodies};
use crate::backend::{Attempt, BegunRequest, Endpoint, FailedRequest};
use crate::proxy::{
    ModelNameRestorer, NO_RESPONSE, StreamFormat, TokenCounter, add_room, is_encoded, verdict,
};
use crate::reply::{Fault, headers};
use crate::request::{Admitted, Request, ResponseTimeout, Told};
use crate::state::State;

/// Envoy adds this header to every response that is not its own.
const FROM_UPSTREAM: &str = "x-envoy-upstream-service-time";

/// A response on its way back through Envoy.
pub(super) struct ObservedResponse {
    /// Taken when the request has been settled.
    request: Option<Box<Request>>,
    counter: TokenCounter,
    endpoint: Arc<Endpoint>,
    /// The headers that are added to it.
    pub(super) added: HeaderMap,
    /// Puts the client's model name back.
    restorer: Option<Box<ModelNameRestorer>>,
    /// Where the body is not shown, the end of the stream is the end of the response.
    bodies: ResponseBodies,
    began: bool,
    /// The fault, where Envoy responded in the place of a backend.
    fault: Option<Fault>,
}

/// The parts of a response's head that matter here.
struct ResponseHead {
    status: StatusCode,
    content_type: Option<HeaderValue>,
    retry_after: Option<HeaderValue>,
    is_encoded: bool,
    from_upstream: bool,
}

/// The request as one that a backend has failed. Where Envoy sends it again, it is a new one here.
fn failed(request: &Request) -> FailedRequest {
    let (model, caller) = (request.begun().model, request.caller_hash());
    FailedRequest { model, caller, repeated: false, failed_elsewhere: false }
}

// === impl ObservedResponse ===

impl ObservedResponse {
    /// The response to a request that Envoy is about to send.
    pub(super) fn awaited(
        request: Box<Request>,
        admitted: Admitted,
        bodies: ResponseBodies,
    ) -> Self {
        let Admitted { grant, endpoint } = admitted;
        let mut added = HeaderMap::new();
        let description = headers::RouteDescription {
            backend: &endpoint.name_header,
            choice: grant.choice.as_ref(),
            waited: request.record.waited.unwrap_or(Span::ZERO),
            request_id: &request.intent.request_id,
        };
        headers::describe(&mut added, &description);
        Self {
            request: Some(request),
            counter: TokenCounter::new(StreamFormat::Whole),
            endpoint,
            added,
            restorer: None,
            bodies,
            began: false,
            fault: None,
        }
    }

    pub(super) fn begins(&mut self, state: &State, head: &HttpHeaders, served: Option<&str>) {
        self.began = true;
        self.follow_to(state, served);
        let head_of = ResponseHead::of(head);
        let format = StreamFormat::of(head_of.content_type.as_ref());
        self.counter = TokenCounter::new(format.encoded(head_of.is_encoded));
        let attempt = head_of.attempt();
        if head_of.is_envoys() {
            let text = format!("Envoy did not reach {}", self.endpoint.name);
            self.fault = Some(Fault::BackendError(text));
        }
        match attempt {
            Attempt::Answered => {
                let unknown = || BegunRequest { model: ModelId(0), sent: state.clock.now() };
                let begun = self.request.as_ref().map_or_else(unknown, |request| request.begun());
                state.fleet.answered(&self.endpoint, begun);
                state.fleet.note_status(&self.endpoint, head_of.status);
            }
            Attempt::Failed => self.failed(state, &head_of.cause()),
            _ => state.fleet.report(&self.endpoint, attempt, &head_of.cause()),
        }
        if let Some(request) = &mut self.request {
            request.record.attempted(attempt);
            if !head_of.status.is_success() {
                request.attempt_failed(attempt, !head_of.is_envoys());
            }
            add_room(&mut self.added, request);
            let first_byte = request.record.response_began(head_of.status);
            let begun = request.begun();
            self.endpoint.note(begun, first_byte, request.intent.streamed);
            if attempt == Attempt::Answered {
                let at = begun.sent.after(first_byte);
                self.endpoint.note_caller(request.caller_hash(), at);
            }
            if self.bodies != ResponseBodies::Hidden && !head.end_of_stream {
                self.restorer = head_of.restorer(request);
            }
        }
        if head.end_of_stream {
            self.complete();
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.began
    }

    /// Whether the response goes on without being shown.
    pub(super) fn is_unseen(&self) -> bool {
        self.bodies != ResponseBodies::Shown && self.request.is_some()
    }

    /// Ends a response that did not come in time. Returns the fault and the request id for the
    /// client, unless it had ended already.
    pub(super) fn give_up(
        &mut self,
        state: &State,
        timeout: ResponseTimeout,
    ) -> Option<(Fault, HeaderValue)> {
        let mut request = self.request.take()?;
        if !self.began && timeout != ResponseTimeout::Client {
            let failed = failed(&request);
            state.fleet.failed(&self.endpoint, &failed, NO_RESPONSE);
            request.record.attempted(Attempt::Failed);
        }
        let fault = timeout.fault();
        request.finish(self.counter.usage(), Some(&fault));
        Some((fault, headers::request_id(&self.added)))
    }

    /// The proxy has ended the stream in order and shown no response. Its client may be there
    /// still: Envoy resets the stream when a client leaves.
    pub(super) fn end_unseen(&mut self) {
        if let Some(request) = self.request.take() {
            request.end_unseen();
        }
    }

    /// Reports that the backend has failed the request.
    fn failed(&self, state: &State, cause: &str) {
        if let Some(request) = &self.request {
            state.fleet.failed(&self.endpoint, &failed(request), cause);
        }
    }

    /// Envoy may have used a fallback, because the chosen backend failed.
    fn follow_to(&mut self, state: &State, served: Option<&str>) {
        let Some(socket) = served.and_then(|served| served.parse().ok()) else { return };
        if self.endpoint.socket == Some(socket) {
            return;
        }
        let Some(other) = state.fleet.roster().at(socket).cloned() else { return };
        self.failed(state, "Envoy used another backend");
        headers::served_elsewhere(&mut self.added, &other.name_header);
        if let Some(request) = &mut self.request {
            request.record.attempted(Attempt::Failed);
            request.moved(other.id);
            request.record.attempts += 1;
            request.record.granted(&other);
        }
        self.endpoint = other;
    }

    /// Whether the body is sent on with another length.
    pub(super) fn changes_body(&self) -> bool {
        self.restorer.is_some()
    }

    /// Reads a piece of the body; returns the piece that goes to the client.
    pub(super) fn passes(&mut self, piece: HttpBody) -> Bytes {
        self.bodies = ResponseBodies::Shown;
        let HttpBody { body, end_of_stream, .. } = piece;
        let has_tokens = self.counter.read(&body);
        let body = match &mut self.restorer {
            Some(restorer) => restorer.restore(body, end_of_stream),
            None => body,
        };
        if let Some(request) = &mut self.request {
            request.record.bytes_out += body.len() as u64;
            if has_tokens {
                request.progressed(self.counter.tokens());
            }
        }
        if end_of_stream {
            self.complete();
        }
        body
    }

    /// The last byte has come. Returns the bytes that were held back.
    pub(super) fn complete(&mut self) -> Bytes {
        if let Some(request) = self.request.take() {
            let mut tokens = self.counter.usage();
            // Nobody knows what is not shown.
            if self.bodies != ResponseBodies::Shown {
                tokens.told = Told::Answer;
            }
            request.finish(tokens, self.fault.as_ref());
        }
        self.restorer.take().map(|mut restorer| restorer.finish()).unwrap_or_default()
    }
}

impl Drop for ObservedResponse {
    fn drop(&mut self) {
        // A response whose bytes are not shown ends with the ext_proc stream. Envoy may reset it
        // then, so that no message tells of the end.
        if self.began && self.bodies != ResponseBodies::Shown {
            self.complete();
        }
        if let Some(request) = self.request.take() {
            request.abandon(self.counter.usage());
        }
    }
}

// === impl ResponseHead ===

impl ResponseHead {
    fn of(head: &HttpHeaders) -> Self {
        let mut found = Self {
            status: StatusCode::OK,
            content_type: None,
            retry_after: None,
            is_encoded: false,
            from_upstream: false,
        };
        for (name, value) in request::pairs(head.headers.as_ref()) {
            match name {
                ":status" => {
                    found.status = StatusCode::from_bytes(value).unwrap_or(StatusCode::BAD_GATEWAY);
                }
                FROM_UPSTREAM => found.from_upstream = true,
                _ if name == CONTENT_TYPE => {
                    found.content_type = HeaderValue::from_bytes(value).ok();
                }
                _ if name == CONTENT_ENCODING => found.is_encoded = is_encoded(value),
                _ if name == RETRY_AFTER => found.retry_after = HeaderValue::from_bytes(value).ok(),
                _ => {}
            }
        }
        found
    }

    /// The outcome at the backend. A response of Envoy's own, in the place of a backend that it
    /// could not reach, is a failure of the backend.
    fn attempt(&self) -> Attempt {
        if self.is_envoys() {
            return Attempt::Failed;
        }
        verdict(self.status, || self.retry_after.as_ref())
    }

    fn restorer(&self, request: &Request) -> Option<Box<ModelNameRestorer>> {
        ModelNameRestorer::of(request, self.content_type.as_ref(), self.is_encoded)
    }

    /// The cause of a failure, for the operator.
    fn cause(&self) -> String {
        if self.is_envoys() {
            return "Envoy did not reach it".into();
        }
        format!("it answered {}", self.status)
    }

    /// Whether the response is Envoy's own.
    fn is_envoys(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE && !self.from_upstream
    }
}
