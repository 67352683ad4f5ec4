//! A request's body, whole and bounded.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::config::settled::Server;
use crate::reply::Fault;

/// What is set aside for a body before it has come, at most: a client's word costs nothing.
const TRUSTED: usize = 256 << 10;

/// Reads a body to its end.
pub(super) async fn collect(body: Incoming, server: &Server) -> Result<Bytes, Fault> {
    let limit = server.body_limit;
    if body.size_hint().lower() > limit as u64 {
        return Err(Fault::BodyTooLarge(limit));
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    within(server.body_timeout, gather(body, limit)).await
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut work = pin!(work);
    // A small body comes with its head and is there when it is asked for again: no need of a timer.
    if let Some(done) = twice(work.as_mut()).await {
        return done;
    }
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Fault::RequestTimeout))
}

/// What comes of `work` if it is polled now and once more.
async fn twice<F: Future>(mut work: Pin<&mut F>) -> Option<F::Output> {
    let mut again = true;
    std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if std::mem::take(&mut again) => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

async fn gather(mut body: Incoming, limit: usize) -> Result<Bytes, Fault> {
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(limit).min(TRUSTED);
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Fault::InvalidRequest(broken(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        // Most bodies come in one piece, which need not be copied.
        let Some(begun) = &first else {
            first = Some(data);
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
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn broken(error: &hyper::Error) -> String {
    format!("the body broke off: {error}; send it whole, as long as its Content-Length says")
}
