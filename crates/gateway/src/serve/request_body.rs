//! The body of a client's request: collected within limits, or read piece by piece.

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flow::Band;
use http::request::Parts;
use http::{HeaderMap, Request};
use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::quiet_waker;
use crate::body_memory::{BodyHolder, Reservation};
use crate::config::settings::Server;
use crate::reply::Fault;
use crate::state::State;
use crate::{ingress, large_bodies};

/// The most memory that is allocated for a body before it has come: a client may announce anything.
const TRUSTED: usize = 256 << 10;

/// The bytes per second that an upload without a time limit must reach in the long run.
const PACE: u64 = 16 << 10;

/// The most bytes of a body that are read after its request was refused, and how long that may
/// take.
const PASSED_OVER: u64 = 256 << 10;
const PASS_OVER: Duration = Duration::from_secs(1);

/// A body, and its reservation of the memory for bodies.
pub(super) type Whole = (Bytes, Reservation);

/// A body that is read piece by piece without a limit in time. Its client must not fall silent, nor
/// send so slowly that it could occupy a connection for ever. Only the time spent waiting for the
/// client counts.
#[derive(Debug)]
pub(super) struct Arriving<B = Incoming> {
    body: B,
    silence: Duration,
    waited: Duration,
    received: u64,
}

/// Reads a small body of a refused request and drops it. Some clients, such as curl 7.88 over
/// HTTP/2, lose a response that comes while they still send. The head need not be kept meanwhile.
pub(super) fn pass_over(headers: &HeaderMap, body: Incoming) -> impl Future<Output = ()> + use<> {
    let comes_not = ingress::headers::expects_word(headers);
    let body = Some(body).filter(|body| !comes_not && body.size_hint().lower() <= PASSED_OVER);
    async {
        if let Some(body) = body {
            read_and_drop(body).await;
        }
    }
}

async fn read_and_drop(mut body: Incoming) {
    let rest = async {
        let mut received = 0;
        while let Some(Ok(frame)) = body.frame().await {
            received += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
            if received > PASSED_OVER {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(PASS_OVER, rest).await;
}

// === impl Arriving ===

impl<B> Arriving<B>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
{
    pub(super) fn new(body: B, silence: Duration) -> Self {
        Self { body, silence, waited: Duration::ZERO, received: 0 }
    }

    /// The least number of bytes that the client announces.
    pub(super) fn announced(&self) -> u64 {
        self.body.size_hint().lower()
    }

    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let earned = self.silence + Duration::from_secs(self.received / PACE);
            let limit = earned.saturating_sub(self.waited).min(self.silence);
            let began = Instant::now();
            let frame = tokio::time::timeout(limit, self.body.frame()).await;
            self.waited += began.elapsed();
            let Some(frame) = frame.map_err(|_| Fault::RequestTimeout)? else { return Ok(None) };
            // Trailers are of no use here.
            if let Ok(data) = frame.map_err(|error| broken(&error))?.into_data() {
                self.received += data.len() as u64;
                return Ok(Some(data));
            }
        }
    }
}

/// Collects a body within the limits of the configuration and, if memory is scarce, of its band.
pub(super) async fn collect(
    body: Incoming,
    server: &Server,
    (state, holder): (&State, BodyHolder<'_>),
    band: impl FnOnce() -> Band,
) -> Result<Whole, Fault> {
    let limit = server.body_limit;
    if body.size_hint().lower() > limit as u64 {
        return Err(Fault::BodyTooLarge(limit));
    }
    if body.is_end_stream() {
        return Ok((Bytes::new(), state.body_memory.hold()));
    }
    let mut held = state.body_memory.hold_for(holder);
    if state.body_memory.is_scarce(server.bodies_limit) {
        held.set_band(band());
    }
    let mut work = pin!(gather(body, server, held));
    // A small body comes with its head and is there at the second poll, without a timer.
    if let Some(done) = twice(work.as_mut()).await {
        return done;
    }
    tokio::select! {
        done = work => done,
        () = tokio::time::sleep(server.body_timeout) => Err(Fault::RequestTimeout),
        () = state.closing() => Err(Fault::ShuttingDown),
    }
}

/// Collects the body of a call that the gateway answers itself, and decodes it.
pub(super) async fn collect_decoded(
    headers: &HeaderMap,
    body: Incoming,
    (state, holder): (&State, BodyHolder<'_>),
) -> Result<Whole, Fault> {
    let config = state.config.load_full();
    let (body, mut held) =
        collect(body, &config.server, (state, holder), || Band::Critical).await?;
    let (received, limit) = (body.len(), config.server.body_limit);
    let body = if large_bodies::is_large(headers, received) {
        let mut head = Request::new(()).into_parts().0;
        head.headers.clone_from(headers);
        let read = move |head: &Parts| ingress::decoded(&head.headers, body, limit);
        Box::pin(state.large_bodies.read(&mut head, read)).await?
    } else {
        ingress::decoded(headers, body, limit)?
    };
    held.more(body.len().saturating_sub(received), config.server.bodies_limit)?;
    Ok((body, held))
}

/// The output of `work` if two polls are enough.
async fn twice<F: Future>(mut work: Pin<&mut F>) -> Option<F::Output> {
    let mut again = true;
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if std::mem::take(&mut again) => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

async fn gather(
    mut body: Incoming,
    server: &Server,
    mut held: Reservation,
) -> Result<Whole, Fault> {
    let limit = server.body_limit;
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(limit).min(TRUSTED);
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = poll_fn(|context| quiet_waker::poll_frame(&mut body, context)).await {
        let frame = frame.map_err(|error| broken(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        held.more(data.len(), server.bodies_limit)?;
        // Most bodies come in one piece, which is not copied.
        let Some(begun) = &first else {
            first = Some(data);
            if body.is_end_stream() {
                break;
            }
            continue;
        };
        if rest.is_empty() {
            rest.reserve(expected.max(begun.len() + data.len()));
            rest.extend_from_slice(begun);
        }
        if rest.len() + data.len() > limit {
            return Err(Fault::BodyTooLarge(limit));
        }
        rest.extend_from_slice(&data);
    }
    let first = first.unwrap_or_default();
    if first.len() > limit {
        return Err(Fault::BodyTooLarge(limit));
    }
    Ok((if rest.is_empty() { first } else { rest.freeze() }, held))
}

/// Why a body cannot be read: its client has left, or its framing is wrong.
fn broken(error: &hyper::Error) -> Fault {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let wrong = |io: &io::Error| {
        matches!(io.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
    };
    if error.is_incomplete_message() || io.is_some_and(|io| !wrong(io)) {
        return Fault::ClientClosed;
    }
    let text = format!("The body cannot be read: {error}. Send it in whole, valid chunks.");
    Fault::InvalidRequest(text)
}

#[cfg(test)]
mod tests {
    use http_body::Frame;
    use tokio::sync::mpsc;

    use super::*;

    /// A body that the test sends.
    struct Sent(mpsc::UnboundedReceiver<Bytes>);

    impl Body for Sent {
        type Data = Bytes;
        type Error = hyper::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
            self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    const SILENCE: Duration = Duration::from_secs(60);

    /// The number of pieces of this size that are read, one after every pause, up to `most`.
    async fn pieces(size: usize, pause: Duration, most: usize) -> usize {
        let (client, body) = mpsc::unbounded_channel();
        crate::task::spawn(async move {
            while client.send(Bytes::from(vec![0; size])).is_ok() {
                tokio::time::sleep(pause).await;
            }
        });
        let mut arriving = Arriving::new(Sent(body), SILENCE);
        let mut count = 0;
        while count < most {
            match arriving.next().await {
                Ok(Some(_)) => count += 1,
                ended => {
                    assert_eq!(ended, Err(Fault::RequestTimeout));
                    break;
                }
            }
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn d10_a_slow_upload_may_take_its_time() {
        // An hour, where a whole body of other requests has a minute.
        assert_eq!(pieces(1 << 20, Duration::from_secs(59), 60).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn x03_a_silent_client_is_given_up_whatever_it_sent_before() {
        assert_eq!(pieces(100 << 20, SILENCE + Duration::from_millis(1), 9).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn x03_a_client_that_trickles_cannot_hold_its_place_for_ever() {
        let came = pieces(1, Duration::from_secs(1), 1000).await;
        assert!((55..65).contains(&came), "{came} bytes came in as many seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn d10_a_slow_disk_is_no_fault_of_the_client() {
        let (client, body) = mpsc::unbounded_channel();
        let mut arriving = Arriving::new(Sent(body), SILENCE);
        for _ in 0..10 {
            client.send(Bytes::from_static(b"x")).unwrap();
            assert_eq!(arriving.next().await, Ok(Some(Bytes::from_static(b"x"))));
            tokio::time::sleep(SILENCE * 2).await;
        }
        drop(client);
        assert_eq!(arriving.next().await, Ok(None));
    }
}
