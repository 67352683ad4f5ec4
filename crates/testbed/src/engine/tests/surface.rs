//! What clients of OpenAI and Ollama see.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;

use super::super::{Settings, Text, digest};
use super::{ask, chat, chat_body, fast, get, post, start};

const TOOLS: &str = r#","tools":[{"type":"function","function":{"name":"weather","parameters":
    {"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},
    "required":["city","days"]}}},{"type":"function","function":{"name":"other"}}]"#;

#[test]
fn a_chat_gets_as_many_words_as_it_requests() {
    let engine = start(fast());
    let reply = chat(&engine, r#","max_tokens":5"#);
    let json = reply.json();
    let content = json["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!((reply.status, content.split(' ').count()), (200, 5));
    assert_eq!(json["choices"][0]["finish_reason"], "length");
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8});
    assert_eq!(json["usage"], usage, "a token is four bytes of prompt");

    let json = chat(&engine, "").json();
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    assert_eq!(json["usage"]["completion_tokens"], 16);
}

#[test]
fn a_streamed_chat_has_a_role_then_one_chunk_for_each_token_and_the_usage_if_asked() {
    let engine = start(fast());
    let reply = chat(
        &engine,
        r#","stream":true,"max_completion_tokens":3,"stream_options":{"include_usage":true}"#,
    );
    assert!(reply.head.contains("content-type: text/event-stream"), "{}", reply.head);
    let events = reply.events();
    let delta = |at: usize| &events[at]["choices"][0]["delta"];
    assert_eq!(events.len(), 1 + 3 + 1 + 1, "{}", reply.body);
    assert_eq!(delta(0)["role"], "assistant");
    assert!((1..4).all(|at| delta(at)["content"].as_str().is_some_and(|word| !word.is_empty())));
    assert_eq!(events[4]["choices"][0]["finish_reason"], "length");
    assert_eq!(
        (&events[5]["choices"], &events[5]["usage"]["total_tokens"]),
        (&json!([]), &json!(6))
    );

    let events = chat(&engine, r#","stream":true,"max_tokens":1"#).events();
    assert_eq!(events.len(), 3, "no usage unless asked");
}

#[test]
fn a_tool_is_called_if_offered_and_its_result_gets_a_text() {
    let engine = start(fast());
    let call = chat(&engine, TOOLS).json()["choices"][0].clone();
    let function = &call["message"]["tool_calls"][0]["function"];
    assert_eq!(
        (&call["finish_reason"], &function["name"]),
        (&json!("tool_calls"), &json!("weather"))
    );
    let arguments = function["arguments"].as_str().unwrap();
    assert_eq!(arguments, r#"{"city":"tide","days":1}"#);

    let events = chat(&engine, &format!(r#"{TOOLS},"stream":true"#)).events();
    let deltas = events.iter().map(|event| &event["choices"][0]["delta"]["tool_calls"][0]);
    let functions = deltas.map(|call| call["function"].clone());
    let pieces: Vec<_> = functions.filter(|function| !function.is_null()).collect();
    let streamed: String = pieces.iter().map(|f| f["arguments"].as_str().unwrap()).collect();
    assert_eq!((pieces[0]["name"].as_str(), streamed.as_str()), (Some("weather"), arguments));
    assert!(pieces.len() > 3, "in pieces");

    let other =
        format!(r#"{TOOLS},"tool_choice":{{"type":"function","function":{{"name":"other"}}}}"#);
    let named = chat(&engine, &other).json();
    assert_eq!(named["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "other");
    let none = chat(&engine, &format!(r#"{TOOLS},"tool_choice":"none""#)).json();
    assert!(none["choices"][0]["message"]["content"].is_string());
    let result = r#"{"model":"m","messages":[{"role":"tool","content":"sunny"}]"#;
    let answered = post(&engine, "/v1/chat/completions", &format!("{result}{TOOLS}}}")).json();
    assert!(answered["choices"][0]["message"]["content"].is_string());
}

#[test]
fn plain_completions_come_whole_and_streamed() {
    let engine = start(fast());
    let whole = post(&engine, "/v1/completions", r#"{"model":"m","prompt":"a","max_tokens":2}"#);
    assert_eq!(whole.json()["choices"][0]["text"].as_str().unwrap().split(' ').count(), 2);
    let body = r#"{"model":"m","prompt":[1,2,3],"max_tokens":2,"stream":true}"#;
    let events = post(&engine, "/v1/completions", body).events();
    assert_eq!(events.len(), 3);
    assert_eq!(events[2]["choices"][0]["finish_reason"], "length");
}

#[test]
fn responses_come_whole_and_as_named_events_in_order() {
    let engine = start(fast());
    let body = r#"{"model":"m","input":"hello","max_output_tokens":2}"#;
    let whole = post(&engine, "/v1/responses", body).json();
    assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("completed")));
    assert!(whole["output"][0]["content"][0]["text"].is_string());

    let streamed = body.replace("\"model\"", r#""stream":true,"model""#);
    let reply = post(&engine, "/v1/responses", &streamed);
    let names: Vec<&str> =
        reply.body.lines().filter_map(|line| line.strip_prefix("event: response.")).collect();
    let expected = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(names, expected);
    let numbers = reply.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(|data| {
        serde_json::from_str::<serde_json::Value>(data).unwrap()["sequence_number"].clone()
    });
    assert!(numbers.eq((0..10).map(|number| json!(number))));

    let tool = r#","tools":[{"type":"function","name":"look"}]}"#;
    let call = post(&engine, "/v1/responses", &body.replace('}', tool)).json();
    assert_eq!(
        (&call["output"][0]["type"], &call["output"][0]["name"]),
        (&json!("function_call"), &json!("look"))
    );
    let call = post(&engine, "/v1/responses", &streamed.replace('}', tool));
    assert!(call.body.contains("event: response.function_call_arguments.done"), "{}", call.body);
}

#[test]
fn embeddings_depend_on_the_text_alone_and_come_as_numbers_or_as_base64() {
    let engine = start(fast());
    let body = r#"{"model":"m","input":["a","b","a"],"dimensions":3}"#;
    let data = post(&engine, "/v1/embeddings", body).json()["data"].clone();
    assert_eq!(
        (&data[0]["embedding"], data[0]["embedding"].as_array().unwrap().len()),
        (&data[2]["embedding"], 3)
    );
    assert_ne!(data[0]["embedding"], data[1]["embedding"]);
    let text = body.replace("\"dimensions\"", r#""encoding_format":"base64","dimensions""#);
    let text = post(&engine, "/v1/embeddings", &text).json()["data"][0]["embedding"].clone();
    let first = data[0]["embedding"][0].as_f64().unwrap() as f32;
    assert_eq!(text.as_str().unwrap().len(), 16, "12 bytes");
    assert_eq!(unbase64(&text.as_str().unwrap()[..8])[..4], first.to_le_bytes());

    let ollama = post(&engine, "/api/embed", r#"{"model":"m","input":"a","dimensions":3}"#).json();
    assert_eq!(ollama["embeddings"], json!([data[0]["embedding"]]));
}

fn unbase64(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text.chars().map(|letter| LETTERS.find(letter).unwrap() as u32);
    let values: Vec<u32> = values.collect();
    let groups = values.chunks(4).map(|four| four.iter().fold(0, |bits, value| bits << 6 | value));
    groups.flat_map(|bits: u32| bits.to_be_bytes()[1..].to_vec()).collect()
}

#[test]
fn ollama_streams_lines_unless_disabled() {
    let engine = start(fast());
    let body = chat_body(r#","options":{"num_predict":3}"#);
    let reply = post(&engine, "/api/chat", &body);
    assert!(reply.head.contains("content-type: application/x-ndjson"), "{}", reply.head);
    let lines = reply.lines();
    assert_eq!(lines.len(), 4);
    assert!(
        lines[..3]
            .iter()
            .all(|line| line["message"]["content"].is_string() && line["done"] == false)
    );
    let last = &lines[3];
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("length")));
    assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(3), &json!(3)));
    assert!(last["total_duration"].as_u64() >= last["eval_duration"].as_u64());

    let body = r#"{"model":"m","prompt":"a","stream":false,"options":{"num_predict":2}}"#;
    let whole = post(&engine, "/api/generate", body).json();
    assert_eq!(
        (&whole["done"], whole["response"].as_str().unwrap().split(' ').count()),
        (&json!(true), 2)
    );
    let call = post(&engine, "/api/chat", &chat_body(TOOLS)).lines();
    assert_eq!(call.len(), 2, "a call comes in one piece");
    assert_eq!(call[0]["message"]["tool_calls"][0]["function"]["arguments"]["days"], 1);
}

#[test]
fn it_serves_its_models_its_version_and_its_health() {
    let engine = start(Settings { models: vec!["m".into(), "n".into()], ..fast() });
    let models = get(&engine, "/v1/models").json();
    assert_eq!((&models["data"][0]["id"], &models["data"][1]["id"]), (&json!("m"), &json!("n")));
    assert_eq!(get(&engine, "/api/tags").json()["models"][1]["name"], "n");
    assert!(get(&engine, "/api/version").json()["version"].is_string());
    assert_eq!((get(&engine, "/health").status, get(&engine, "/nowhere").status), (200, 404));
    assert_eq!(get(&engine, "/v1/chat/completions").status, 405);
    assert_eq!(post(&engine, "/metrics", "").status, 405);
}

#[test]
fn metrics_have_the_names_of_vllm() {
    let engine = start(fast());
    chat(&engine, "");
    let page = get(&engine, "/metrics").body;
    let labels = r#"{engine="0",model_name="m"}"#;
    for name in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"] {
        assert!(page.contains(&format!("\nvllm:{name}{labels} 0\n")), "{name} in {page}");
    }
    assert!(page.contains(&format!("\nvllm:num_preemptions_total{labels} 0\n")), "{page}");
    assert!(page.contains(&format!("\nvllm:request_success_total{labels} 1\n")), "{page}");
    let cache = r#"vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="4096"} 1"#;
    assert!(page.contains(cache), "{page}");
}

#[test]
fn an_invalid_request_is_refused_in_the_format_of_its_api() {
    let engine = start(fast());
    let unknown = chat_body("").replace("\"m\"", "\"other\"");
    let reply = post(&engine, "/v1/chat/completions", &unknown);
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &json!(404)));
    let reply = post(&engine, "/api/chat", &unknown);
    assert_eq!((reply.status, reply.json()["error"].is_string()), (404, true));
    for body in ["", "{", "[]", r#"{"model":7}"#, r#"{"model":"m"}"#] {
        assert_eq!(post(&engine, "/v1/chat/completions", body).status, 400, "{body}");
    }
    let long = chat(&engine, r#","max_tokens":100000"#);
    assert!(long.status == 400 && long.body.contains("the model takes 8192"), "{}", long.body);
    let deep = "[".repeat(100_000);
    assert_eq!(post(&engine, "/v1/chat/completions", &deep).status, 400);
}

#[test]
fn the_same_seed_gives_the_same_text_and_echo_repeats_the_prompt() {
    let said = |settings: Settings| chat(&start(settings), r#","max_tokens":9"#).body;
    assert_eq!(said(fast()), said(fast()));
    assert_ne!(said(fast()), said(Settings { seed: 2, ..fast() }));
    assert!(said(Settings { text: Text::Echo, ..fast() }).contains("\"hello there\""));
}

#[test]
fn the_last_request_can_be_seen_as_it_arrived() {
    let engine = start(fast());
    let body = chat_body(r#","unknown":[1,2.50]"#);
    ask(&engine, "POST /v1/chat/completions?a=b HTTP/1.1\r\nX-Team: blue", &body);
    let seen = get(&engine, "/control").json();
    assert_eq!(seen["last_request"], "POST /v1/chat/completions?a=b");
    assert!(seen["last_headers"].as_array().unwrap().contains(&json!(["x-team", "blue"])));
    assert_eq!((&seen["last_body"], &seen["last_body_bytes"]), (&json!(body), &json!(body.len())));
    assert_eq!(seen["last_body_digest"], format!("{:016x}", digest(body.as_bytes())));
    assert_eq!((&seen["received"], &seen["completed"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn it_speaks_http2_with_prior_knowledge() {
    let engine = start(fast());
    let stream = tokio::net::TcpStream::connect(engine.address()).await.unwrap();
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let body = Full::new(Bytes::from(chat_body(r#","stream":true,"max_tokens":2"#)));
    let uri = format!("http://{}/v1/chat/completions", engine.address());
    let request = http::Request::post(uri).body(body).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.version(), http::Version::HTTP_2);
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert!(text.ends_with(b"data: [DONE]\n\n"));
}
