//! D10: valid, invalid and hostile input lines.

use super::*;

const CHAT: &str = "/v1/chat/completions";

fn line(id: &str) -> String {
    format!(r#"{{"custom_id":"{id}","method":"POST","url":"{CHAT}","body":{{"model":"m"}}}}"#)
}

fn rules() -> InputRules {
    InputRules { endpoint: Some(CHAT.into()), line_limit: 1000, lines_max: 1000 }
}

fn checked(file: impl AsRef<[u8]>) -> CheckedInput {
    check(file.as_ref(), &rules()).unwrap()
}

/// The line, code and field of every error.
fn errors(file: impl AsRef<[u8]>) -> Vec<(Option<u64>, &'static str, Option<&'static str>)> {
    checked(file).errors.iter().map(|error| (error.line, error.code, error.param)).collect()
}

/// The bodies at the positions of the requests.
fn bodies(file: &[u8]) -> Vec<&str> {
    let body = |entry: &RequestSpan| {
        let begin = usize::try_from(entry.offset).unwrap();
        let end = begin + usize::try_from(entry.length).unwrap();
        std::str::from_utf8(&file[begin..end]).unwrap()
    };
    checked(file).requests.iter().map(body).collect()
}

#[test]
fn d10_a_body_is_found_where_it_stands_to_the_byte() {
    let tricky = r#"{"model": "ü\"}{", "messages": [{"content": "\"body\": {}"}], "n":1}"#;
    let file = format!(
        "{}\r\n\n  {{ \"body\" :  {tricky} ,\t\"url\":\"\\/v1\\/chat\\/completions\",\
         \"method\":\"POST\",\"custom_id\":\"b\",\"more\":[1]}}  \n{}",
        line("a"),
        line("c")
    );
    let simple = r#"{"model":"m"}"#;
    assert_eq!(bodies(file.as_bytes()), [simple, tricky, simple]);
    let marked = format!("\u{feff}{file}\n");
    assert_eq!(bodies(marked.as_bytes()), [simple, tricky, simple]);
    let read = checked(file);
    let lines: Vec<_> = read.requests.iter().map(|entry| (entry.line, entry.model)).collect();
    assert_eq!(lines, [(1, 0), (3, 1), (4, 0)], "empty lines count as lines and have no request");
    assert_eq!(read.models, ["m", "ü\"}{"]);
    assert_eq!((read.errors, read.endpoint.as_str()), (Vec::new(), CHAT));
}

#[test]
fn d10_lines_are_read_alike_in_pieces_of_any_size() {
    let file = format!("\u{feff}{}\r\n\r\n{}\n\n{}", line("a"), "x".repeat(2000), line("b"));
    let whole = checked(&file);
    for capacity in 1..80 {
        let pieces = io::BufReader::with_capacity(capacity, file.as_bytes());
        let read = check(pieces, &rules()).unwrap();
        assert_eq!(
            (&read.requests, &read.errors),
            (&whole.requests, &whole.errors),
            "by {capacity}"
        );
    }
    assert_eq!(whole.requests.len(), 2);
    assert_eq!(whole.errors[0].code, "line_too_long");
}

#[test]
fn d10_every_error_is_reported_with_its_line_and_its_field() {
    let with = |parts: &str| format!("{{{parts}}}");
    let good = r#""method":"POST","url":"/v1/chat/completions","body":{"model":"m"}"#;
    let body = r#""custom_id":"a","method":"POST","url":"/v1/chat/completions""#;
    let long = "i".repeat(513);
    let rows = [
        ("nonsense".to_owned(), "invalid_json_line", None),
        (r#"["a","POST","/v1/chat/completions",{"model":"m"}]"#.into(), "invalid_json_line", None),
        (r#"{"custom_id":"a""#.into(), "invalid_json_line", None),
        (format!("{} {{}}", line("a")), "invalid_json_line", None),
        (with(&format!(r#"{good},"body":{{}}"#)), "invalid_json_line", None),
        (with(good), "missing_required_parameter", Some("custom_id")),
        (
            with(&format!(r#"{good},"custom_id":null"#)),
            "missing_required_parameter",
            Some("custom_id"),
        ),
        (with(&format!(r#"{good},"custom_id":7"#)), "invalid_value", Some("custom_id")),
        (with(&format!(r#"{good},"custom_id":"""#)), "invalid_value", Some("custom_id")),
        (with(&format!(r#"{good},"custom_id":"{long}""#)), "invalid_value", Some("custom_id")),
        (line("a").replace("POST", "GET"), "invalid_value", Some("method")),
        (line("a").replace("POST", "post"), "invalid_value", Some("method")),
        (line("a").replace("chat/", ""), "mismatched_endpoint", Some("url")),
        (line("a").replace("\"url\"", "\"uri\""), "missing_required_parameter", Some("url")),
        (with(body), "missing_required_parameter", Some("body")),
        (with(&format!(r#"{body},"body":[]"#)), "invalid_json_line", Some("body")),
        (with(&format!(r#"{body},"body":"{{}}""#)), "invalid_json_line", Some("body")),
        (with(&format!(r#"{body},"body":{{}}"#)), "missing_required_parameter", Some("body.model")),
        (with(&format!(r#"{body},"body":{{"model":1}}"#)), "invalid_value", Some("body.model")),
        (with(&format!(r#"{body},"body":{{"model":""}}"#)), "invalid_value", Some("body.model")),
        (line("a").replace("\"m\"", "\"\\u0000\""), "invalid_value", Some("body.model")),
        (line("a").replace("\"m\"", "\"m\",\"model\":\"n\""), "invalid_json_line", Some("body")),
        (line("a").replace("\"m\"", "\"m\",\"stream\":true"), "invalid_value", Some("body.stream")),
    ];
    for (wrong, code, param) in rows {
        let file = format!("{}\n\n{wrong}\n{}\n", line("before"), line("after"));
        assert_eq!(errors(&file), [(Some(3), code, param)], "{wrong}");
        assert_eq!(checked(&file).requests.len(), 2, "the other lines are read");
    }
    let fine = line("a").replace("\"m\"", "\"m\",\"stream\":false");
    assert_eq!(errors(fine), []);
}

#[test]
fn d10_names_are_given_once() {
    let file = [line("a"), line("b"), line("\\u0061")].join("\n");
    let read = checked(file);
    assert_eq!(read.errors[0].to_string(), "line 3: 'custom_id' \"a\" is that of line 1 already");
    assert_eq!(read.errors[0].code, "duplicate_custom_id");
}

#[test]
fn d10_bytes_that_are_not_utf8_are_reported_with_their_position() {
    let mut file = line("a").into_bytes();
    file.extend(b"\n{\"custom_id\":\"\xff\"}\n\x00\n");
    let read = checked(file);
    assert_eq!(read.errors[0].to_string(), "line 2: byte 15 of it is not UTF-8");
    assert_eq!(read.errors[1].code, "invalid_json_line");
}

#[test]
fn d10_an_empty_file_is_an_error() {
    for file in ["", "\n", "\r\n  \n\t", "\u{feff}"] {
        assert_eq!(errors(file), [(None, "empty_file", None)], "{file:?}");
    }
}

#[test]
fn d10_too_many_lines_and_too_many_errors_end_the_reading() {
    let few = InputRules { lines_max: 2, ..rules() };
    let file = [line("a"), line("b"), String::new(), line("c"), line("d")].join("\n");
    let read = check(file.as_bytes(), &few).unwrap();
    assert_eq!((read.errors[0].code, read.errors[0].line), ("too_many_requests", Some(4)));
    assert_eq!(read.errors.len(), 1);
    assert_eq!(check([line("a"), line("b")].join("\n").as_bytes(), &few).unwrap().errors, []);

    let read = checked("x\n".repeat(ERRORS_MAX * 5));
    assert_eq!(read.errors.len(), ERRORS_MAX + 1);
    assert_eq!(read.errors[ERRORS_MAX].code, "too_many_errors");
}

#[test]
fn x03_a_giant_line_and_deep_nesting_cost_no_memory_and_no_stack() {
    let giant = io::Read::take(io::repeat(b'['), 50 << 20);
    let mut lines = Lines::new(io::BufReader::new(giant), 1000);
    assert_eq!(lines.next().unwrap().unwrap().text().unwrap_err().code, "line_too_long");
    assert!(lines.kept() <= 2000, "{} bytes are kept", lines.kept());
    let depth = 2_000_000;
    let deep = format!(
        r#"{{"custom_id":"a","method":"POST","url":"{CHAT}","body":{{"model":"m","x":{}{}}}}}"#,
        "[".repeat(depth),
        "]".repeat(depth)
    );
    let wide = InputRules { line_limit: 10 << 20, ..rules() };
    let read = check(deep.as_bytes(), &wide).unwrap();
    assert_eq!((read.requests.len(), read.errors.len()), (0, 1));
    assert!(read.errors[0].message.contains("nests deeper than 127"), "{}", read.errors[0]);
}

#[test]
fn d10_without_an_endpoint_the_first_line_determines_it() {
    let free = InputRules { endpoint: None, ..rules() };
    let other = line("b").replace(CHAT, "/v1/embeddings");
    let read = check(format!("{}\n{other}", line("a")).as_bytes(), &free).unwrap();
    assert_eq!(read.endpoint, CHAT);
    let text = read.errors[0].to_string();
    assert_eq!(
        text,
        "line 2: 'url' is \"/v1/embeddings\", but the batch goes to \"/v1/chat/completions\""
    );
}

#[test]
fn d10_fuzz_lines_of_batches() {
    let file = format!("{}\n\r\n{}\n", line("a"), line("b"));
    let words: [&[u8]; 6] = [b"\"body\":{", b"\"custom_id\":", b"\n", b"\\u0000", b"}}", b"null"];
    crate::fuzz::fuzz("batch-lines", &[file.as_bytes()], &words, |input, _| {
        let checked = checked(input);
        if checked.errors.is_empty() {
            for body in bodies(input) {
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert!(body["model"].is_string(), "{body}");
            }
        }
        let first = checked.errors.first().map_or("ok", |error| error.code);
        format!("{} {first}", checked.requests.len().min(4))
    });
}
