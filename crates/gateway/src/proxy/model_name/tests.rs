//! The restored name, in whole bodies and in pieces of any size.

use bytes::Bytes;

use super::ModelNameRestorer;

/// A body as it passes in pieces of this size.
fn restored(lines: bool, body: &str, size: usize) -> String {
    let mut restorer = ModelNameRestorer::new("my \"model\"", lines);
    let mut out = Vec::new();
    for piece in body.as_bytes().chunks(size) {
        out.extend(restorer.restore(Bytes::copy_from_slice(piece), false));
    }
    out.extend(restorer.restore(Bytes::new(), true));
    String::from_utf8(out).unwrap()
}

/// `M` stands for the model's own field, before and after.
#[test]
fn r10_the_name_is_restored_however_the_body_is_cut() {
    let cases = [
        (false, "{\"model\":M}"),
        (false, "{\n  \"model\" :\n M, \"choices\": [{\"model\": \"m\"}]}"),
        (false, "{\"a\":\"\\\"model\\\":\\\"m\\\"\",\"b\":[\"model\",\"m\"],\"model\":M}"),
        (false, "{\"response\":{\"model\":M},\"other\":{\"model\":\"m\"},\"model\":M}"),
        (false, "{\"message\":{\"x\":{\"model\":\"m\"},\"model\":M},\"model\":null}"),
        (false, "[{\"model\":\"m\"}]"),
        (false, "{\"model\":7,\"b\":\"model\"}"),
        (false, "{\"mo\\u0064el\":\"m\",\"models\":\"m\",\"\":\"m\"}"),
        (true, "data: {\"model\":M}\n\nevent: x\ndata: {\"response\":{\"model\":M}}\n\n"),
        (true, ": {\"\n\ndata: {\"a\n\ndata: {\"model\":M}\r\n\r\ndata: [DONE]\n\n"),
        (true, "{\"model\":M}\n{\"model\":M}\n"),
        (true, ""),
    ];
    for (lines, pattern) in cases {
        let (sent, wanted) =
            (pattern.replace('M', "\"m\""), pattern.replace('M', "\"my \\\"model\\\"\""));
        for size in 1..=sent.len().max(1) {
            assert_eq!(restored(lines, &sent, size), wanted, "{size} of {sent}");
        }
    }
}

#[test]
fn r10_what_ends_within_a_name_or_is_too_long_for_one_loses_no_byte() {
    let long = format!("{{\"model\":\"{}\",\"b\":1}}", "x\\\"".repeat(3000));
    for body in ["{\"model\":\"m", "{\"model\":\"m\\", "{\"model\":\"", &long] {
        for size in [1, 2, 3, 10_000] {
            assert_eq!(restored(false, body, size), body);
        }
    }
}

#[test]
fn r10_a_chunk_without_the_name_is_not_copied() {
    let mut restorer = ModelNameRestorer::new("name", false);
    let chunk = Bytes::from_static(b"{\"choices\":[]");
    assert_eq!(restorer.restore(chunk.clone(), false).as_ptr(), chunk.as_ptr());
}
