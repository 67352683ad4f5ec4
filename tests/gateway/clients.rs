//! Real clients, a real engine and a real load generator.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::support::backend::Seen;
use crate::support::gateway::{ONE, TWO};
use crate::support::scripted_response::{delta, event};
use crate::support::tools::{client, python, run, tool};
use crate::support::{Backend, Call, Engine, Gateway, HttpRequest, ScriptedResponse, chat};

/// llama.cpp's server with a tiny model.
struct Llama {
    child: Child,
    url: String,
}

/// llama.cpp's count of the prompt tokens that were in no cache.
const COMPUTED: &str = "llamacpp:prompt_tokens_total ";

pub(crate) fn openai(seen: &Seen) -> ScriptedResponse {
    let body = seen.json();
    let json = |value: Value| ScriptedResponse::json(200, &value.to_string());
    match seen.path.as_str() {
        "/v1/embeddings" => {
            let entry = |index: u32| {
                let embedding = [0.5, f64::from(index)];
                json!({"object": "embedding", "index": index, "embedding": embedding})
            };
            let usage = json!({"prompt_tokens": 2, "total_tokens": 2});
            let data = [entry(0), entry(1)];
            json(json!({"object": "list", "model": "m", "data": data, "usage": usage}))
        }
        "/v1/responses" => {
            let text = json!({"type": "output_text", "text": "hello", "annotations": []});
            let message = json!({"type": "message", "id": "msg_1", "role": "assistant",
                "status": "completed", "content": [text]});
            json(json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "m",
                "status": "completed", "output": [message], "tools": [], "tool_choice": "auto",
                "parallel_tool_calls": true}))
        }
        "/v1/completions" => {
            let choice = json!({"index": 0, "text": "hello", "finish_reason": "stop"});
            json(json!({"id": "c", "object": "text_completion", "created": 1, "model": "m",
                "choices": [choice]}))
        }
        _ if body["stream"] == true => {
            let usage = json!({"id": "c", "object": "chat.completion.chunk", "created": 1,
                "model": "m", "choices": [],
                "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}});
            let words = [delta("the "), delta("tide "), delta("turns")];
            let [a, b, c] = &words;
            let usage = event(&usage.to_string());
            ScriptedResponse::stream(&[": hello\n\n", a, b, c, &usage, &event("[DONE]")])
        }
        _ if body["tools"].is_array() => {
            let call = json!({"id": "call_1", "type": "function",
                "function": {"name": "weather", "arguments": "{\"city\":\"Bremen\"}"}});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            json(json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
        }
        _ => ScriptedResponse::ok(),
    }
}

fn ollama(seen: &Seen) -> ScriptedResponse {
    let body = seen.json();
    let piece = |text: &str, done: bool| {
        json!({"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": done,
            "message": {"role": "assistant", "content": text}})
        .to_string()
    };
    match seen.path.as_str() {
        "/api/chat" if body["stream"] == true => {
            let lines = [("the ", false), ("tide", false), ("", true)];
            let lines: String =
                lines.iter().map(|(text, done)| piece(text, *done) + "\n").collect();
            ScriptedResponse::with_headers(200, &["content-type: application/x-ndjson"], &lines)
        }
        "/api/chat" => ScriptedResponse::json(200, &piece("hello", true)),
        "/api/generate" => {
            let done = json!({"model": "m", "response": "hello", "done": true});
            ScriptedResponse::json(200, &done.to_string())
        }
        _ => ScriptedResponse::json(
            200,
            &json!({"model": "m", "embeddings": [[0.5, 1.0]]}).to_string(),
        ),
    }
}

// === impl Llama ===

impl Llama {
    fn start(slots: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let model = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let model = model.join(format!("tiny-{}-{number}.gguf", std::process::id()));
        run(python("llama_model.py").arg(&model));
        let mut command = python("llama_server.py");
        command.arg(&model).arg(slots.to_string()).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("http://"), "llama.cpp does not listen: {line}");
        Self { child, url: line.trim().to_owned() }
    }

    fn entry(&self, id: &str) -> String {
        format!("[[backends]]\nid = \"{id}\"\nkind = \"llamacpp\"\nurl = \"{}\"\n", self.url)
    }

    fn gateway(&self, sections: &str) -> Gateway {
        Gateway::start(&format!("{sections}{}", self.entry("llama")))
    }

    /// The tokens of prompts that it has computed, as its own metrics tell.
    fn computed(&self) -> u64 {
        let address = self.url.trim_start_matches("http://").parse().unwrap();
        let request = HttpRequest::get("/metrics").bytes();
        let metrics = Call::try_open(address, &request).unwrap().finish().text();
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix(COMPUTED)).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn x01_openais_own_client_is_served() {
    let backend = Backend::start(openai);
    let gateway = Gateway::before(TWO, &backend);
    let steps = run(python("openai_client.py").arg(gateway.url()));
    let all = "models chat streaming tools embeddings responses completions errors";
    assert_eq!(steps.split_whitespace().collect::<Vec<_>>().join(" "), all);
    let history = backend.seen().iter().any(|seen| {
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        body.contains("\"tool_call_id\"") && body.contains("Bremen")
    });
    assert!(history, "tool calls and their results reach the backend");
    gateway.await_idle();
}

#[test]
fn x01_ollamas_own_client_is_served() {
    let backend = Backend::start(ollama);
    let entry = format!("url = \"http://{}\"\nkind = \"ollama\"", backend.address());
    let gateway = Gateway::start(&format!("{TWO}[[backends]]\nid = \"one\"\n{entry}\n"));
    let steps = run(python("ollama_client.py").arg(gateway.url()));
    let all = "chat streaming generate embed tags errors";
    assert_eq!(steps.split_whitespace().collect::<Vec<_>>().join(" "), all);
    gateway.await_idle();
}

#[test]
fn x01_llama_cpp_serves_through_the_gateway() {
    let llama = Llama::start(2);
    let gateway = llama.gateway(TWO);
    let listed = gateway.get("/v1/models").text();
    assert!(listed.contains("tiny-random"), "{listed}");
    let ask = chat("tiny-random").with("max_tokens", 16).with("ignore_eos", true);
    let answer = gateway.ask(&ask);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["usage"]["completion_tokens"], 16);
    let calls: Vec<_> = (0..12).map(|_| gateway.send(&ask.clone().streamed())).collect();
    for call in calls {
        let text = call.finish().text();
        assert!(text.contains("\"finish_reason\":\"length\""), "{text}");
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    }
    gateway.await_idle();
}

/// Five requests for each of twelve beginnings of 800 letters, to two servers. Returns the tokens
/// of all prompts and those that the servers computed.
fn computed_by_two_servers(cache_tokens: u32) -> (u64, u64) {
    let servers = [Llama::start(4), Llama::start(4)];
    let entries = servers[0].entry("one") + &servers[1].entry("two");
    let router = format!("[router]\ncache_tokens = {cache_tokens}\n");
    let gateway = Gateway::start(&format!("{TWO}{router}{entries}"));
    gateway.await_ready(2);
    let mut prompts = 0;
    for request in 0..60u8 {
        // Each round begins one later, so turns alone take a prompt to both servers.
        let beginning = char::from(b'a' + (request + request / 12) % 12);
        let text = format!("{}{request:03}", beginning.to_string().repeat(800));
        let messages = json!([{"role": "user", "content": text}]);
        let ask = chat("tiny-random").with("messages", messages).with("max_tokens", 2);
        let response = gateway.ask(&ask);
        assert_eq!(response.status, 200, "{}", response.text());
        prompts += response.json()["usage"]["prompt_tokens"].as_u64().unwrap();
    }
    (prompts, servers.iter().map(Llama::computed).sum())
}

#[test]
fn k01_llama_cpp_computes_less_than_if_the_load_alone_decides() {
    let (prompts, computed) = computed_by_two_servers(1_000_000);
    let (prompts_too, by_load) = computed_by_two_servers(0);
    eprintln!("of {prompts} tokens computed: {computed}, by load alone {by_load}");
    assert_eq!(prompts, prompts_too);
    assert!(10 * computed < 3 * prompts, "{computed} of {prompts}");
    assert!(10 * computed < 7 * by_load, "{computed} beside {by_load}");
}

#[test]
fn x01_llmeter_loads_llama_cpp_through_the_gateway() {
    let llama = Llama::start(4);
    // Without a watermark: the controller finds the bounds from the engine's metrics.
    let gateway = llama.gateway("");
    let load = ["tiny-random", "8", "6"];
    let output = run(python("load.py").arg(gateway.url()).args(load));
    let result: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!((&result["answers"], &result["failed"]), (&48.into(), &json!([])));
    let first = result["first"].as_array().unwrap();
    assert!(first.iter().all(|time| time.as_f64().is_some_and(|time| time > 0.0)), "{result}");
    gateway.await_idle();
}

#[test]
fn x01_the_documents_examples_work() {
    let backend = Backend::start(openai).lists(&["qwen2.5:0.5b"]);
    let entry = format!("url = \"http://{}\"\n", backend.address());
    let gateway = Gateway::start(&format!("{TWO}[[backends]]\nid = \"ollama-npu\"\n{entry}"));
    let printed = run(python("examples.py").arg(gateway.url()));
    assert!(printed.contains("Token: data: [DONE]") && printed.ends_with("hello\n"), "{printed}");
    let printed = run(tool("node").arg(client("fetch.mjs")).arg(gateway.url()));
    assert!(printed.contains("turns") && printed.ends_with("data: [DONE]\n\n"), "{printed}");
    let url = format!("{}/v1/chat/completions", gateway.url());
    let body = "{\"model\": \"qwen2.5:0.5b\", \"messages\": [{\"role\": \"user\", \
        \"content\": \"Transcribe audio\"}]}";
    let boosts = [("critical", "500"), ("high", "200"), ("normal", "0"), ("best-effort", "-100")];
    for (band, boost) in boosts {
        let priority = format!("X-Priority: {band}");
        // As in the document, without a content type: curl labels the body as a form.
        let printed = run(tool("curl").args(["-sS", "-i", &url, "-H", &priority, "-d", body]));
        assert!(printed.starts_with("HTTP/1.1 200"), "{printed}");
        let told = format!("x-priority-boost: {boost}\r\n");
        assert!(printed.to_lowercase().contains(&told), "{printed}");
    }
    let filter = ".[] | {id: .id, queue_depth: .queue_depth, priority_counts: .priority_counts}";
    let pipe = format!("curl -sS {}/backends | jq -c '{filter}'", gateway.url());
    tool("jq");
    let counts = "{\"best_effort\":0,\"normal\":0,\"high\":0,\"critical\":0}";
    let shown = run(tool("sh").args(["-c", &pipe]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let counts: Value = serde_json::from_str(counts).unwrap();
    let expected = json!({"id": "ollama-npu", "queue_depth": 0, "priority_counts": counts});
    assert_eq!(shown, expected);
}

#[test]
fn x01_http_2_with_prior_knowledge_is_served() {
    let backend = Backend::start(openai);
    let gateway = Gateway::before(TWO, &backend);
    let url = format!("{}/v1/chat/completions", gateway.url());
    let body = String::from_utf8(chat("m").streamed().body).unwrap();
    let printed = run(tool("curl").args(["-sSi", "--http2-prior-knowledge", &url, "-d", &body]));
    assert!(printed.starts_with("HTTP/2 200"), "{printed}");
    assert!(printed.contains("x-backend-used: one"), "{printed}");
    assert!(printed.ends_with("data: [DONE]\n\n"), "{printed}");
    gateway.await_idle();
}

#[test]
fn q09_an_http_2_client_that_leaves_is_noticed() {
    let backend = Backend::held();
    let gateway = Gateway::before(ONE, &backend);
    let url = format!("{}/v1/chat/completions", gateway.url());
    let body = String::from_utf8(chat("m").body).unwrap();
    let curl = || {
        let mut curl = tool("curl");
        curl.args(["-sS", "--http2-prior-knowledge", &url, "-d", &body]).stdin(Stdio::null());
        curl.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut running = curl();
    backend.await_running(1);
    let mut waiting = curl();
    gateway.await_depth(1);
    waiting.kill().unwrap();
    gateway.await_depth(0);
    running.kill().unwrap();
    backend.await_left(1);
    gateway.await_idle();
    waiting.wait().unwrap();
    running.wait().unwrap();
}

#[test]
fn x01_many_streams_share_one_connection_of_http_2() {
    let backend = Backend::start(openai);
    let gateway = Gateway::before(TWO, &backend);
    let body = gateway.folder().join("body.json");
    std::fs::write(&body, chat("m").streamed().body).unwrap();
    let url = format!("{}/v1/chat/completions", gateway.url());
    let load = ["-n", "60", "-c", "2", "-m", "10", "-d", body.to_str().unwrap(), &url];
    let printed = run(tool("h2load").args(load));
    assert!(printed.contains("60 succeeded, 0 failed"), "{printed}");
    assert!(printed.contains("60 2xx"), "{printed}");
    assert!(backend.most() <= 2, "they wait for their turn like others");
    gateway.await_idle();
}

#[test]
fn m01_promtool_accepts_the_metrics() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    tool("promtool");
    let pipe = format!("curl -sS {}/metrics | promtool check metrics 2>&1", gateway.url());
    let said = run(tool("sh").args(["-c", &pipe]));
    // The gauge has the source's name, without a prefix and a unit, and the linter accepts it.
    assert_eq!(said.trim(), "", "{said}");
}

#[test]
fn x01_the_stand_in_engine_is_spoken_to_in_http_2() {
    let engine = Engine::start(&[]);
    let entry = format!("url = \"http://{}\"\nhttp2 = true", engine.address());
    let gateway = Gateway::start(&format!("{TWO}[[backends]]\nid = \"one\"\n{entry}\n"));
    let model = gateway.get("/v1/models").json()["data"][0]["id"].as_str().unwrap().to_owned();
    let answer = gateway.ask(&chat(&model).with("max_tokens", 4).streamed());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("[DONE]"));
    assert_eq!(engine.control()["received"], 1);
    gateway.await_idle();
}
