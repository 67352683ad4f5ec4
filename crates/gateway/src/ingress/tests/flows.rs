//! Q01, Q04: the flow of a request, and its estimated cost.

use flow::FlowClass;
use flow::identity::ClassRule;

use super::*;
use crate::config::settings::Cost;

fn by(parts: &[Attribute]) -> Config {
    let identity = Identity { parts: parts.to_vec(), ..Identity::default() };
    Config { identity, ..Config::default() }
}

#[test]
fn q01_a_flow_is_named_by_the_configured_attributes() {
    let headers = [
        ("x-team", "blue"),
        ("x-workload-context", r#"{"workload_id":"etl"}"#),
        ("x-gateway-inference-fairness-id", "old"),
        ("x-llm-d-inference-fairness-id", "new"),
    ];
    let flow = |parts: &[Attribute]| chat(&by(parts), &headers).flow;
    assert_eq!(flow(&[Attribute::Model]), "llama");
    assert_eq!(flow(&[Attribute::TargetModel]), "llama");
    assert_eq!(flow(&[Attribute::Workload]), "etl");
    assert_eq!(flow(&[Attribute::FairnessId]), "new");
    assert_eq!(flow(&[Attribute::Header("x-team".into())]), "blue");
    assert_eq!(flow(&[Attribute::Header("x-team".into()), Attribute::Model]), "blue/llama");
    assert_eq!(flow(&[Attribute::Tenant]), "-");
}

#[test]
fn q01_requests_that_omit_the_value_share_one_flow() {
    let team = by(&[Attribute::Header("x-team".into())]);
    assert_eq!(chat(&team, &[]).flow, "-");
    assert_eq!(chat(&team, &[("x-team", "")]).flow, "-");
    assert_eq!(chat(&by(&[Attribute::Workload]), &[("x-workload-context", "{}")]).flow, "-");
    let bytes: [(&str, &[u8]); 1] = [("x-team", b"\xff")];
    let parts = parts(Method::POST, CHAT, &bytes);
    let body = Bytes::from_static(br#"{"model":"llama"}"#);
    assert_eq!(read(&team, &parts, body, 0).unwrap().0.flow, "-", "not text: not there");
    let get = super::parts(Method::GET, "/v1/fine_tuning/jobs", &[]);
    assert_eq!(read(&Config::default(), &get, Bytes::new(), 0).unwrap().0.flow, "-");
}

#[test]
fn q01_rules_give_classes_also_by_headers_that_name_no_flow() {
    let rule = |patterns: &[(Attribute, &str)], class| {
        let patterns = patterns.iter().map(|(part, text)| (part.clone(), (*text).into()));
        ClassRule { patterns: patterns.collect(), class }
    };
    let rules = vec![
        rule(&[(Attribute::Header("x-team".into()), "red*")], 2),
        rule(&[(Attribute::Model, "lla*"), (Attribute::Header("x-team".into()), "blue")], 1),
    ];
    let identity = Identity { rules, ..Identity::default() };
    let mut config = Config { identity, ..Config::default() };
    assert_eq!(chat(&config, &[("x-team", "redder")]).class, 2);
    assert_eq!(chat(&config, &[("x-team", "blue")]).class, 1);
    assert_eq!(chat(&config, &[]).class, 0);

    // A client may shorten the time to live of its class.
    let short = FlowClass { ttl: Span::from_secs(1), ..config.flow.default_class };
    config.flow.classes = vec![short];
    config.flow.default_class.ttl = Span::from_secs(30);
    let ttl =
        |team, asked| chat(&config, &[("x-team", team), ("x-llm-d-inference-ttl", asked)]).ttl;
    assert_eq!(ttl("blue", "500ms"), Some(Span::from_millis(500)));
    assert_eq!(ttl("blue", "10s"), Some(Span::from_secs(1)));
    assert_eq!(ttl("none", "10s"), Some(Span::from_secs(10)));
    assert_eq!(ttl("none", "1h"), Some(Span::from_secs(30)));
    assert_eq!(ttl("none", "soon"), None);
}

fn estimate(path: &str, body: &str) -> (u64, u64) {
    let (intent, _) = posted(path, body.as_bytes()).unwrap();
    (intent.prompt, intent.tokens)
}

#[test]
fn q04_tokens_are_estimated_from_text_and_limits() {
    let text = "x ".repeat(200);
    let (prompt, tokens) =
        estimate("/v1/completions", &format!(r#"{{"model":"m","prompt":"{text}"}}"#));
    assert_eq!((prompt, tokens), (100, 100 + 256), "an answer without a limit is of common length");
    let limits = [
        (r#""max_tokens":7"#, 7),
        (r#""max_completion_tokens":7"#, 7),
        (r#""max_output_tokens":7"#, 7),
        (r#""n_predict":7"#, 7),
        (r#""options":{"temperature":0.5,"num_predict":7,"stop":["x"]}"#, 7),
        (r#""options":null"#, 256),
        (r#""max_tokens":7,"n":3"#, 21),
        (r#""max_tokens":7,"n":null"#, 7),
        (r#""max_tokens":70,"max_completion_tokens":7"#, 70),
        (r#""max_tokens":null"#, 256),
        (r#""max_tokens":-1"#, 256),
        (r#""max_tokens":-1.0"#, 256),
        (r#""max_tokens":7.0"#, 7),
        (r#""max_tokens":0"#, 0),
        (r#""max_tokens":[7],"n":[1]"#, 256),
        (r#""n_predict":-1,"n":0"#, 256),
    ];
    for (limit, output) in limits {
        let body = format!(r#"{{"model":"m","prompt":"abcd",{limit}}}"#);
        assert_eq!(estimate("/v1/completions", &body), (1, 1 + output), "{limit}");
    }
    assert_eq!(estimate("/v1/embeddings", r#"{"model":"m","input":"abcdefgh"}"#), (2, 2));
    let tokens = r#"{"model":"m","input":[[1,2,3],[4,5,6]]}"#;
    assert_eq!(estimate("/v1/embeddings", tokens), (6, 6), "numbers are tokens");
    let absurd = format!(r#"{{"model":"m","max_tokens":{},"n":{}}}"#, u64::MAX, u64::MAX);
    assert_eq!(estimate(CHAT, &absurd).1, u64::MAX);
}

#[test]
fn q04_pictures_count_by_the_piece() {
    let base64 = "iVBORw0KGgo".repeat(10_000);
    let chat = |part: String| {
        let text = r#"{"type":"text","text":"What is this?"}"#;
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{text},{part}]}}]}}"#)
    };
    let image = |url| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
    let of = |body: String| estimate(CHAT, &body).0;
    for part in [
        image(format!("data:image/png;base64,{base64}")),
        image("https://example.org/cat.png".into()),
        format!(r#"{{"type":"input_image","image_url":"data:image/png;base64,{base64}"}}"#),
        format!(r#"{{"type":"input_audio","input_audio":{{"data":"{base64}","format":"wav"}}}}"#),
        format!(r#"{{"type":"input_file","file_data":"data:application/pdf;base64,{base64}"}}"#),
    ] {
        let tokens = of(chat(part));
        assert!((600..660).contains(&tokens), "{tokens}");
    }
    let ollama = format!(r#"{{"model":"m","prompt":"","images":["{base64}","{base64}"]}}"#);
    assert_eq!(estimate("/api/generate", &ollama).0, 1200);
    let prose = "words ".repeat(1000);
    assert_eq!(
        estimate("/api/generate", &format!(r#"{{"model":"m","prompt":"{prose}"}}"#)).0,
        1500
    );
}

#[test]
fn q04_the_queue_charges_in_its_own_unit() {
    let body = r#"{"model":"m","prompt":"abcdabcd","max_tokens":10}"#;
    let cost = |unit| {
        let config = Config { cost: unit, ..Config::default() };
        let parts = parts(Method::POST, "/v1/completions", &[]);
        read(&config, &parts, Bytes::from_static(body.as_bytes()), 0).unwrap().0.cost
    };
    assert_eq!(cost(Cost::Requests), 1);
    assert_eq!(cost(Cost::Tokens), 12);
    assert_eq!(cost(Cost::Bytes), body.len() as u64);
}

/// A hundred prompts are a hundred responses, and one text against forty is read forty times.
#[test]
fn q04_lists_count_by_their_work() {
    let list = |count: usize| vec!["\"abcdef\""; count].join(",");
    let of = |path: &str, fields: &str| estimate(path, &format!("{{\"model\":\"m\",{fields}}}"));
    let many = format!("\"prompt\":[{}],\"max_tokens\":10", list(100));
    assert_eq!(of("/v1/completions", &many), (200, 200 + 1000));
    assert_eq!(of("/v1/completions", &format!("{many},\"n\":2")), (200, 200 + 2000));
    let tokens = "\"prompt\":[1,2,3],\"max_tokens\":10";
    assert_eq!(of("/v1/completions", tokens), (3, 13), "one prompt of tokens");
    let lists = "\"prompt\":[[1,2,3],[4,5,6]],\"max_tokens\":10";
    assert_eq!(of("/v1/completions", lists), (6, 26));
    let query = "q".repeat(400);
    let score = format!("\"text_1\":\"{query}\",\"text_2\":[{}]", list(40));
    assert_eq!(of("/v1/score", &score).0, 40 * 100 + 80);
    let pairs = format!("\"text_1\":[{}],\"text_2\":[{}]", list(40), list(40));
    assert_eq!(of("/v1/score", &pairs).0, 160);
}

/// Whatever the gateway does not know is text, and a body without fields, too.
#[test]
fn q04_what_cannot_be_classified_is_text() {
    let text = "x".repeat(400);
    let of = |fields: &str| {
        estimate(CHAT, &format!("{{\"model\":\"m\",\"prompt\":\"abcd\",{fields}}}")).0
    };
    for unknown in [
        format!("\"extra\":\"{text}\""),
        format!("\"extra\":[\"{}\"]", &text[2..]),
        format!("\"chat_template_kwargs\":{{\"a\":\"{}\"}}", &text[5..]),
    ] {
        assert_eq!(of(&unknown), 101, "{unknown}");
    }
    for beside in ["metadata", "stop", "user"] {
        assert_eq!(of(&format!("\"{beside}\":\"{text}\"")), 1, "{beside}");
    }
    assert_eq!(of("\"temperature\":0.7,\"stream\":true,\"seed\":null"), 1);
    assert_eq!(estimate("/v1/other", &format!("[\"{text}\"]")).0, 101);
}

#[test]
fn q04_a_form_counts_its_text_and_its_files() {
    let part = |disposition: &str, value: &str| {
        format!("--B\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{value}\r\n")
    };
    let file = part("name=\"file\"; filename=\"a\"", &"R".repeat(100_000));
    let text = part("name=\"prompt\"", &"x".repeat(400));
    let kind = [("content-type", &b"multipart/form-data; boundary=B"[..])];
    let parts = parts(Method::POST, "/v1/audio/transcriptions", &kind);
    let prompt = |form: &str| {
        let body = Bytes::from(format!("{form}--B--\r\n"));
        read(&Config::default(), &parts, body, 0).unwrap().0.prompt
    };
    assert_eq!(prompt(&file), 600);
    assert_eq!(prompt(&format!("{file}{text}")), 700);
}
