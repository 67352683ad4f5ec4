//! Tests with a gateway among its own backends.

use super::super::StateWord;
use super::super::self_detection::GatewayIdentity;
use super::*;

fn identity(listen: &str) -> GatewayIdentity {
    GatewayIdentity { addresses: vec![listen.parse().unwrap()], instance: "tide-1".into() }
}

#[test]
fn a_gateway_recognises_its_own_addresses() {
    let is_at = |listen: &str, backend: &str| {
        let (host, port) = backend.rsplit_once(':').unwrap();
        identity(listen).is_at((host, port.parse().unwrap()))
    };
    let here = ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "0.0.0.0:8000"];
    for backend in here {
        assert!(is_at("127.0.0.1:8000", backend), "{backend}");
        assert!(is_at("0.0.0.0:8000", backend), "{backend}");
        assert!(is_at("[::]:8000", backend), "{backend}");
        assert!(!is_at("127.0.0.1:8001", backend), "{backend}: another port");
        assert!(!is_at("10.0.0.5:8000", backend), "{backend}: a server beside it");
    }
    assert!(is_at("10.0.0.5:8000", "10.0.0.5:8000"));
    assert!(is_at("[::1]:8000", "[::1]:8000") && is_at("[::]:8000", "[::1]:8000"));
    assert!(is_at("127.0.0.1:8000", "[::ffff:127.0.0.1]:8000"));
    assert!(is_at("127.0.0.1:80", "localhost:80"));
    assert!(!is_at("127.0.0.1:8000", "127.0.0.2:8000"));
    assert!(!is_at("0.0.0.0:8000", "10.0.0.6:8000") && !is_at("0.0.0.0:8000", "gpu:8000"));
}

#[tokio::test]
async fn a_gateway_recognises_its_own_health_page() {
    let page = r#"{"status":"ok","tidegate":"tide-1"}"#;
    let itself = Fake::start(&[("/health", 200, page)]).await;
    let other = Fake::start(&[("/health", 200, &page.replace("-1", "-2"))]).await;
    let backends = [("a", &itself), ("b", &other)]
        .map(|(id, at)| spec(id, at.port, BackendKind::Generic, &["m"]));
    let (fleet, scheduler) = fleet(&quick(backends.to_vec()));
    let watching = tokio::spawn(fleet.clone().watch(identity("127.0.0.1:1")));
    until("the other is ready", || is_ready(&scheduler, 2)).await;
    until("it is known", || fleet.statuses()[0].state != StateWord::Starting).await;
    let reason = fleet.statuses()[0].reason.clone();
    assert_eq!(reason.as_deref(), Some("it is this gateway itself"));
    assert!(!is_ready(&scheduler, 1));
    watching.abort();
}

#[tokio::test]
async fn a_gateway_sends_itself_no_probe() {
    let itself = Fake::start(&[("/health", 200, "")]).await;
    let (fleet, scheduler) = fleet(&quick(vec![spec("a", itself.port, BackendKind::Vllm, &["m"])]));
    let address = format!("127.0.0.1:{}", itself.port);
    let watching = tokio::spawn(fleet.clone().watch(identity(&address)));
    until("it is known", || fleet.statuses()[0].state != StateWord::Starting).await;
    let reason = fleet.statuses()[0].reason.clone();
    assert_eq!(reason.as_deref(), Some("it is this gateway itself"));
    assert!(!is_ready(&scheduler, 1));
    assert_eq!(itself.asked.load(Ordering::Relaxed), 0);
    watching.abort();
}
