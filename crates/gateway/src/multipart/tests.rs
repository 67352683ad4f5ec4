//! D10: valid forms in pieces of any size, and malformed forms.

use super::*;

/// Parses a form that comes in pieces of this size.
fn read(boundary: &str, body: &[u8], piece: usize) -> Result<Vec<(Part, Vec<u8>)>, MalformedForm> {
    let mut form = Multipart::new(boundary);
    let mut parts: Vec<(Part, Vec<u8>)> = Vec::new();
    let mut ended = 0;
    for bytes in body.chunks(piece) {
        form.push(bytes);
        while let Some(next) = form.next()? {
            match next {
                FormEvent::Part(part) => parts.push((part, Vec::new())),
                FormEvent::Data(data) => parts.last_mut().unwrap().1.extend(data),
                FormEvent::End => ended += 1,
                FormEvent::Over => {
                    assert_eq!(ended, parts.len());
                    return Ok(parts);
                }
            }
        }
        let kept = form.buffer.len();
        assert!(kept <= HEAD_MAX + piece, "{kept} bytes are kept");
    }
    Err(MalformedForm("it has no end"))
}

fn named(name: &str, filename: Option<&str>) -> Part {
    let filename = filename.map(str::to_owned);
    Part { name: name.into(), filename, encoded: false, plain: true }
}

#[test]
fn d10_a_form_is_read_alike_in_pieces_of_any_size() {
    let data = "\r\n--line\n\r\n-\r\n--XX\r\r\n--X not it\r\n";
    let body = format!(
        "preamble\r\n--XYZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --XYZ  \r\ncontent-disposition: form-data; name=file; filename=\"a.jsonl\"\r\n\
         Content-Type: application/jsonl\r\n\r\n{data}\r\n--XYZ--\r\nepilogue\r\n--XYZ\r\n"
    );
    let wanted = vec![
        (named("purpose", None), b"batch".to_vec()),
        (named("file", Some("a.jsonl")), data.as_bytes().to_vec()),
    ];
    for piece in 1..=body.len() {
        assert_eq!(read("XYZ", body.as_bytes(), piece), Ok(wanted.clone()), "by {piece}");
    }
}

#[test]
fn d10_empty_parts_and_a_form_without_parts_are_forms() {
    let body = b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--b--";
    for piece in 1..=body.len() {
        assert_eq!(read("b", body, piece), Ok(vec![(named("a", None), Vec::new())]));
    }
    assert_eq!(read("b", b"--b--\r\n", 1), Ok(Vec::new()));
}

#[test]
fn d10_names_are_taken_as_they_are_written() {
    let rows = [
        ("name=\"f\"; filename=\"a b.jsonl\"", Some("a b.jsonl")),
        ("name=\"f\"; filename=\"say \\\"hi\\\".jsonl\"", Some("say \"hi\".jsonl")),
        ("name=\"f\"; filename=\"C:\\new\\x.jsonl\"", Some("C:\\new\\x.jsonl")),
        ("name=\"f\"; filename=\"../../etc/passwd\"", Some("../../etc/passwd")),
        ("filename=\"a;name=x\"; name=\"f\"", Some("a;name=x")),
        ("name=f; filename=plain", Some("plain")),
        ("name=\"f\"; filename=\"\"", Some("")),
        ("name=\"f\"; filename=\"never closed", Some("never closed")),
        ("name=\"f\"; FileName=\"ü.jsonl\"", Some("ü.jsonl")),
        ("name=\"f\"; filename*=UTF-8''%C3%BC", None),
        ("name=\"f\";;; = ;x", None),
    ];
    for (parameters, filename) in rows {
        let head = format!("\r\nContent-Disposition: form-data; {parameters}\r\n\r\n");
        let read = part(&head).map(|part| Part { plain: true, ..part });
        assert_eq!(read, Ok(named("f", filename)), "{parameters}");
    }
}

#[test]
fn d10_a_malformed_form_is_refused() {
    let long = format!("--b\r\nX: {}\r\n\r\n", "x".repeat(HEAD_MAX));
    let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n";
    let many = format!("{}--b--", part.repeat(PARTS_MAX + 1));
    let rows = [
        ("", "it has no end"),
        ("{\"purpose\": \"batch\"}", "it has no end"),
        (part, "it has no end"),
        ("--b\r\nContent-Disposition: form-data; name=\"a\"", "it has no end"),
        ("--bc\r\n", "a boundary has no end of line"),
        ("--b\r\n\r\nx\r\n--b--", "a part has not exactly one Content-Disposition"),
        ("--b\r\nContent-Disposition: form-data\r\n\r\n", "a part has no name"),
        (&long, "a part's head is too long"),
        (&many, "it has too many parts"),
    ];
    for (body, why) in rows {
        for piece in [1, 7, 1 << 20] {
            let read = read("b", body.as_bytes(), piece);
            assert_eq!(read, Err(MalformedForm(why)), "{:?}", &body[..body.len().min(60)]);
        }
    }
    let padded = format!("--b{}\r\n", " ".repeat(PADDING_MAX + 1));
    assert_eq!(
        read("b", padded.as_bytes(), 1),
        Err(MalformedForm("a boundary has no end of line"))
    );
}

#[test]
fn d10_fuzz_multipart() {
    const FORM: &[u8] = b"preamble\r\n--XYZ\r\nContent-Disposition: form-data; name=\"purpose\"\
        \r\n\r\nbatch\r\n--XYZ  \r\ncontent-disposition: form-data; name=file; filename=\"a\"\r\n\
        \r\n{}\r\n-\r\n--XX\r\n--XYZ--\r\nepilogue";
    let words: [&[u8]; 6] = [b"--XYZ", b"\r\n--XYZ--", b"\r\n\r\n", b"name=\"", b"filename=", b"-"];
    crate::fuzz::fuzz("multipart", &[FORM], &words, |input, dice| {
        let whole = read("XYZ", input, input.len().max(1));
        let in_pieces = read("XYZ", input, 1 + dice.below(30));
        assert_eq!(whole, in_pieces);
        match whole {
            Ok(parts) => parts.len().to_string(),
            Err(MalformedForm(why)) => why.to_owned(),
        }
    });
}
