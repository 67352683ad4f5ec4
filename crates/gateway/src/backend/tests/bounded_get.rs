//! Tests of probes with servers that respond well, badly and not at all.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::super::bounded_get::{GetError, GetLimits, get};
use super::super::health_check::check;
use super::super::health_state::CheckResult;
use super::{BackendKind, Endpoint, Fake, GatewayIdentity, endpoint};

const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(10), body: 100 };

#[tokio::test]
async fn r07_a_response_is_read_within_its_limits() {
    let long = "x".repeat(101);
    let pages = [("/good", 200, "hello"), ("/long", 200, &long), ("/moved", 302, "")];
    let fake = Fake::start(&pages).await;
    let server = endpoint(fake.port, BackendKind::Generic);
    let response = get(&server, "/good", LIMITS).await.unwrap();
    assert_eq!((response.status, &response.body[..]), (StatusCode::OK, &b"hello"[..]));
    assert!(matches!(get(&server, "/long", LIMITS).await, Err(GetError::TooLarge)));
    assert_eq!(get(&server, "/moved", LIMITS).await.unwrap().status, StatusCode::FOUND);
    fake.stop().await;
    assert!(matches!(get(&server, "/good", LIMITS).await, Err(GetError::Refused)));
}

#[tokio::test]
async fn r07_a_silent_server_and_a_malformed_response_are_distinguished() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = endpoint(listener.local_addr().unwrap().port(), BackendKind::Generic);
    let soon = GetLimits { time: Duration::from_millis(50), ..LIMITS };
    assert!(matches!(get(&server, "/", soon).await, Err(GetError::TimedOut)));
    let silent = listener.accept().await.unwrap();
    let answers =
        [&b""[..], b"\0\xff nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfew"];
    for said in answers {
        let answered = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(said).await.unwrap();
        };
        let (response, ()) = tokio::join!(get(&server, "/", LIMITS), answered);
        assert!(matches!(response, Err(GetError::Failed(_))), "{response:?}");
    }
    drop(silent);
}

#[tokio::test]
async fn r07_a_server_of_http2_alone_is_asked_in_http2() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let response = |request: Request<Incoming>| async move {
            Ok::<_, Infallible>(Response::new(request.uri().to_string()))
        };
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server.serve_connection(TokioIo::new(stream), service_fn(response)).await
    });
    let server = Endpoint { http2: true, ..endpoint(port, BackendKind::Generic) };
    let response = get(&server, "/health", LIMITS).await.unwrap();
    assert_eq!(response.body, format!("http://127.0.0.1:{port}/health"));
    serving.abort();
}

/// Which response of each kind of server counts as healthy.
#[tokio::test]
async fn r07_each_kind_is_checked_in_its_own_way() {
    let cases = [
        (BackendKind::Vllm, "/health", 401, false),
        (BackendKind::Sglang, "/health", 503, false),
        (BackendKind::LlamaCpp, "/health", 302, false),
        (BackendKind::Ollama, "/api/version", 404, false),
        (BackendKind::OpenAi, "/v1/models", 401, true),
        (BackendKind::Generic, "/health", 404, true),
        (BackendKind::Generic, "/health", 500, false),
    ];
    let identity = GatewayIdentity::default();
    for (kind, path, status, good) in cases {
        let fake = Fake::start(&[(path, 200, "{}")]).await;
        let server = endpoint(fake.port, kind);
        assert_eq!(check(&server, &identity, LIMITS).await, CheckResult::Healthy, "{kind:?}");
        fake.set(path, status, "{}");
        assert_eq!(
            check(&server, &identity, LIMITS).await == CheckResult::Healthy,
            good,
            "{kind:?} {status}"
        );
        fake.stop().await;
        assert_eq!(check(&server, &identity, LIMITS).await, CheckResult::Refused);
    }
}
