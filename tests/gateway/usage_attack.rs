//! X05: a tenant that tries to spoil what its requests are charged with, by look-alikes of usage in
//! what an engine repeats of them, and by responses without usage.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::scripted_response::{delta, event};
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// What a client writes so that its tokens look cached, or not used at all.
const FORGED: &str = "{\"cached_tokens\":1000000000,\"input_tokens\":0,\"output_tokens\":0,\
    \"input_tokens_details\":{\"cached_tokens\":1000000000}}";
/// What the engine reports.
const USED: &str = "{\"input_tokens\":10000,\"input_tokens_details\":{\"cached_tokens\":0},\
    \"output_tokens\":100,\"output_tokens_details\":{\"reasoning_tokens\":90}}";
/// The fields of a request that `/v1/responses` repeats.
const REPEATED: [&str; 4] = ["tools", "metadata", "text", "user"];
const QUOTA: u64 = 100_000;

/// The places where a client puts its look-alike: the name of the tenant that tries it, the field
/// and its value.
fn places() -> Vec<(&'static str, &'static str, Value)> {
    let forged: Value = serde_json::from_str(FORGED).unwrap();
    let usage = json!({"usage": forged});
    let tools = json!([{"type": "function", "name": "f", "parameters": {"properties": usage}}]);
    let format = json!({"type": "json_schema", "name": "s", "schema": {"response": usage}});
    vec![
        ("none", "user", json!("")),
        ("tools", "tools", tools),
        ("metadata", "metadata", json!({"usage": forged, "response": usage, "message": usage})),
        ("text", "text", json!({"format": format})),
        ("user", "user", json!(usage.to_string())),
        ("ollama", "metadata", json!({"prompt_eval_count": 0, "eval_count": 0})),
    ]
}

/// A request with this look-alike.
fn ask(field: &str, value: &Value, streamed: bool) -> HttpRequest {
    let body = json!({"model": "m", "input": "hello", "stream": streamed, field: value});
    HttpRequest::post("/v1/responses", body.to_string())
}

/// The JSON of a response of an engine that repeats what it was sent, before its report and after.
fn response(seen: &Value, status: &str, used: &str) -> String {
    let repeated: String =
        REPEATED.iter().map(|field| format!("{field:?}:{},", seen[field])).collect();
    let message = r#"[{"type":"message","content":[{"type":"output_text","text":"the tide"}]}]"#;
    format!(
        "{{\"id\":\"r\",\"object\":\"response\",{repeated}\"status\":{status:?},\
         \"output\":{message},\"usage\":{used},{repeated}\"model\":\"m\"}}"
    )
}

/// An engine with `/v1/responses`, whole and as a stream.
fn engine() -> Backend {
    Backend::start(|seen| {
        let seen = seen.json();
        if seen["stream"] != true {
            return ScriptedResponse::json(200, &response(&seen, "completed", USED));
        }
        let of = |kind: &str, used: &str| {
            let (kind, status) = (format!("response.{kind}"), kind);
            let response = response(&seen, status, used);
            event(&format!("{{\"response\":{response},\"type\":{kind:?}}}"))
        };
        let text = event(r#"{"type":"response.output_text.delta","delta":"the tide"}"#);
        ScriptedResponse::stream(&[&of("created", "null"), &text, &of("completed", USED)])
    })
}

fn accounts(keys: &Keys) -> String {
    let file: PathBuf = keys.file().with_file_name("usage.db");
    format!("{}[usage]\nfile = {file:?}\n", keys.section())
}

fn sum(rows: &Value, field: &str) -> u64 {
    rows["data"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum()
}

/// The rows of a tenant, once so many requests are in them.
fn rows(gateway: &Gateway, key: &str, requests: u64) -> Value {
    eventually("accounted", || {
        let rows = gateway.ask(&HttpRequest::get("/usage").key(key)).json();
        if sum(&rows, "requests") >= requests { Ok(rows) } else { Err(rows.to_string()) }
    })
}

/// A gateway with one tenant and its key.
fn one_tenant(keys: &Keys, sections: &str, backend: &Backend) -> (Gateway, String) {
    let key = keys.tenant("alpha", "a");
    let sections = format!("{}[[tenants]]\nname = \"alpha\"\n{sections}", accounts(keys));
    (Gateway::launch(&config(&sections, &[("one", backend.address())])), key)
}

/// The prompt, cached and completion tokens that these requests were charged with.
pub(super) fn charged(backend: &Backend, asks: &[HttpRequest]) -> [u64; 3] {
    let keys = Keys::new();
    let (gateway, key) = one_tenant(&keys, "", backend);
    for ask in asks {
        assert_eq!(gateway.ask(&ask.clone().key(&key)).status, 200);
    }
    let rows = rows(&gateway, &key, asks.len() as u64);
    ["prompt_tokens", "cached_tokens", "completion_tokens"].map(|field| sum(&rows, field))
}

/// 400 requests of 10,100 tokens each against a quota of 100,000: ten use it up, wherever a
/// look-alike stands, also after a restart.
#[test]
fn x05_no_look_alike_of_usage_passes_a_quota() {
    let (keys, backend) = (Keys::new(), engine());
    let cases: Vec<_> = places()
        .into_iter()
        .flat_map(|(name, field, value)| {
            [false, true]
                .map(|streamed| (format!("{name}-{streamed}"), ask(field, &value, streamed)))
        })
        .map(|(name, ask)| (keys.tenant(&name, "a"), name, ask))
        .collect();
    let tenants: String = cases
        .iter()
        .map(|(_, name, _)| {
            format!(
                "[[tenants]]\nname = {name:?}\ntokens_per_day = {QUOTA}\non_quota = \"refuse\"\n"
            )
        })
        .collect();
    let text = config(&format!("{}{tenants}", accounts(&keys)), &[("one", backend.address())]);
    let mut gateway = Gateway::launch(&text);
    let pass = |gateway: &Gateway, ask: &HttpRequest, key: &str, count: usize| {
        let ask = ask.clone().key(key);
        (0..count).filter(|_| gateway.ask(&ask).status == 200).count() as u64
    };
    for (at, (key, name, ask)) in cases.iter().enumerate() {
        let passed = pass(&gateway, ask, key, if at == 2 { 400 } else { 40 });
        // The eleventh may come before the tenth is settled.
        assert!((10..=11).contains(&passed), "{name}: {passed}");
        let rows = rows(&gateway, key, passed);
        assert_eq!(sum(&rows, "prompt_tokens"), 10_000 * passed, "{name}: {rows}");
        assert_eq!(sum(&rows, "cached_tokens"), 0, "{name}: {rows}");
        assert_eq!(sum(&rows, "completion_tokens"), 100 * passed, "{name}: {rows}");
    }
    gateway.process.kill();
    gateway = Gateway::launch(&text);
    for (key, name, ask) in &cases {
        assert_eq!(pass(&gateway, ask, key, 2), 0, "{name} after a restart");
    }
}

/// The other APIs, with a look-alike in every text that could hold one.
#[test]
fn x05_usage_is_read_where_each_api_has_it() {
    let forged = format!("{{\"usage\":{FORGED},\"eval_count\":0,\"prompt_eval_count\":0}}");
    let text = json!(forged).to_string();
    let line =
        |rest: &str| format!("{{\"x\":{forged},\"message\":{{\"content\":{text}}},{rest}}}\n");
    let lines =
        line("\"done\":false") + &line("\"done\":true,\"prompt_eval_count\":70,\"eval_count\":30");
    let tools = format!("[{{\"function\":{{\"arguments\":{text}}},\"usage\":{FORGED}}}]");
    let delta_of = |text: &str| format!("{{\"choices\":[{{\"delta\":{{\"content\":{text}}}}}]}}");
    let used = "\"usage\":{\"prompt_tokens\":70,\"completion_tokens\":30,\
        \"prompt_tokens_details\":{\"cached_tokens\":20}}";
    let chat_stream = [
        event(&delta_of(&text)),
        event(&format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":{tools}}}}}]}}")),
        event(&format!("{{\"choices\":[],{used}}}")),
        event("[DONE]"),
    ]
    .concat();
    let message_start = format!(
        "{{\"message\":{{\"id\":\"i\",\"content\":[],\"metadata\":{{\"usage\":{FORGED}}},\
         \"usage\":{{\"input_tokens\":50,\"cache_read_input_tokens\":20,\"output_tokens\":1}}}},\
         \"type\":\"message_start\"}}"
    );
    let messages = [
        event(&message_start),
        event(&format!(
            "{{\"type\":\"content_block_delta\",\"delta\":{{\"type\":\"text_delta\",\
             \"text\":{text}}}}}"
        )),
        event("{\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":30}}"),
    ]
    .concat();
    let whole = format!("{{\"x\":[{forged}],{used},\"choices\":[{{\"message\":{forged}}}]}}");
    let vector = format!(
        "{{\"data\":[{{\"embedding\":[0.5],\"x\":{forged}}}],\"usage\":{{\"prompt_tokens\":70}}}}"
    );
    for (path, kind, body, cached, output) in [
        ("/v1/chat/completions", "application/json", whole.clone(), 20, 30),
        ("/v1/completions", "application/json", whole, 20, 30),
        ("/v1/embeddings", "application/json", vector, 0, 0),
        ("/v1/chat/completions", "text/event-stream", chat_stream, 20, 30),
        ("/v1/messages", "text/event-stream; charset=utf-8", messages, 20, 30),
        ("/api/chat", "application/x-ndjson", lines, 0, 30),
    ] {
        // Cut at every kind of place, and whole.
        for size in [1, 7, body.len()] {
            let pieces = body.clone();
            let backend = Backend::start(move |_| {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
                );
                let pieces = pieces.as_bytes().chunks(size).map(chunk).collect::<Vec<_>>();
                ScriptedResponse::raw(
                    [head.into_bytes(), pieces.concat(), b"0\r\n\r\n".to_vec()].concat(),
                )
            });
            let ask = json!({"model": "m", "messages": [], "input": "x", "prompt": "x"});
            let ask = HttpRequest::post(path, ask.to_string());
            let got = charged(&backend, &[ask]);
            assert_eq!(got, [70, cached, output], "{path} as {kind} in pieces of {size}");
        }
    }
}

/// Tokens that passed are a floor, the report of an engine is bounded, and nothing is cached that
/// is no prompt.
#[test]
fn x05_what_is_reported_is_bounded_by_what_passed_and_by_reason() {
    let stream = |usage: &str| {
        let words = ["the ", "tide ", "turns"].map(delta).concat();
        let usage = event(&format!("{{\"choices\":[],\"usage\":{usage}}}"));
        Backend::start(move |_| ScriptedResponse::stream(&[&words, &usage]))
    };
    let ask = [chat("m").streamed()];
    let low = stream("{\"prompt_tokens\":7,\"completion_tokens\":0}");
    assert_eq!(charged(&low, &ask), [7, 0, 3]);
    let cached = "{\"prompt_tokens\":7,\"completion_tokens\":3,\
        \"prompt_tokens_details\":{\"cached_tokens\":900}}";
    assert_eq!(charged(&stream(cached), &ask), [7, 7, 3]);
    let huge = "{\"prompt_tokens\":100000000000000000,\"completion_tokens\":100000000000000000}";
    let [prompt, _, output] = charged(&stream(huge), &ask);
    for tokens in [prompt, output] {
        assert!((1 << 20..2 << 20).contains(&tokens), "{tokens}");
    }
}

/// A response without usage costs what its text looks like, streamed or whole.
#[test]
fn x05_a_response_without_usage_is_charged_by_its_length() {
    let text = "The tide rises now. ".repeat(100);
    let message = json!({"message": {"role": "assistant", "content": text}});
    let body = json!({"choices": [message], "usage": null}).to_string();
    let whole = Backend::start(move |_| ScriptedResponse::json(200, &body));
    let [prompt, _, output] = charged(&whole, &[chat("m").with("max_tokens", 1)]);
    assert!((1..=50).contains(&prompt) && (500..=520).contains(&output), "{prompt} {output}");
    // Twenty words in each event, as from an engine that sends its tokens in groups.
    let events = delta(&"The tide rises now. ".repeat(5)).repeat(20);
    let stream = Backend::start(move |_| ScriptedResponse::stream(&[&events, &event("[DONE]")]));
    let [_, _, output] = charged(&stream, &[chat("m").streamed()]);
    assert!((500..=520).contains(&output), "{output}");
}

/// What only reads uses nothing: a stored response has its usage a second time.
#[test]
fn x05_a_stored_response_is_charged_once() {
    let asks = [ask("user", &json!("a"), false), HttpRequest::get("/v1/responses/r")];
    let backend = Backend::start(|seen| {
        let seen = if seen.method == "GET" { Value::Null } else { seen.json() };
        ScriptedResponse::json(200, &response(&seen, "completed", USED))
    });
    assert_eq!(charged(&backend, &asks), [10_000, 0, 100]);
}

/// The tokens of a response that is made later are known to nobody.
#[test]
fn x05_a_response_in_the_background_is_refused_where_tokens_are_charged() {
    let (keys, backend) = (Keys::new(), engine());
    let (gateway, key) = one_tenant(&keys, "", &backend);
    let background = |value: Value| ask("background", &value, false);
    let refused = |gateway: &Gateway, ask: &HttpRequest| {
        let answer = gateway.ask(ask);
        assert_eq!((answer.status, &*answer.code()), (400, "invalid_request"), "{}", answer.text());
        assert!(answer.text().contains("'background'"), "{}", answer.text());
    };
    // A server may take each of these for true.
    for value in [json!(true), json!("true"), json!("yes"), json!(1), json!(1.0)] {
        refused(&gateway, &background(value).key(&key));
    }
    for value in [json!(false), Value::Null] {
        assert_eq!(gateway.ask(&background(value).key(&key)).status, 200);
    }
    let twice = "{\"model\":\"m\",\"input\":\"x\",\"background\":true,\"background\":false}";
    refused(&gateway, &HttpRequest::post("/v1/responses", twice).key(&key));
    assert_eq!(backend.seen().len(), 2);
    let fair = Gateway::before("[queue]\ncost = \"tokens\"\n", &backend);
    refused(&fair, &background(json!(true)));
    let open = Gateway::before("", &backend);
    assert_eq!(open.ask(&background(json!(true))).status, 200);
}

/// A piece of a body as a chunk of HTTP/1.1.
fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

/// LM Studio tells its counts inside the last event.
#[test]
fn x05_usage_of_a_stream_of_lm_studio_is_read_from_its_last_event() {
    let long = "The tide rises now. ".repeat(20);
    let piece = |kind: &str| event(&json!({"type": kind, "content": long}).to_string());
    let pieces = [piece("reasoning.delta"), piece("message.delta")].concat();
    let start = event("{\"type\":\"chat.start\",\"model_instance_id\":\"m\"}");
    let end = event(
        &json!({"type": "chat.end", "result": {"output": [{"content": "stats"}], "stats":
            {"input_tokens": 10_000, "total_output_tokens": 2500}}})
        .to_string(),
    );
    let ask = json!({"model": "m", "input": "go on", "previous_response_id": "r", "stream": true});
    let ask = [HttpRequest::post("/api/v1/chat", ask.to_string())];
    let (whole, cut) = ([&*start, &pieces, &end].concat(), start + &pieces.repeat(5));
    let whole = Backend::start(move |_| ScriptedResponse::stream(&[&whole]));
    assert_eq!(charged(&whole, &ask), [10_000, 0, 2500]);
    // Ten texts of 400 bytes.
    let cut = Backend::start(move |_| ScriptedResponse::stream(&[&cut]));
    assert_eq!(charged(&cut, &ask)[2], 1000);
}

/// An engine that reports zeros has counted nothing.
#[test]
fn x05_a_report_of_nothing_beside_a_text_is_none() {
    let words = "The tide rises now. ".repeat(500);
    let usage = json!({"prompt_tokens": 0, "completion_tokens": 0});
    let body = json!({"choices": [{"message": {"content": words}}], "usage": usage}).to_string();
    let whole = Backend::start(move |_| ScriptedResponse::json(200, &body));
    let events = delta(&words) + &event(&json!({"choices": [], "usage": usage}).to_string());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\n";
    let stream = format!("{head}content-length: {}\r\n\r\n{events}", events.len());
    let stream = Backend::start(move |_| ScriptedResponse::raw(stream.as_str()));
    for (backend, ask) in [(whole, chat("m")), (stream, chat("m").streamed())] {
        let [prompt, _, output] = charged(&backend, &[ask]);
        assert!(prompt > 0 && (2500..2510).contains(&output), "{prompt} {output}");
    }
}
