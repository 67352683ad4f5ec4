//! One ext_proc stream: one request of a client of Envoy, from its head to the end of its response.
//!
//! The stream reads the request's head and body to their end before it replies, so that the
//! request can wait here as long as it must. When Envoy ends the stream while the request waits,
//! the request is dropped and leaves the queue. A response settles the request once, however it
//! ends.

use std::collections::BTreeSet;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use envoy::ext_proc::processing_request::Request as Message;
use envoy::ext_proc::{ProcessingRequest, ProcessingResponse};
use flow::BackendId;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::observed_response::ObservedResponse;
use super::request::{self, ReadError, RequestHead, RequestRest, ResponseBodies};
use super::response;
use crate::backend::EndpointAddress;
use crate::body_memory::BodyHolder;
use crate::config::Config;
use crate::grpc::{Incoming, Outgoing, Status};
use crate::ingress::{self, Caller, ReadContext};
use crate::large_bodies;
use crate::lazy_timer::LazyTimer;
use crate::reply::{ErrorFormat, Fault, Refused, headers};
use crate::request::{Admitted, Request, RequestRecord, ResponseTimeout, arrive};
use crate::state::State;

struct ExtProcStream {
    state: Arc<State>,
    config: Arc<Config>,
    incoming: Incoming,
    outgoing: Outgoing,
    timer: LazyTimer,
    /// The form of its refusals, once its path is known.
    error_format: ErrorFormat,
}

/// Serves the stream of one request.
pub(super) async fn run(
    state: Arc<State>,
    incoming: Incoming,
    outgoing: Outgoing,
) -> Result<(), Status> {
    let config = state.config.load_full();
    let (timer, error_format) = (LazyTimer::default(), ErrorFormat::OpenAi);
    ExtProcStream { state, config, incoming, outgoing, timer, error_format }.run().await
}

// === impl ExtProcStream ===

impl ExtProcStream {
    async fn run(mut self) -> Result<(), Status> {
        let server = &self.config.server;
        let due = Instant::now() + server.header_timeout;
        let reading = RequestHead::read(&mut self.incoming, server.header_limit);
        let read = self.timer.within(due, reading).await;
        let mut head = match read.unwrap_or(Err(ReadError::Ended(Status::SILENT))) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(()),
            Err(ReadError::Ended(status)) => return Err(status),
            Err(ReadError::Fault(fault)) => {
                self.refuse(&fault.into(), &ingress::headers::request_id(&HeaderMap::new()));
                return Ok(());
            }
        };
        let nexus = self.config.conventions.nexus_errors;
        self.error_format = ErrorFormat::of(head.parts.uri.path(), nexus);
        let observer = Arc::clone(&self.state.observer);
        let mut record = RequestRecord::begin(&head.parts, self.state.clock, observer);
        let mut remove = ingress::headers::control_names(&head.parts.headers);
        if !self.config.tenants.is_empty() {
            remove.extend(ingress::credential_names(&head.parts.headers));
        }
        let caller = match arrive(&self.state, &self.config, &mut head.parts, &mut record) {
            Ok(caller) => caller,
            Err(refused) => {
                self.fail(record, refused, &head.parts.headers);
                return Ok(());
            }
        };
        let mut rest = match self.rest(&head, caller.as_ref()).await {
            Ok(rest) => rest,
            Err(ReadError::Ended(status)) => return Err(status),
            Err(ReadError::Fault(fault)) => {
                self.fail(record, fault, &head.parts.headers);
                return Ok(());
            }
        };
        let bodies = head.bodies;
        let received = rest.body.len();
        let read = self.request((head, caller), record, mem::take(&mut rest.body));
        let Some((mut request, body)) = read.await else { return Ok(()) };
        if request.intent.decoded {
            remove.push(ingress::headers::BODY_ENCODING.to_string());
        }
        let outcome = match rest.set_body(body, received, self.config.server.bodies_limit) {
            Ok(()) => self.admitted(&mut request).await?,
            Err(fault) => Err(fault.into()),
        };
        let admitted = match outcome {
            Ok(admitted) => admitted,
            Err(refused) => {
                let request_id = request.intent.request_id.clone();
                self.refuse(&request.refuse(refused), &request_id);
                return Ok(());
            }
        };
        let head = self.head(&request, &admitted, remove);
        let deadline = request.response_deadline(admitted.grant.at);
        let response = ObservedResponse::awaited(request, admitted, bodies);
        self.follow((head, rest), deadline, response).await
    }

    /// Reads the rest of the request within the limit for bodies.
    async fn rest(
        &mut self,
        head: &RequestHead,
        caller: Option<&Caller>,
    ) -> Result<RequestRest, ReadError> {
        // Without tenants all requests come from the address of Envoy, which names the client.
        let memory = &self.state.body_memory;
        let mut reservation = match (caller, ingress::address::forwarded_for(&head.parts.headers)) {
            (Some(caller), _) => memory.hold_for(BodyHolder::Tenant(&caller.tenant.name)),
            (None, Some(client)) => memory.hold_for(BodyHolder::Address(Some(client))),
            (None, None) => memory.hold(),
        };
        if memory.is_scarce(self.config.server.bodies_limit) {
            let headers = &head.parts.headers;
            reservation.set_band(ingress::band_before_body(headers, &self.config, caller));
        }
        if head.whole {
            return Ok(RequestRest::none(reservation));
        }
        let server = &self.config.server;
        let due = Instant::now() + server.body_timeout;
        let reading = RequestRest::read(&mut self.incoming, server, reservation);
        let read = self.timer.within(due, reading).await;
        read.unwrap_or(Err(ReadError::Fault(Fault::RequestTimeout)))
    }

    /// Reads the intent of the request. Refuses a request that cannot be read.
    async fn request(
        &self,
        (mut head, caller): (RequestHead, Option<Caller>),
        mut record: RequestRecord,
        body: Bytes,
    ) -> Option<(Box<Request>, Bytes)> {
        record.bytes_in = body.len() as u64;
        let draw = record.arrived.nanos();
        let read = if large_bodies::is_large(&head.parts.headers, body.len()) {
            let config = Arc::clone(&self.config);
            let read = move |parts: &Parts| {
                let context =
                    ReadContext { config: &config, caller: caller.as_ref(), address: None, draw };
                ingress::read_anything(context, parts, body)
            };
            Box::pin(self.state.large_bodies.read(&mut head.parts, read)).await
        } else {
            let context = ReadContext {
                config: &self.config,
                caller: caller.as_ref(),
                // Envoy is the peer, and a header with the address could be the client's own.
                address: None,
                draw,
            };
            ingress::read_anything(context, &head.parts, body)
        };
        let RequestHead { parts, subset, bodies, .. } = head;
        match read {
            Ok((mut intent, body)) => {
                // Tokens that are not seen cannot be counted.
                intent.streamed &= bodies != ResponseBodies::Hidden;
                record.describe(&intent);
                let (state, config) = (Arc::clone(&self.state), Arc::clone(&self.config));
                let mut request = Request::new(state, config, intent, record);
                request.subset = subset.or_else(|| self.conformance(&parts.headers));
                Some((request, body))
            }
            Err(fault) => {
                self.fail(record, fault, &parts.headers);
                None
            }
        }
    }

    /// Waits for a backend, for as long as Envoy keeps the stream.
    async fn admitted(
        &mut self,
        request: &mut Request,
    ) -> Result<Result<Admitted, Refused>, Status> {
        let admission = async {
            request.enqueue().await?;
            request.admitted().await
        };
        tokio::select! {
            biased;
            outcome = admission => Ok(outcome),
            status = ended(&mut self.incoming) => Err(status),
        }
    }

    /// Sends the request to Envoy and follows its response; neither may stand still for long.
    async fn follow(
        &mut self,
        request: (ProcessingResponse, RequestRest),
        (due, timeout): (Instant, ResponseTimeout),
        mut response: ObservedResponse,
    ) -> Result<(), Status> {
        let mut timer = mem::take(&mut self.timer);
        let begins = async {
            self.send(request).await;
            let mut more = true;
            while more && !response.has_begun() {
                more = self.next(&mut response).await?;
            }
            Ok(more)
        };
        let Some(mut more) = timer.within(due, begins).await.transpose()? else {
            self.cut(&mut response, timeout);
            return Ok(());
        };
        if !response.has_begun() {
            response.end_unseen();
        }
        let limit = self.config.fleet.stall_timeout;
        while more {
            let due = Instant::now() + limit;
            let next = self.next(&mut response);
            more = match timer.within(due, next).await.transpose()? {
                Some(more) => more,
                // A response whose body Envoy does not show cannot be seen to stand still.
                None if response.is_unseen() => true,
                None => {
                    self.cut(&mut response, ResponseTimeout::Stall(limit));
                    false
                }
            };
        }
        Ok(())
    }

    /// The mutation of the request's head.
    fn head(
        &self,
        request: &Request,
        admitted: &Admitted,
        remove: Vec<String>,
    ) -> ProcessingResponse {
        let mut added = HeaderMap::new();
        headers::identify(&mut added, &request.intent.request_id);
        if request.intent.mislabelled {
            added.insert(CONTENT_TYPE, ingress::headers::JSON);
        }
        let mut remove = remove;
        if let Some(credential) = &admitted.endpoint.credential {
            remove.retain(|name| *name != AUTHORIZATION.as_str());
            added.insert(AUTHORIZATION, credential.clone());
        }
        response::head(&self.endpoints(request, admitted), &added, remove)
    }

    /// Sends the request back to Envoy, exactly as it came.
    async fn send(&self, (head, rest): (ProcessingResponse, RequestRest)) {
        self.outgoing.send(&head);
        if rest.has_body {
            for piece in response::body(rest.body, rest.has_trailers) {
                self.outgoing.room().await;
                self.outgoing.send(&piece);
            }
        }
        if rest.has_trailers {
            self.outgoing.send(&response::request_trailers());
        }
    }

    /// The chosen endpoint, and as many fallbacks behind it as are configured.
    fn endpoints(&self, request: &Request, admitted: &Admitted) -> String {
        let chosen = admitted.endpoint.socket;
        let others = match self.config.epp.fallbacks {
            0 => Vec::new(),
            most => self.fallbacks(request, admitted.endpoint.id, most),
        };
        let all = chosen.into_iter().chain(others);
        all.map(|socket| socket.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Other endpoints that serve the model. Each backend has other ones behind it, so that the
    /// requests of a backend that fails do not all meet at the next.
    fn fallbacks(&self, request: &Request, chosen: BackendId, most: usize) -> Vec<SocketAddr> {
        let roster = self.state.fleet.roster();
        let serving = request.model.into_iter().flat_map(|model| roster.serving(model));
        let (before, behind): (Vec<BackendId>, Vec<_>) =
            serving.filter(|&id| id != chosen).partition(|&id| id < chosen);
        let others = behind.into_iter().chain(before).filter_map(|id| roster.endpoint(id)?.socket);
        others.take(most).collect()
    }

    /// Handles Envoy's next message about the response. Returns whether there may be more.
    async fn next(&mut self, observed: &mut ObservedResponse) -> Result<bool, Status> {
        let next = self.incoming.next::<ProcessingRequest>().await?;
        let Some(message) = next else { return Ok(false) };
        if let Some(Message::ResponseHeaders(head)) = &message.request {
            let served = request::served(&message);
            observed.begins(&self.state, head, served);
            self.echo(served, &mut observed.added);
            let body_changes = observed.changes_body();
            self.outgoing.send(&response::response_head(&observed.added, body_changes));
        }
        match message.request {
            Some(Message::ResponseBody(piece)) => {
                let end = piece.end_of_stream;
                let body = observed.passes(piece);
                self.outgoing.room().await;
                self.outgoing.send(&response::response_piece(body, end));
            }
            Some(Message::ResponseTrailers(_)) => {
                let rest = observed.complete();
                if !rest.is_empty() {
                    self.outgoing.send(&response::response_piece(rest, false));
                }
                self.outgoing.send(&response::response_trailers());
            }
            // The rest of the request was read before, or does not matter any more.
            _ => {}
        }
        Ok(true)
    }

    /// Ends a response that did not come in time: Envoy closes its request to the backend.
    fn cut(&self, response: &mut ObservedResponse, timeout: ResponseTimeout) {
        if let Some((fault, request_id)) = response.give_up(&self.state, timeout) {
            self.refuse(&fault.into(), &request_id);
        }
    }

    /// The endpoint that the conformance suite asks for, where the configuration allows it.
    fn conformance(&self, headers: &HeaderMap) -> Option<BTreeSet<EndpointAddress>> {
        let wanted =
            ingress::headers::selection(headers).filter(|_| self.config.epp.conformance)?;
        Some(wanted.split(',').filter_map(EndpointAddress::parse).collect())
    }

    /// Tells the conformance suite which endpoint served a request.
    fn echo(&self, served: Option<&str>, added: &mut HeaderMap) {
        if let Some(served) = served.filter(|_| self.config.epp.conformance) {
            headers::served_by(added, served);
        }
    }

    fn fail(&self, mut record: RequestRecord, refused: impl Into<Refused>, headers: &HeaderMap) {
        let refused = refused.into();
        let request_id = ingress::headers::request_id(headers);
        record.identify(&request_id);
        record.fail(&refused.fault);
        self.refuse(&refused, &request_id);
    }

    fn refuse(&self, refused: &Refused, request_id: &HeaderValue) {
        self.outgoing.send(&response::refusal(refused, self.error_format, request_id));
    }
}

/// Resolves when Envoy ends the stream. Its other messages about the request were read before.
async fn ended(incoming: &mut Incoming) -> Status {
    loop {
        match incoming.next::<ProcessingRequest>().await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::LEFT,
            Err(status) => return status,
        }
    }
}
