//! K01: which requests have a beginning of their prompts in common.

use super::*;

fn blocks(config: &Config, path: &str, body: &str) -> Vec<u64> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let (intent, _) = read(config, &parts(Method::POST, path, &[]), body, 0).unwrap();
    intent.blocks.hashes().to_vec()
}

fn caching() -> Config {
    let mut config = Config::default();
    config.flow.cache_tokens = 1000;
    config
}

fn chat(fields: &str) -> Vec<u64> {
    blocks(&caching(), CHAT, &format!("{{\"model\":\"m\",{fields}}}"))
}

fn long(word: &str) -> String {
    word.repeat(1024 / word.len())
}

fn in_common(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[test]
fn k01_a_conversation_begins_as_it_began_before() {
    let message = |text: &str| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}");
    let (first, second) = (message(&long("tide")), message(&long("moon")));
    let once = chat(&format!("\"messages\":[{first}]"));
    let twice = chat(&format!("\"stream\":true,\"messages\":[{first},{second}]"));
    assert_eq!((once.len(), twice.len()), (4, 8));
    assert_eq!(in_common(&once, &twice), 4);
    let other = chat(&format!("\"messages\":[{second}]"));
    assert_eq!(in_common(&once, &other), 0);
}

/// Engines read the tools before the messages, wherever they stand in the body.
#[test]
fn k01_tools_and_the_system_prompt_come_before_messages() {
    let tools = format!("\"tools\":[\"{}\"]", long("tool"));
    let messages = |word: &str| format!("\"messages\":[\"{}\"]", long(word));
    let one = chat(&format!("{},{tools}", messages("tide")));
    let other = chat(&format!("{tools},{}", messages("moon")));
    assert_eq!(in_common(&one, &other), 4);
    let system = |word: &str| format!("\"system\":\"{word}\",{tools}");
    assert_eq!(in_common(&chat(&system("a")), &chat(&system("b"))), 0);
}

#[test]
fn k01_models_salts_and_templates_are_kept_apart() {
    let prompt = format!("\"prompt\":\"{}\"", long("tide"));
    let body = |model: &str, more: &str| format!("{{\"model\":\"{model}\",{prompt}{more}}}");
    let of = |body: &str| blocks(&caching(), "/v1/completions", body);
    let plain = of(&body("m", ""));
    assert_eq!(plain, of(&body("m", "")));
    for other in [
        body("n", ""),
        body("m", ",\"cache_salt\":\"x\""),
        body("m", ",\"chat_template_kwargs\":{\"enable_thinking\":false}"),
        body("m", ",\"chat_template\":\"{{ messages }}\""),
        body("m", ",\"documents\":[{\"text\":\"a\"}]"),
    ] {
        assert_eq!(in_common(&plain, &of(&other)), 0, "{other}");
    }
}

#[test]
fn k01_only_generated_text_has_a_cached_beginning() {
    let body = format!("{{\"model\":\"m\",\"input\":\"{}\"}}", long("tide"));
    assert_eq!(blocks(&caching(), "/v1/responses", &body).len(), 4);
    assert!(blocks(&caching(), "/v1/embeddings", &body).is_empty());
    let mut off = caching();
    off.flow.cache_tokens = 0;
    assert!(blocks(&off, "/v1/responses", &body).is_empty());
    assert!(chat("\"messages\":[\"short\"]").is_empty());
}
