//! Reads large and compressed bodies on threads of their own.
//!
//! A worker serves thousands of connections on one thread. A body of 30 MB takes it tens of
//! milliseconds, and a small compressed body can stand for as many bytes: meanwhile no stream of
//! the worker would go on. Few threads read such bodies, so the workers keep most of the machine.

use std::mem;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Request};
use tokio::sync::Semaphore;

use crate::ingress::headers::BODY_ENCODING;
use crate::reply::Fault;
use crate::task;

/// A plain body up to this size is read in a fraction of a millisecond.
const PLAIN_MAX: usize = 256 << 10;
/// A compressed body stands for up to a thousand times as many bytes.
const COMPRESSED_MAX: usize = 1 << 10;
/// One large body is read at one time for each so many cores, and at least one.
const CORES_PER_READER: usize = 2;

/// The threads that read large bodies.
#[derive(Debug)]
pub(crate) struct LargeBodies {
    readers: Arc<Semaphore>,
}

/// Whether a body of this size should not be read on a worker.
pub(crate) fn is_large(headers: &HeaderMap, size: usize) -> bool {
    size > PLAIN_MAX || (size > COMPRESSED_MAX && headers.contains_key(BODY_ENCODING))
}

// === impl LargeBodies ===

impl LargeBodies {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { readers: Arc::new(Semaphore::new((cores / CORES_PER_READER).max(1))) }
    }

    /// Runs `read` on a thread with the head of the request, once a reader is free.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        parts: &mut Parts,
        read: impl FnOnce(&Parts) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let reader = Arc::clone(&self.readers).acquire_owned().await;
        let reader = reader.map_err(|_| Fault::Internal)?;
        let head = mem::replace(parts, Request::new(()).into_parts().0);
        let reading = task::blocking(move || {
            // The reader is busy until the end, even if the client leaves before.
            let _reader = reader;
            let read = read(&head);
            (head, read)
        });
        // A panic ends the thread alone.
        let (head, read) = reading.await.map_err(|_| Fault::Internal)?;
        *parts = head;
        read
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use http::HeaderValue;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn x03_a_body_is_large_by_its_size_or_by_what_it_may_stand_for() {
        let plain = HeaderMap::new();
        let mut compressed = HeaderMap::new();
        compressed.insert(BODY_ENCODING, HeaderValue::from_static("gzip"));
        assert!(!is_large(&plain, PLAIN_MAX) && is_large(&plain, PLAIN_MAX + 1));
        assert!(
            !is_large(&compressed, COMPRESSED_MAX) && is_large(&compressed, COMPRESSED_MAX + 1)
        );
    }

    /// The test's runtime has one thread. If that thread read the body, it would wait for itself,
    /// until the bound ends the test.
    #[tokio::test]
    async fn x03_a_worker_goes_on_while_a_large_body_is_read() {
        let bodies = LargeBodies::new();
        let (begin, begun) = oneshot::channel();
        let (release, released) = mpsc::channel();
        let mut parts = Request::get("/kept").body(()).unwrap().into_parts().0;
        let reading = bodies.read(&mut parts, move |_| {
            begin.send(()).unwrap();
            released.recv_timeout(Duration::from_secs(10)).map_err(|_| Fault::Internal)
        });
        let worker = async {
            begun.await.unwrap();
            release.send("read")
        };
        let (read, sent) = tokio::join!(reading, worker);
        assert_eq!((read.ok(), sent), (Some("read"), Ok(())));
        assert_eq!(parts.uri.path(), "/kept");
    }

    #[tokio::test]
    async fn x03_a_read_that_panics_frees_its_reader() {
        let bodies = LargeBodies::new();
        let free = bodies.readers.available_permits();
        let mut parts = Request::new(()).into_parts().0;
        let read = bodies.read(&mut parts, |parts| {
            assert_eq!(parts.uri.path(), "/other", "this panics");
            Ok(())
        });
        assert!(matches!(read.await, Err(Fault::Internal)));
        assert_eq!(bodies.readers.available_permits(), free);
    }
}
