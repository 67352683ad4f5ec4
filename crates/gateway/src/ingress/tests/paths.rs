//! X01, X03: the routes of paths, and refused paths.

use super::path::*;
use super::*;
use crate::reply::error::{API_METHODS, READ_METHODS};

fn proxied(api: Api, kind: RequestKind) -> Result<Route, Fault> {
    Ok(Route::Proxied { api, kind })
}

#[test]
fn x01_every_path_of_the_surface_leads_somewhere() {
    let (get, post) = (&Method::GET, &Method::POST);
    let rows = [
        (post, "/v1/chat/completions", proxied(Api::OpenAi, RequestKind::Chat)),
        (post, "/v1/completions", proxied(Api::OpenAi, RequestKind::Completion)),
        (post, "/v1/embeddings", proxied(Api::OpenAi, RequestKind::Embedding)),
        (post, "/v1/responses", proxied(Api::OpenAi, RequestKind::Response)),
        (get, "/v1/responses/resp_1", proxied(Api::OpenAi, RequestKind::Other)),
        (get, "/v1/chat/completions", proxied(Api::OpenAi, RequestKind::Other)),
        (post, "/v1/audio/transcriptions", proxied(Api::OpenAi, RequestKind::Other)),
        (&Method::DELETE, "/v1/models/ft:x", proxied(Api::OpenAi, RequestKind::Other)),
        (post, "/api/chat", proxied(Api::Ollama, RequestKind::Chat)),
        (post, "/api/generate", proxied(Api::Ollama, RequestKind::Completion)),
        (post, "/api/embed", proxied(Api::Ollama, RequestKind::Embedding)),
        (post, "/api/embeddings", proxied(Api::Ollama, RequestKind::Embedding)),
        (post, "/api/show", proxied(Api::Ollama, RequestKind::Description)),
        (post, "/tokenize", proxied(Api::OpenAi, RequestKind::Other)),
        (post, "/score", proxied(Api::OpenAi, RequestKind::Other)),
        (
            post,
            "/openai/deployments/a%20b/embeddings",
            proxied(Api::OpenAi, RequestKind::Embedding),
        ),
        (post, "/openai/v1/responses", proxied(Api::OpenAi, RequestKind::Response)),
        (get, "/openai/v1/models", Ok(Route::Models)),
        (get, "/openai/v1/files", Ok(Route::NotFound)),
        (post, "/openai/deployments/m/things", Ok(Route::NotFound)),
        (post, "/openai/v2/responses", Ok(Route::NotFound)),
        (&Method::OPTIONS, "/v1/chat/completions", Ok(Route::Options)),
        (&Method::OPTIONS, "/api/ps", Ok(Route::Options)),
        (&Method::OPTIONS, "/health", Ok(Route::Options)),
        (&Method::OPTIONS, "/dispatch/dead/purge", Ok(Route::Options)),
        (&Method::OPTIONS, "/nowhere", Ok(Route::NotFound)),
        (get, "/version", Ok(Route::Visibility(AdminPage::Version))),
        (get, "/v1/models", Ok(Route::Models)),
        (&Method::HEAD, "/v1/models", Ok(Route::Models)),
        (get, "/v1/models/llama", Ok(Route::ModelCard)),
        (get, "/v1/models/org/llama", Ok(Route::ModelCard)),
        (get, "/api/tags", Ok(Route::Tags)),
        (get, "/api/version", Ok(Route::Version)),
        (get, "/backends", Ok(Route::Visibility(AdminPage::Backends))),
        (get, "/flows", Ok(Route::Visibility(AdminPage::Flows))),
        (get, "/workloads", Ok(Route::Visibility(AdminPage::Workloads))),
        (get, "/health", Ok(Route::Visibility(AdminPage::Health))),
        (&Method::HEAD, "/ready", Ok(Route::Visibility(AdminPage::Ready))),
        (get, "/metrics", Ok(Route::Visibility(AdminPage::Metrics))),
        (get, "/dashboards", Ok(Route::NotFound)),
        (post, "/metrics", Err(Fault::MethodNotAllowed(READ_METHODS))),
        (&Method::CONNECT, "/v1/chat/completions", Err(Fault::MethodNotAllowed(API_METHODS))),
        (&Method::TRACE, "/v1/chat/completions", Err(Fault::MethodNotAllowed(API_METHODS))),
        (get, "/", Ok(Route::Root)),
        (&Method::HEAD, "/", Ok(Route::Root)),
        (&Method::OPTIONS, "/", Ok(Route::Options)),
        (get, "*", Ok(Route::NotFound)),
        (get, "", Ok(Route::NotFound)),
        (get, "/v1", Ok(Route::NotFound)),
        (get, "/v2/chat", Ok(Route::NotFound)),
        (get, "/healthy", Ok(Route::NotFound)),
        (get, "/healthz", Ok(Route::Visibility(AdminPage::Health))),
        (get, "/readyz", Ok(Route::Visibility(AdminPage::Ready))),
        (get, "//v1/models", Ok(Route::NotFound)),
        (get, "/%761/models", Ok(Route::NotFound)),
    ];
    for (method, path, expected) in rows {
        assert_eq!(classify(method, path), expected, "{method} {path}");
    }
}

#[test]
fn d10_the_batch_api_has_its_paths_and_no_others() {
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    let rows = [
        (get, "/v1/files", BatchCall::Files),
        (&Method::HEAD, "/v1/files", BatchCall::Files),
        (post, "/v1/files", BatchCall::Upload),
        (delete, "/v1/files", BatchCall::OtherMethod("GET, HEAD, OPTIONS, POST")),
        (get, "/v1/files/file-1", BatchCall::File),
        (delete, "/v1/files/file-1", BatchCall::DeleteFile),
        (post, "/v1/files/file-1", BatchCall::OtherMethod("DELETE, GET, HEAD, OPTIONS")),
        (get, "/v1/files/file-1/content", BatchCall::Content),
        (post, "/v1/files/file-1/content", BatchCall::OtherMethod("GET, HEAD, OPTIONS")),
        (get, "/v1/batches", BatchCall::Batches),
        (post, "/v1/batches", BatchCall::Create),
        (&Method::PUT, "/v1/batches", BatchCall::OtherMethod("GET, HEAD, OPTIONS, POST")),
        (get, "/v1/batches/batch_1", BatchCall::Batch),
        (delete, "/v1/batches/batch_1", BatchCall::OtherMethod("GET, HEAD, OPTIONS")),
        (post, "/v1/batches/batch_1/cancel", BatchCall::Cancel),
        (get, "/v1/batches/batch_1/cancel", BatchCall::OtherMethod("OPTIONS, POST")),
    ];
    for (method, path, expected) in rows {
        assert_eq!(classify(method, path), Ok(Route::Batch(expected)), "{method} {path}");
    }
    for path in ["/v1/files/a/b", "/v1/files/a/content/", "/v1/batches/a/content"] {
        assert_eq!(classify(get, path), Ok(Route::NotFound), "{path}");
    }
    let elsewhere = proxied(Api::OpenAi, RequestKind::Other);
    assert_eq!(classify(get, "/v1/filesystem"), elsewhere);
    assert_eq!(classify(get, "/v1/batchesx/1"), elsewhere);
    assert!(classify(get, "/v1/files/../secrets").is_err());
    assert!(classify(get, "/v1/files/%2e%2e/secrets").is_err());
    for path in ["/v1/files;x", "/v1/files%3bx", "/v1/%252e%252e/secrets", "/v1/%25252e%2e/x"] {
        assert!(classify(get, path).is_err(), "{path}");
    }
    assert!(classify(get, "/v1/things/50%25").is_ok(), "a percent sign is no dot");
    assert_eq!(object_id("/v1/files/file-1"), "file-1");
    assert_eq!(object_id("/v1/batches/batch_1/cancel"), "batch_1");
    assert_eq!(object_id("/v1/files"), "");
}

#[test]
fn x01_a_card_names_its_model() {
    assert_eq!(card_id("/v1/models/llama").unwrap(), "llama");
    assert_eq!(card_id("/v1/models/org/llama").unwrap(), "org/llama");
    assert_eq!(card_id("/v1/models/org%2Fllama%3Ab").unwrap(), "org/llama:b");
    assert_eq!(card_id("/v1/models/100%").unwrap(), "100%");
    assert_eq!(card_id("/v1/models/%ff"), None);
    assert_eq!(card_id("/v1/models"), None);
}

#[test]
fn x03_paths_that_could_be_read_as_others_are_refused() {
    for path in [
        "/v1/../admin",
        "/v1/./chat",
        "/v1/..",
        "/v1/a/%2e%2e/b",
        "/v1/a/.%2E/b",
        "/v1/..%2fadmin",
        "/v1/a%2f..%2fadmin",
        "/v1/..%5cadmin",
        "/v1/..\\admin",
        "/v1/..;x=1/admin",
        "/v1/x;y=1/z",
        "/v1/..%3b/admin",
        "/v1//chat",
        "/v1/%2fchat",
        "/api/../metrics",
        "/v1/files/",
        "/v1/models/",
        "/v1/Models/m",
        "/v1/models%2fm",
        "/v1/chat%252fcompletions",
        "/v1/re%C5%BFponses",
        "/v1/responses%25252525252f",
        "/api/blobs%5Csha256:1",
        "/api/delete%00",
        "/api/delete%23",
        "/api/DELETE",
        "/openai/v1/Responses",
    ] {
        let route = classify(&Method::GET, path);
        assert!(matches!(route, Err(Fault::InvalidRequest(_))), "{path}: {route:?}");
    }
    for path in ["/v1/jobs/a%2Fb", "/v1/a.b/..c/", "/v1/jobs/%", "/v1/.hidden", "/v1/Jobs/A"] {
        assert_eq!(
            classify(&Method::GET, path),
            proxied(Api::OpenAi, RequestKind::Other),
            "{path}"
        );
    }
}

/// A route of Envoy or a server may have a prefix, which no lock may depend on.
#[test]
fn x05_a_path_that_ends_with_a_known_path_is_that_path() {
    for (path, expected) in [
        ("/llm/v1/chat/completions", (Api::OpenAi, RequestKind::Chat)),
        ("/api/llm/v1/responses", (Api::OpenAi, RequestKind::Response)),
        ("/v1/team/api/generate", (Api::Ollama, RequestKind::Completion)),
        ("/openai/deployments/m/embeddings", (Api::OpenAi, RequestKind::Embedding)),
        ("/llm/v1/chat/completions/x", (Api::OpenAi, RequestKind::Other)),
        ("/chat/completions", (Api::OpenAi, RequestKind::Other)),
    ] {
        assert_eq!(work(&Method::POST, path), expected, "{path}");
        assert_eq!(work(&Method::GET, path).1, RequestKind::Other, "{path}");
    }
    for path in ["/api/delete", "/llm/api/blobs/a", "/openai/v1/load_lora_adapter"] {
        assert!(changes_models(&Method::POST, path), "{path}");
        assert!(!changes_models(&Method::GET, path), "{path}");
    }
    assert!(!changes_models(&Method::POST, "/api/delete/x"));
    for path in ["/llm/v1/x", "/api/ps", "/llm/score", "/openai/deployments/m/embeddings"] {
        assert!(is_offered(path), "{path}");
    }
    assert!(!is_offered("/sleep") && !is_offered("/v1") && !is_offered("/llm/reset_prefix_cache"));
}

#[test]
fn x03_unknown_paths_are_refused() {
    assert_eq!(code(posted("/admin", b"{}")), "not_found");
    assert_eq!(code(posted("/v1/../admin", b"{}")), "invalid_request");
}
