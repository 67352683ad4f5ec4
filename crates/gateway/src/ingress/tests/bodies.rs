//! R10, X01: models in bodies, and rewritten bodies.

use flow::{ModelNameRule, ModelNames};
use proptest::prelude::*;

use super::*;

const KNOWN: [&str; 8] = [
    CHAT,
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/api/chat",
    "/api/generate",
    "/api/embed",
    "/api/embeddings",
];

/// `chat` resolves to `target`, `split` to two others.
fn aliased(target: &str) -> Config {
    let rule = |name: &str, targets: &[(&str, u32)]| ModelNameRule {
        name: name.into(),
        band: None,
        targets: targets.iter().map(|(model, weight)| ((*model).into(), *weight)).collect(),
    };
    let rules = [rule("chat", &[(target, 1)]), rule("split", &[("a", 9), ("b", 1)])];
    Config { names: ModelNames::new(&rules).unwrap(), ..Config::default() }
}

fn rewritten(config: &Config, body: &str, draw: u64) -> (Box<Intent>, String) {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let (intent, body) = read(config, &parts(Method::POST, CHAT, &[]), body, draw).unwrap();
    (intent, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn x02_a_router_may_name_the_model_that_answers() {
    let body = Bytes::from_static(br#"{"model":"chat","n":1}"#);
    for name in ["x-gateway-model-name-rewrite", "x-llm-d-model-name-rewrite"] {
        let parts = parts(Method::POST, CHAT, &[(name, b"llama")]);
        let (intent, sent) = read(&aliased("b"), &parts, body.clone(), 0).unwrap();
        assert_eq!(
            (intent.model.as_deref(), intent.target.as_deref()),
            (Some("chat"), Some("llama"))
        );
        assert_eq!(&sent[..], br#"{"model":"llama","n":1}"#);
    }
    let parts = parts(Method::POST, CHAT, &[("x-llm-d-model-name-rewrite", b"")]);
    let (intent, _) = read(&Config::default(), &parts, body, 0).unwrap();
    assert_eq!(intent.target.as_deref(), Some("chat"), "an empty name is none");
}

#[test]
fn x01_known_paths_need_a_model() {
    for path in KNOWN {
        let (intent, body) = posted(path, br#"{"model":"org/llama:8b"}"#).unwrap();
        assert_eq!(intent.model.as_deref(), Some("org/llama:8b"), "{path}");
        assert_eq!(intent.target, intent.model);
        assert_eq!(&body[..], br#"{"model":"org/llama:8b"}"#);
        let Err(Fault::InvalidModel(text)) = posted(path, b"{}") else { panic!("{path}") };
        assert!(text.contains("missing"), "{text}");
    }
}

#[test]
fn x01_a_model_is_a_short_visible_string_and_there_is_one() {
    let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(257));
    for body in [
        r#"{"model":7}"#,
        r#"{"model":null}"#,
        r#"{"model":["m"]}"#,
        r#"{"model":{"a":"m"}}"#,
        r#"{"model":""}"#,
        r#"{"model":"a\u0000b"}"#,
        r#"{"model":"a\nb"}"#,
        r#"{"model":"a\u0085b"}"#,
        r#"{"model":"a","model":"a"}"#,
        r#"{"model":"a","x":1,"mod\u0065l":"b"}"#,
        &long,
    ] {
        let result = posted(CHAT, body.as_bytes());
        assert!(matches!(result, Err(Fault::InvalidModel(_))), "{body}: {result:?}");
    }
    let nested = br#"{"a":{"model":"x"},"model":"m","tools":[{"model":"y"}]}"#;
    assert_eq!(posted(CHAT, nested).unwrap().0.model.as_deref(), Some("m"));
    let longest = format!(r#"{{"model":"{}"}}"#, "m".repeat(256));
    assert_eq!(code(posted(CHAT, longest.as_bytes())), "ok");
}

#[test]
fn x05_a_description_names_one_model() {
    let described =
        |body: &str| posted("/api/show", body.as_bytes()).map(|(intent, _)| intent.model);
    for body in [
        r#"{"name":"m"}"#,
        r#"{"model":"","name":"m"}"#,
        r#"{"model":"m","name":""}"#,
        r#"{"model":"m","name":"m"}"#,
    ] {
        assert_eq!(described(body).unwrap().as_deref(), Some("m"), "{body}");
    }
    for body in [
        r#"{"model":"m","name":"x"}"#,
        r#"{"name":"x","name":"m"}"#,
        r#"{"Name":"x","name":"m"}"#,
        r#"{"name":"m","NAME":"x"}"#,
        r#"{"model":"m","Name":"x"}"#,
    ] {
        assert!(matches!(described(body), Err(Fault::InvalidModel(_))), "{body}");
    }
    // No other path reads the name.
    assert_eq!(code(posted(CHAT, br#"{"model":"m","name":"x","Name":"y"}"#)), "ok");
}

#[test]
fn x01_other_paths_use_a_model_where_they_have_one() {
    let model = |kind: &str, body: &str| {
        let headers: Vec<(&str, &[u8])> = match kind {
            "" => Vec::new(),
            kind => vec![("content-type", kind.as_bytes())],
        };
        let parts = parts(Method::POST, "/v1/rerank", &headers);
        let body = Bytes::copy_from_slice(body.as_bytes());
        let (intent, sent) = read(&Config::default(), &parts, body.clone(), 0).unwrap();
        assert_eq!(sent, body);
        intent.model
    };
    let named = r#"{"model":"m"}"#;
    for kind in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "",
        "application/x-www-form-urlencoded",
    ] {
        assert_eq!(model(kind, named).as_deref(), Some("m"), "{kind}");
    }
    // Some servers read JSON whatever its type is.
    assert_eq!(model("application/octet-stream", named).as_deref(), Some("m"));
    for body in ["", "{}", "[1]", "no json", r#"{"model":null}"#] {
        assert_eq!(model("application/json", body), None, "{body}");
    }
    assert_eq!(code(posted("/v1/rerank", br#"{"model":7}"#)), "invalid_request");
    let twice = br#"{"model":"a","model":"b"}"#;
    assert_eq!(code(posted("/v1/rerank", twice)), "invalid_request");
    for method in [Method::GET, Method::HEAD, Method::DELETE] {
        let parts = parts(method, "/v1/responses/r1", &[]);
        let (intent, body) = read(&Config::default(), &parts, Bytes::new(), 0).unwrap();
        assert_eq!((intent.model, intent.target, body.len()), (None, None, 0));
    }
}

#[test]
fn x05_what_begins_as_an_object_is_one_whatever_its_type() {
    for body in [
        r#"{"model":"m","max_tokens":1,"Max_Tokens":9999}"#,
        r#"{"model":"m"}{}"#,
        "{\"model\":\"m\"}\n{\"model\":\"n\"}\n",
        r#"{"model":"m","n":"9"}"#,
        "{\"model\":\"m\"}\u{0}",
        r#"{"model":"m""#,
    ] {
        for kind in
            ["application/json", "application/octet-stream", "application/x-ndjson", "a/b", "?"]
        {
            let read = typed("/v1/messages", kind, body);
            assert_eq!(code(read), "invalid_request", "{kind} {body}");
        }
    }
}

/// Curl labels JSON as a form unless it is told otherwise. No other form is without files.
#[test]
fn x05_a_body_that_is_labelled_as_a_form_is_json() {
    let kind = "Application/X-www-form-urlencoded; charset=utf-8";
    for path in ["/v1/messages", CHAT] {
        let read = |kind, body| typed(path, kind, body);
        let (intent, _) = read(kind, r#"{"model":"m","prompt":"&model=x&"}"#).unwrap();
        assert_eq!((intent.model.as_deref(), intent.mislabelled), (Some("m"), true));
        let (intent, _) = read("application/json", r#"{"model":"m"}"#).unwrap();
        assert!(!intent.mislabelled);
        for body in ["model=m", "[1]", "%7B%22model%22:%22m%22%7D", r#"{"model":"m"}&model=x"#] {
            assert_eq!(code(read(kind, body)), "invalid_request", "{body}");
        }
    }
    let file = typed("/api/blobs/sha256:1", kind, r#"{"model":"m"}"#).unwrap().0;
    assert!(!file.mislabelled && file.model.is_none());
}

/// Each server makes something else of half a surrogate pair.
#[test]
fn x05_half_a_letter_is_refused_wherever_it_stands() {
    for body in [
        r#"{"model":"\ud800"}"#,
        r#"{"model":"m","x":"\udc00a"}"#,
        r#"{"model":"m","x":["\ud800",{"\udbffa":1}]}"#,
        r#"{"model":"m","name":"\ud800"}"#,
        r#"{"model":"m","options":{"x":"\ud800\u0041"}}"#,
    ] {
        for path in [CHAT, "/v1/messages", "/api/show"] {
            assert_eq!(code(posted(path, body.as_bytes())), "invalid_request", "{path} {body}");
        }
    }
}

fn typed(path: &str, kind: &str, body: &str) -> Result<(Box<Intent>, Bytes), Fault> {
    let parts = parts(Method::POST, path, &[("content-type", kind.as_bytes())]);
    read(&Config::default(), &parts, Bytes::copy_from_slice(body.as_bytes()), 0)
}

const FORM: &str = "--B\r\n\
    Content-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\n\
    RIFF\r\n--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat\r\n--B--\r\n";

fn form(config: &Config, kind: &str, body: &str) -> Result<(Box<Intent>, Bytes), Fault> {
    let parts =
        parts(Method::POST, "/v1/audio/transcriptions", &[("content-type", kind.as_bytes())]);
    read(config, &parts, Bytes::copy_from_slice(body.as_bytes()), 0)
}

#[test]
fn x01_a_form_names_its_model() {
    let plain = Config::default();
    for kind in ["multipart/form-data; boundary=B", "Multipart/Form-Data;x=y; Boundary=\"B\""] {
        let (intent, body) = form(&plain, kind, FORM).unwrap();
        assert_eq!(intent.model.as_deref(), Some("chat"), "{kind}");
        assert_eq!(body, FORM);
    }
    let none = |kind: &str, body: &str| form(&plain, kind, body).unwrap().0.model;
    let kind = "multipart/form-data; boundary=B";
    assert_eq!(code(form(&plain, "multipart/form-data", FORM)), "invalid_request");
    assert_eq!(none(kind, &FORM.replace("\"model\"\r\n\r\nchat", "\"other\"\r\n\r\nchat")), None);
    let far = FORM.replace("RIFF", &"x".repeat(200_000));
    assert_eq!(none(kind, &far).as_deref(), Some("chat"), "behind a file");
    let empty = FORM.replace("chat", "");
    assert_eq!(code(form(&plain, kind, &empty)), "invalid_request");
}

/// Each of these forms names the model `m` to one parser and `secret` to another.
#[test]
fn x05_a_form_that_parsers_read_differently_is_refused() {
    let part = |disposition: &str, value: &str| {
        format!("--B\r\nContent-Disposition: form-data{disposition}\r\n\r\n{value}\r\n")
    };
    let named = part("; name=\"model\"", "m");
    let file = |content: &str| part("; name=\"file\"; filename=\"f\"", content);
    let secret = part("; name=\"model\"", "secret");
    let twice = [
        part(";name=\"model\"", "secret"),
        part("; name=model", "secret"),
        part(";\tname=\"model\"", "secret"),
        part("; NAME=\"model\"", "secret"),
        file(&"x".repeat(100_000)) + &secret,
        part("; name=\"other\"; name=\"model\"", "secret"),
        part("; name=\"other\"; name*=utf-8''model", "secret"),
        part("; name=\"other\"\r\nContent-Disposition: form-data; name=\"model\"", "secret"),
        part("; name=\"other\"\r\n x: ; name=\"model\"", "secret"),
        part("; name=\"other\"\nContent-Disposition: form-data; name=\"model\"", "secret"),
        file(&format!("x\n{secret}")),
        file(&format!("x{secret}")),
    ];
    let kind = "multipart/form-data; boundary=B";
    let refused = |kind: &str, body: &str| code(form(&Config::default(), kind, body));
    for hidden in twice {
        for body in [format!("{named}{hidden}--B--"), format!("{hidden}{named}--B--")] {
            assert_eq!(refused(kind, &body), "invalid_request", "{body}");
        }
    }
    let whole = format!("{named}--B--");
    assert!(form(&Config::default(), kind, &whole).is_ok());
    for body in [
        format!("x{secret}{whole}"),
        format!("{whole}\r\n{secret}--B--"),
        named.clone(),
        format!("{named}--B"),
        whole.replace("--B", "--C"),
    ] {
        assert_eq!(refused(kind, &body), "invalid_request", "{body}");
    }
    for kind in ["; boundary=B; boundary=C", "; boundary=B; boundary*0=C", ";boundary=\"B;C\""] {
        let kind = format!("multipart/form-data{kind}");
        let read = form(&Config::default(), &kind, &whole);
        assert!(read.is_err() || read.unwrap().0.model.is_none(), "{kind}");
    }
}

#[test]
fn r10_a_forms_model_is_rewritten_in_place() {
    let kind = "multipart/form-data; boundary=B";
    let (intent, body) = form(&aliased("whisper"), kind, FORM).unwrap();
    assert_eq!(intent.target.as_deref(), Some("whisper"));
    assert_eq!(body, FORM.replace("chat", "whisper"));
}

#[test]
fn r10_only_the_models_value_is_rewritten() {
    let config = aliased("llama \"3\"\\");
    let body = "{ \"chat\" : \"chat\",\n\"model\"\t: \"chat\" , \"a\":{\"model\":\"chat\"}} ";
    let (intent, sent) = rewritten(&config, body, 0);
    assert_eq!(intent.model.as_deref(), Some("chat"));
    assert_eq!(intent.target.as_deref(), Some("llama \"3\"\\"));
    assert_eq!(sent, body.replacen("\t: \"chat\"", "\t: \"llama \\\"3\\\"\\\\\"", 1));
    let (_, sent) = rewritten(&aliased("b"), r#"{"model":"\u0063hat","x":1e5}"#, 0);
    assert_eq!(sent, r#"{"model":"b","x":1e5}"#, "an escaped name is the same name");
}

#[test]
fn r10_a_name_without_a_rule_leaves_the_body_alone() {
    let body = Bytes::from_static(br#"{"model":"llama","temperature":0.10}"#);
    let parts = parts(Method::POST, CHAT, &[]);
    let (intent, sent) = read(&aliased("b"), &parts, body.clone(), 0).unwrap();
    assert_eq!(intent.target.as_deref(), Some("llama"));
    assert_eq!(sent.as_ptr(), body.as_ptr(), "not even copied");
}

#[test]
fn r10_variants_share_by_weight() {
    let config = aliased("t");
    let target = |draw| rewritten(&config, r#"{"model":"split"}"#, draw);
    let bodies: Vec<String> = (0..10).map(|draw| target(draw).1).collect();
    assert_eq!(bodies.iter().filter(|body| *body == r#"{"model":"b"}"#).count(), 1);
    assert_eq!(bodies.iter().filter(|body| *body == r#"{"model":"a"}"#).count(), 9);
}

/// Any JSON text, with whitespace.
pub(super) fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        any::<f32>().prop_map(|number| serde_json::to_string(&number).unwrap()),
        "\\PC{0,20}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just(r#""\u00e9\\\" \/""#.to_owned()),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let key = "[a-z_]{1,8}";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(" ,"))),
            proptest::collection::vec((key, inner), 0..5).prop_map(|entries| {
                let entries: Vec<String> =
                    entries.iter().map(|(key, value)| format!("\"{key}\" : {value}")).collect();
                format!("{{ {} }}", entries.join(",\n"))
            }),
        ]
    })
}

/// Keys that are read, and others.
fn key() -> impl Strategy<Value = String> {
    const LOOKED_AT: [&str; 6] = ["messages", "prompt", "input", "user", "session", "tools"];
    prop_oneof![
        proptest::sample::select(&LOOKED_AT[..]).prop_map(str::to_owned),
        "x[a-z\u{e9}]{0,6}",
    ]
}

proptest! {
    #[test]
    fn r10_rewriting_keeps_every_other_byte(
        before in proptest::collection::vec((key(), json()), 0..5),
        after in proptest::collection::vec((key(), json()), 0..5),
        target in "\\PC{1,30}",
    ) {
        let mut keys = std::collections::BTreeSet::new();
        let mut entries = |list: &[(String, String)]| -> Vec<String> {
            let once = list.iter().filter(|(key, _)| keys.insert(key.clone()));
            once.map(|(key, value)| format!("\"{key}\":{value}")).collect()
        };
        let (before, after) = (entries(&before), entries(&after));
        let with = |model: &str| {
            let model = vec![format!("\"model\" :{model}")];
            let all = [before.clone(), model, after.clone()].concat();
            format!(" {{{}}}\n", all.join(", "))
        };
        let (intent, sent) = rewritten(&aliased(&target), &with("\"chat\""), 0);
        prop_assert_eq!(&sent, &with(&serde_json::to_string(&target).unwrap()));
        prop_assert_eq!(intent.target.as_deref(), Some(target.as_str()));
        let same = with("\"llama\"");
        prop_assert_eq!(rewritten(&aliased(&target), &same, 0).1, same);
    }
}
