//! Heads: how a request is written, and how a response is read.

use http::Version;

use super::*;

fn framing(method: &Method, head: &str) -> Result<Framing, ExchangeError> {
    let errand = Errand::new(method.clone(), b"");
    let mut came = BytesMut::from(head);
    let found = head::read(&mut came, &mut head::HeadProgress::default(), &errand.wanted())?;
    Ok(found.expect("a whole head").framing)
}

fn with(headers: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{headers}\r\n")
}

#[test]
fn a_request_is_sent_as_it_is_with_the_backends_host_and_one_length() {
    let mut errand = Errand::new(Method::POST, b"four");
    let mut headers = HeaderMap::new();
    for value in ["1", "2"] {
        headers.append("x-a", HeaderValue::from_static(value));
    }
    errand.headers = ForwardedHeaders::new(headers, |_| false);
    let mut out = Vec::new();
    errand.wanted().write(&mut out);
    let want = "POST /base/v1/x?y=1 HTTP/1.1\r\nhost: host:1\r\nx-a: 1\r\nx-a: 2\r\n\
                content-length: 4\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), want);
}

#[test]
fn content_length_is_sent_with_a_body_and_with_methods_that_usually_have_one() {
    let told = |method, body: &[u8]| {
        let mut out = Vec::new();
        Errand::new(method, body).wanted().write(&mut out);
        let text = String::from_utf8(out).unwrap();
        text.split_once("content-length: ").map(|(_, rest)| rest.trim().to_owned())
    };
    assert_eq!(told(Method::GET, b""), None);
    assert_eq!(told(Method::DELETE, b""), None);
    assert_eq!(told(Method::GET, b"x").as_deref(), Some("1"));
    assert_eq!(told(Method::POST, b"").as_deref(), Some("0"));
    assert_eq!(told(Method::POST, &[0; 1090]).as_deref(), Some("1090"));
}

#[test]
fn a_response_is_read_alike_in_pieces_of_any_size() {
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n\
                  HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: \xc3\xa4\r\ncontent-length: 5\r\n\r\nhello";
    for size in 1..=bytes.len() {
        let whole = read(&Method::GET, bytes.chunks(size)).unwrap();
        assert_eq!(whole.body, b"hello", "cut every {size}");
        assert_eq!((whole.response.status().as_u16(), whole.response.headers().len()), (200, 3));
        let values: Vec<_> = whole.response.headers().get_all("x-a").into_iter().collect();
        assert_eq!(values, ["1".as_bytes(), "ä".as_bytes()]);
        assert!(whole.lasts && whole.left == 0);
    }
}

#[test]
fn a_head_ends_with_bare_line_breaks_too_however_it_is_cut() {
    let bytes = b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok";
    for size in 1..=bytes.len() {
        assert_eq!(read(&Method::GET, bytes.chunks(size)).unwrap().body, b"ok", "{size}");
    }
}

#[test]
fn a_body_ends_where_the_standard_says() {
    let cases = [
        ("", Framing::UntilClose),
        ("content-length: 7\r\n", Framing::Length(7)),
        ("content-length: 7\r\ncontent-length: 7\r\n", Framing::Length(7)),
        ("content-length: 7, 7\r\n", Framing::Length(7)),
        ("content-length: 18446744073709551615\r\n", Framing::Length(u64::MAX)),
        ("transfer-encoding: Chunked\r\n", Framing::chunked()),
        ("transfer-encoding: chunked\r\ncontent-length: 7\r\n", Framing::chunked()),
    ];
    for (headers, want) in cases {
        assert_eq!(framing(&Method::GET, &with(headers)).unwrap(), want, "{headers}");
        assert_eq!(framing(&Method::HEAD, &with(headers)).unwrap(), Framing::Length(0));
        for status in ["204 No Content", "304 Not Modified", "101 Switching Protocols"] {
            let head = format!("HTTP/1.1 {status}\r\n{headers}\r\n");
            assert_eq!(framing(&Method::GET, &head).unwrap(), Framing::Length(0), "{head}");
        }
    }
}

#[test]
fn a_length_that_could_be_read_in_two_ways_is_none() {
    let cases = [
        "content-length: 7\r\ncontent-length: 8\r\n",
        "content-length: 7, 8\r\n",
        "content-length: +7\r\n",
        "content-length: -7\r\n",
        "content-length: 7 7\r\n",
        "content-length: 0x7\r\n",
        "content-length: \r\n",
        "content-length: 7,\r\n",
        "content-length: 18446744073709551616\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: \r\n",
    ];
    for headers in cases {
        assert!(framing(&Method::GET, &with(headers)).is_err(), "{headers}");
    }
    let old = "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    assert!(framing(&Method::GET, old).is_err());
}

#[test]
fn bytes_that_are_no_head_are_refused() {
    let many: String = (0..200).map(|at| format!("x-{at}: 1\r\n")).collect();
    let cases = [
        "HTTP/2.0 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 20 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 099 OK\r\n\r\n".to_owned(),
        "SSH-2.0-OpenSSH\r\n\r\n".to_owned(),
        with("x a: 1\r\n"),
        with("x-a : 1\r\n"),
        with("x-a: 1\r\n folded\r\n"),
        with("x-a: \0\r\n"),
        with(&many),
    ];
    for head in cases {
        assert!(get(head.as_bytes()).is_err(), "{head}");
    }
}

#[test]
fn a_connection_is_kept_if_both_sides_know_where_the_response_ends() {
    let cases = [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: x, Close\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\n\r\n", false),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n", true),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            false,
        ),
    ];
    for (answer, want) in cases {
        assert_eq!(get(answer.as_bytes()).unwrap().lasts, want, "{answer}");
    }
}

#[test]
fn the_version_of_the_response_is_reported() {
    let old = get(b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    assert_eq!(old.response.version(), Version::HTTP_10);
}
