//! Tests of discovery on local ports.

use super::super::discovery::{PORTS, look};
use super::{BackendKind, Fake};
use crate::config::settings::Config;

async fn kind_of(pages: &[(&str, u16, &str)]) -> Option<BackendKind> {
    let fake = Fake::start(pages).await;
    let found = look(&[fake.port], &[]).await;
    assert!(found.iter().all(|spec| spec.url.ends_with(&format!(":{}", fake.port))));
    found.first().map(|spec| spec.kind)
}

#[tokio::test]
async fn x06_servers_are_recognised_by_their_responses() {
    let models = ("/v1/models", 200, r#"{"data":[{"id":"m"}]}"#);
    assert_eq!(kind_of(&[models]).await, Some(BackendKind::Generic));
    let owned = ("/v1/models", 200, r#"{"data":[{"id":"m","owned_by":"llamacpp"}]}"#);
    assert_eq!(kind_of(&[owned]).await, Some(BackendKind::LlamaCpp));
    let metrics = |text| ("/metrics", 200, text);
    assert_eq!(kind_of(&[models, metrics("# a\nvllm:x 1")]).await, Some(BackendKind::Vllm));
    assert_eq!(kind_of(&[models, metrics("sglang:x 1")]).await, Some(BackendKind::Sglang));
    let ollama = ("/api/version", 200, r#"{"version":"0.9"}"#);
    assert_eq!(kind_of(&[models, ollama]).await, Some(BackendKind::Ollama));
    assert_eq!(kind_of(&[models, ("/api/version", 503, "")]).await, None, "asked again later");
    assert_eq!(kind_of(&[("/", 200, "<html>")]).await, None);
    assert_eq!(kind_of(&[("/api/version", 200, "7")]).await, None);
}

#[tokio::test]
async fn x06_discovery_ignores_gateways() {
    let models = ("/v1/models", 200, r#"{"data":[{"id":"m"}]}"#);
    let like = ("/health", 200, r#"{"status":"ok","tidegate":"4711"}"#);
    assert_eq!(kind_of(&[models, like]).await, None);
    let fake = Fake::start(&[models]).await;
    assert!(look(&[fake.port], &[fake.port]).await.is_empty(), "its own port");
    let port = fake.stop().await;
    assert!(look(&[port], &[]).await.is_empty(), "no server responds");
}

/// Prometheus listens on 9090.
#[test]
fn x06_the_default_ports_are_not_those_of_model_servers_or_prometheus() {
    let Config { server, epp, dispatch, .. } = Config::default();
    for own in [server.listen, epp.listen, epp.health_listen, epp.metrics_listen, dispatch.listen] {
        assert!(!PORTS.contains(&own.port()) && own.port() != 9090, "{own}");
    }
}
