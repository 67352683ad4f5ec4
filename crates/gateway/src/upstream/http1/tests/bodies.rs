//! Bodies: where they end, and that faults in them are noticed.

use super::*;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

fn chunked(body: &str) -> Result<Whole, ExchangeError> {
    get(format!("{CHUNKED}{body}").as_bytes())
}

#[test]
fn chunks_are_the_same_however_they_are_cut() {
    let body =
        "5\r\nhello\r\n00A ; name=\"v\"\r\n, my world\r\n0;x\r\nx-sum: 1\r\nX-B: 2\r\n\r\nmore";
    let bytes = format!("{CHUNKED}{body}");
    for size in 1..=bytes.len() {
        let whole = read(&Method::GET, bytes.as_bytes().chunks(size)).unwrap();
        assert_eq!(whole.body, b"hello, my world", "cut every {size}");
        assert_eq!(whole.left, 4);
        let trailers = whole.trailers.unwrap();
        assert_eq!(
            (trailers.len(), &trailers["x-sum"], &trailers["x-b"]),
            (2, &HeaderValue::from_static("1"), &HeaderValue::from_static("2"))
        );
    }
}

/// What has come of a body is one piece, wherever it is cut.
#[test]
fn chunks_that_came_together_pass_together() {
    let body = b"5\r\nhello\r\n2;x\r\n, \r\n8\r\nmy world\r\n0\r\n\r\n";
    for cut in 0..body.len() {
        let (mut framing, mut came) = (Framing::chunked(), BytesMut::new());
        let mut pieces = Vec::new();
        for part in [&body[..cut], &body[cut..]] {
            came.extend_from_slice(part);
            while let Step::Frame(frame) = framing.take(&mut came).unwrap() {
                pieces.push(frame.into_data().unwrap());
            }
        }
        assert!(framing.is_over() && came.is_empty(), "cut at {cut}");
        assert_eq!(pieces.concat(), b"hello, my world", "cut at {cut}");
        assert!(pieces.len() <= 2, "cut at {cut}: {pieces:?}");
    }
}

#[test]
fn a_body_in_chunks_may_be_empty() {
    let whole = chunked("0\r\n\r\n").unwrap();
    assert!(whole.body.is_empty() && whole.trailers.is_none() && whole.left == 0);
}

#[test]
fn chunks_that_could_be_read_in_two_ways_are_refused() {
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(8000));
    let trailers = format!("0\r\nx: {}", "y".repeat(20_000));
    let cases = [
        "\r\n",
        ";x\r\n\r\n",
        "x\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "5;a\r\r\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "10000000000000000\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\n\n",
        "0\r\nx: 1\n\r\n",
        "0\r\nx : 1\r\n\r\n",
        &long,
        &trailers,
    ];
    for body in cases {
        assert!(chunked(body).is_err(), "{body}");
    }
}

#[test]
fn a_truncated_response_is_an_error() {
    let whole = "5\r\nhello\r\n0\r\n\r\n";
    for end in 0..whole.len() {
        assert!(chunked(&whole[..end]).is_err(), "{:?}", &whole[..end]);
    }
    let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    for end in 0..whole.len() {
        assert!(get(&whole[..end]).is_err(), "{end}");
    }
    assert_eq!(get(whole).unwrap().body, b"hello");
}

#[test]
fn without_a_length_the_end_of_the_connection_is_that_of_the_answer() {
    let whole = get(b"HTTP/1.1 200 OK\r\n\r\nhello").unwrap();
    assert!(whole.body == b"hello" && !whole.lasts);
}

#[test]
fn bytes_after_a_response_are_not_part_of_it() {
    let whole = get(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n").unwrap();
    assert_eq!((&whole.body[..], whole.left), (&b"ok"[..], 17));
    let whole = get(b"HTTP/1.1 204 No Content\r\n\r\nbody").unwrap();
    assert_eq!((whole.body.len(), whole.left), (0, 4));
}

#[test]
fn the_size_hint_is_exact_where_the_length_is_known() {
    assert_eq!(Framing::Length(7).size_hint().exact(), Some(7));
    assert_eq!(Framing::chunked().size_hint().exact(), None);
    assert_eq!(Framing::UntilClose.size_hint().upper(), None);
    assert!(Framing::Length(0).is_over() && !Framing::chunked().is_over());
}
