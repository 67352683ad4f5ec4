//! One conversation: one request of a client of Envoy's, from its head to the end of its answer.
//!
//! The request's head and body are heard to their end before anything is said, so that a request
//! can wait here as long as it must. Whoever breaks off while it waits drops its permit and with it
//! its place; whatever comes of the answer, the permit is settled once.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use envoy::ext_proc::processing_request::Request as Said;
use envoy::ext_proc::{ProcessingRequest, ProcessingResponse};
use flow::{BackendId, RequeuePosition};
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::grpc::{Incoming, Outgoing, Status};
use super::observed_response::Answer;
use super::request::{self, Hitch, Opening, Rest};
use super::response;
use crate::backend::{EndpointAddress, Upstream};
use crate::config::Resolved;
use crate::ingress;
use crate::lazy_timer::LazyTimer;
use crate::passage::{Hurry, Passage};
use crate::reply::{Fault, Refused, headers};
use crate::scheduler::{Grant, Permit};
use crate::state::State;
use crate::trip::Trip;

/// A conversation that is going on.
struct Talk {
    state: Arc<State>,
    config: Arc<Resolved>,
    incoming: Incoming,
    outgoing: Outgoing,
    timer: LazyTimer,
}

/// A request that may go, and where.
struct Granted {
    passage: Passage,
    permit: Permit,
    grant: Grant,
    upstream: Arc<Upstream>,
}

/// Talks with Envoy about one request.
pub(super) async fn converse(
    state: Arc<State>,
    incoming: Incoming,
    outgoing: Outgoing,
) -> Result<(), Status> {
    let config = state.config.load_full();
    Talk { state, config, incoming, outgoing, timer: LazyTimer::default() }.hold().await
}

// === impl Talk ===

impl Talk {
    async fn hold(mut self) -> Result<(), Status> {
        let server = &self.config.server;
        let due = Instant::now() + server.header_timeout;
        let hearing = Opening::hear(&mut self.incoming, server.header_limit);
        let heard = self.timer.within(due, hearing).await;
        let opening = match heard.unwrap_or(Err(Hitch::Gone(Status::SILENT))) {
            Ok(Some(opening)) => opening,
            Ok(None) => return Ok(()),
            Err(Hitch::Gone(status)) => return Err(status),
            Err(Hitch::Fault(fault)) => {
                self.refuse(&fault.into(), &ingress::headers::request_id(&HeaderMap::new()));
                return Ok(());
            }
        };
        let observer = Arc::clone(&self.state.observer);
        let trip = Trip::begin(&opening.parts, self.state.clock, observer);
        let mut rest = match self.rest(&opening).await {
            Ok(rest) => rest,
            Err(Hitch::Gone(status)) => return Err(status),
            Err(Hitch::Fault(fault)) => {
                self.fail(trip, fault, &opening.parts.headers);
                return Ok(());
            }
        };
        let sees_bodies = opening.sees_bodies;
        let remove = ingress::headers::control_names(&opening.parts.headers);
        let understood = self.understand(opening, trip, std::mem::take(&mut rest.body));
        let Some((passage, body)) = understood else { return Ok(()) };
        rest.body = body;
        let Some(granted) = self.wait(passage).await? else { return Ok(()) };
        let head = self.head(&granted, remove);
        let hurry = granted.passage.hurry(granted.grant.at);
        let answer = granted.fly(sees_bodies);
        self.carry((head, rest), hurry, answer).await
    }

    /// Hears the rest of the request, which must not take for ever.
    async fn rest(&mut self, opening: &Opening) -> Result<Rest, Hitch> {
        if opening.whole {
            let (body, held) = (Bytes::new(), self.state.body_memory.hold());
            return Ok(Rest { body, _held: held, came: false, trailers: false });
        }
        let server = &self.config.server;
        let due = Instant::now() + server.body_timeout;
        let hearing = Rest::hear(&mut self.incoming, server, self.state.body_memory.hold());
        let heard = self.timer.within(due, hearing).await;
        heard.unwrap_or(Err(Hitch::Fault(Fault::RequestTimeout)))
    }

    /// Reads what is asked for; says so itself where that cannot be read.
    fn understand(
        &self,
        opening: Opening,
        mut trip: Trip,
        body: Bytes,
    ) -> Option<(Passage, Bytes)> {
        let Opening { parts, within, sees_bodies, .. } = opening;
        trip.record.bytes_in = body.len() as u64;
        let draw = trip.arrived.nanos();
        match ingress::read_anything(&self.config, &parts, body, draw) {
            Ok((mut intent, body)) => {
                // Tokens that are not seen cannot be counted.
                intent.streamed &= sees_bodies;
                trip.read(&intent);
                let (state, config) = (Arc::clone(&self.state), Arc::clone(&self.config));
                let within = within.or_else(|| self.conformance(&parts.headers));
                Some((Passage { state, config, intent, trip, within, model: None }, body))
            }
            Err(fault) => {
                self.fail(trip, fault, &parts.headers);
                None
            }
        }
    }

    /// Waits for a backend. Nothing if the request was refused.
    async fn wait(&mut self, mut passage: Passage) -> Result<Option<Granted>, Status> {
        let outcome = tokio::select! {
            biased;
            outcome = granted(&mut passage) => outcome,
            status = gone(&mut self.incoming) => return Err(status),
        };
        match outcome {
            Ok((permit, grant, upstream)) => Ok(Some(Granted { passage, permit, grant, upstream })),
            Err(refused) => {
                let Passage { intent, trip, .. } = passage;
                trip.fail(&refused.fault);
                self.refuse(&refused, &intent.request_id);
                Ok(None)
            }
        }
    }

    /// Sends the request on its way and follows its answer; neither may stand still for long.
    async fn carry(
        &mut self,
        request: (ProcessingResponse, Rest),
        (due, hurry): (Instant, Hurry),
        mut answer: Answer,
    ) -> Result<(), Status> {
        let mut timer = std::mem::take(&mut self.timer);
        let begins = async {
            self.send(request).await;
            let mut more = true;
            while more && !answer.has_begun() {
                more = self.hear(&mut answer).await?;
            }
            Ok(more)
        };
        let Some(mut more) = timer.within(due, begins).await.transpose()? else {
            self.cut(&mut answer, hurry);
            return Ok(());
        };
        let limit = self.config.fleet.stall_timeout;
        while more {
            let due = Instant::now() + limit;
            let hearing = self.hear(&mut answer);
            more = match timer.within(due, hearing).await.transpose()? {
                Some(more) => more,
                // Nobody can say whether an answer stands still that is not shown.
                None if answer.is_unseen() => true,
                None => {
                    self.cut(&mut answer, Hurry::Stream(limit));
                    false
                }
            };
        }
        Ok(())
    }

    /// The request's head as it goes on.
    fn head(&self, granted: &Granted, remove: Vec<String>) -> ProcessingResponse {
        let mut told = HeaderMap::new();
        headers::identify(&mut told, &granted.passage.intent.request_id);
        response::head(&self.endpoints(granted), &told, remove)
    }

    /// Sends the request on its way, exactly as it came.
    async fn send(&self, (head, rest): (ProcessingResponse, Rest)) {
        self.outgoing.send(&head);
        if rest.came {
            for piece in response::body(rest.body, rest.trailers) {
                self.outgoing.room().await;
                self.outgoing.send(&piece);
            }
        }
        if rest.trailers {
            self.outgoing.send(&response::request_trailers());
        }
    }

    /// Where to send it: the one that was chosen, and as many others of its kind as are wanted.
    fn endpoints(&self, granted: &Granted) -> String {
        let chosen = granted.upstream.socket;
        let others = match self.config.epp.fallbacks {
            0 => Vec::new(),
            most => self.fallbacks(granted, most),
        };
        let all = chosen.into_iter().chain(others);
        all.map(|socket| socket.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Each has others behind it, so that those who lose one do not all meet at the next.
    fn fallbacks(&self, granted: &Granted, most: usize) -> Vec<SocketAddr> {
        let roster = self.state.fleet.roster();
        let chosen = granted.upstream.id;
        let serving = granted.passage.model.into_iter().flat_map(|model| roster.serving(model));
        let (before, behind): (Vec<BackendId>, Vec<_>) =
            serving.filter(|&id| id != chosen).partition(|&id| id < chosen);
        let others = behind.into_iter().chain(before).filter_map(|id| roster.upstream(id)?.socket);
        others.take(most).collect()
    }

    /// Hears the next that is said of the answer, and passes it on. Says whether there may be more.
    async fn hear(&mut self, answer: &mut Answer) -> Result<bool, Status> {
        let next = self.incoming.next::<ProcessingRequest>().await?;
        let Some(message) = next else { return Ok(false) };
        if let Some(Said::ResponseHeaders(head)) = &message.request {
            let served = request::served(&message);
            answer.begins(&self.state, head, served);
            self.echo(served, &mut answer.told);
            self.outgoing.send(&response::answer_head(&answer.told));
        }
        match message.request {
            Some(Said::ResponseBody(piece)) => {
                answer.passes(&piece);
                self.outgoing.room().await;
                self.outgoing.send(&response::answer_piece(piece.body, piece.end_of_stream));
            }
            Some(Said::ResponseTrailers(_)) => {
                answer.complete();
                self.outgoing.send(&response::answer_trailers());
            }
            // What is left of the request was heard already, or does not matter any more.
            _ => {}
        }
        Ok(true)
    }

    /// Breaks an answer off that has not come in time: Envoy lets go of the backend.
    fn cut(&self, answer: &mut Answer, hurry: Hurry) {
        if let Some((fault, request_id)) = answer.give_up(&self.state, hurry) {
            self.refuse(&fault.into(), &request_id);
        }
    }

    /// Where the conformance suite wants a request to go, if it may.
    fn conformance(&self, headers: &HeaderMap) -> Option<BTreeSet<EndpointAddress>> {
        let wanted =
            ingress::headers::selection(headers).filter(|_| self.config.epp.conformance)?;
        Some(wanted.split(',').filter_map(EndpointAddress::parse).collect())
    }

    /// Tells the conformance suite where a request went.
    fn echo(&self, served: Option<&str>, told: &mut HeaderMap) {
        if let Some(served) = served.filter(|_| self.config.epp.conformance) {
            headers::served_by(told, served);
        }
    }

    fn fail(&self, mut trip: Trip, fault: Fault, headers: &HeaderMap) {
        let request_id = ingress::headers::request_id(headers);
        trip.name(&request_id);
        trip.fail(&fault);
        self.refuse(&fault.into(), &request_id);
    }

    fn refuse(&self, refused: &Refused, request_id: &HeaderValue) {
        self.outgoing.send(&response::refusal(refused, request_id));
    }
}

/// Waits until the request may go, and knows where.
async fn granted(passage: &mut Passage) -> Result<(Permit, Grant, Arc<Upstream>), Refused> {
    let mut permit = passage.permit().await?;
    passage.trip.began(permit.ticket());
    passage.trip.record.bypassed = !permit.waits();
    loop {
        let grant = permit.grant().await.map_err(|refused| passage.waited_out(refused))?;
        passage.granted(&grant);
        let upstream = passage.state.fleet.roster().upstream(grant.backend).cloned();
        if let Some(upstream) = upstream {
            passage.trip.record.backend.clone_from(&upstream.name);
            return Ok((permit, grant, upstream));
        }
        // It left between the grant and now.
        passage.trip.record.bypassed = false;
        permit.requeue(RequeuePosition::Original);
    }
}

/// Resolves when Envoy breaks off. What else it says of the request was heard already.
async fn gone(incoming: &mut Incoming) -> Status {
    loop {
        match incoming.next::<ProcessingRequest>().await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::LEFT,
            Err(status) => return status,
        }
    }
}

// === impl Granted ===

impl Granted {
    /// It is on its way: what comes now is its answer.
    fn fly(self, sees_bodies: bool) -> Answer {
        let Self { passage, permit, grant, upstream } = self;
        let mut told = HeaderMap::new();
        headers::describe(
            &mut told,
            &headers::Told {
                backend: &upstream.name_header,
                choice: grant.choice,
                waited: grant.waited,
                request_id: &passage.intent.request_id,
                headroom: None,
            },
        );
        let flight = passage.fly(permit);
        Answer::awaited(flight, upstream, told, sees_bodies)
    }
}
