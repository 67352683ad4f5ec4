//! The least a proxy over hyper can cost: bytes in, bytes out, and no thought between.
//!
//! It is built as the gateway is, one current-thread runtime per core with a listener and a pool of
//! upstream connections of its own, so that the difference between the two is what flow control
//! costs and nothing else. With a limit it is also the plainest queue there is: first come, first
//! served.

use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::LocalSet;

/// Connections that may wait to be accepted; a crowd may come at once.
const BACKLOG: u32 = 4096;

/// The addresses of the proxy and of its backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloorProxy {
    /// Where clients come in.
    pub(crate) listen: SocketAddr,
    /// Who answers.
    pub(crate) backend: SocketAddr,
    /// Threads, each with a runtime of its own.
    pub(crate) workers: NonZeroUsize,
    /// The most requests at the backend at once; the others wait in one line.
    pub(crate) limit: Option<NonZeroUsize>,
}

/// One thread's runtime and its listener.
struct Worker {
    runtime: Runtime,
    listener: TcpListener,
}

/// The connections of one thread, and the line in front of them.
pub(crate) struct Pool {
    pub(crate) backend: SocketAddr,
    pub(crate) idle: RefCell<Vec<SendRequest<Incoming>>>,
    pub(crate) limit: Option<Arc<Semaphore>>,
}

/// An answer on its way; its connection is free again when it has ended.
struct Answer {
    body: Incoming,
    sender: Option<SendRequest<Incoming>>,
    pool: Rc<Pool>,
    _place: Option<OwnedSemaphorePermit>,
}

// === impl FloorProxy ===

impl FloorProxy {
    /// Serves until the process ends; says on `out` where.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let limit = self.limit.map(|limit| Arc::new(Semaphore::new(limit.get())));
        let mut workers = vec![Worker::new(self.listen)?];
        let bound = workers[0].listener.local_addr()?;
        for _ in 1..self.workers.get() {
            workers.push(Worker::new(bound)?);
        }
        let start = |worker: Worker| {
            let limit = limit.clone();
            std::thread::spawn(move || worker.run(self.backend, limit))
        };
        let threads: Vec<_> = workers.into_iter().map(start).collect();
        writeln!(out, "listening on http://{bound}")?;
        out.flush()?;
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a worker panicked"))??;
        }
        Ok(())
    }
}

// === impl Worker ===

impl Worker {
    fn new(address: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let inside = runtime.enter();
        let listener = listen(address)?;
        drop(inside);
        Ok(Self { runtime, listener })
    }

    fn run(self, backend: SocketAddr, limit: Option<Arc<Semaphore>>) -> Result<()> {
        let pool = Rc::new(Pool { backend, idle: RefCell::new(Vec::new()), limit });
        LocalSet::new().block_on(&self.runtime, accept(self.listener, pool))
    }
}

pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address).with_context(|| format!("cannot listen on {address}"))?;
    Ok(socket.listen(BACKLOG)?)
}

pub(crate) async fn accept(listener: TcpListener, pool: Rc<Pool>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(converse(stream, Rc::clone(&pool)));
    }
}

async fn converse(stream: TcpStream, pool: Rc<Pool>) {
    let service = service_fn(|request| {
        let answer = relay(Rc::clone(&pool), request);
        async { Ok::<_, hyper::Error>(answer.await) }
    });
    // A client that goes away is nothing to speak of.
    let _ = server::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn relay(
    pool: Rc<Pool>,
    mut request: Request<Incoming>,
) -> Response<Either<Answer, Empty<Bytes>>> {
    let place = match &pool.limit {
        Some(limit) => Arc::clone(limit).acquire_owned().await.ok(),
        None => None,
    };
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    let answered = async {
        let mut sender = pool.connection().await?;
        let answer = sender.send_request(request).await?;
        anyhow::Ok((sender, answer))
    };
    match answered.await {
        Ok((sender, answer)) => answer
            .map(|body| Either::Left(Answer { body, sender: Some(sender), pool, _place: place })),
        Err(_) => {
            let mut failed = Response::new(Either::Right(Empty::new()));
            *failed.status_mut() = StatusCode::BAD_GATEWAY;
            failed
        }
    }
}

// === impl Pool ===

impl Pool {
    async fn connection(&self) -> Result<SendRequest<Incoming>> {
        loop {
            let Some(mut idle) = self.idle.borrow_mut().pop() else { break };
            if idle.ready().await.is_ok() {
                return Ok(idle);
            }
        }
        let stream = TcpStream::connect(self.backend).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        tokio::task::spawn_local(async move {
            // The user of the connection sees its end.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

// === impl Answer ===

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None) = polled {
            self.give_back();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Answer {
    fn give_back(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.pool.idle.borrow_mut().push(sender);
        }
    }
}

impl Drop for Answer {
    /// A body whose length is known is not asked for its end, only dropped.
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.give_back();
        }
    }
}
