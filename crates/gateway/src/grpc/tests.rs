//! X02: the framing, byte by byte. That real clients understand it is shown end to end.

use std::future::pending;
use std::task::Waker;

use envoy::ext_proc::processing_request::Request as Say;
use envoy::ext_proc::{HttpBody, HttpHeaders, ProcessingRequest};
use envoy::health::HealthCheckRequest;
use http_body_util::Full;
use prost::Message as _;

use super::*;

/// A call that says these names and then does `rest`.
fn saying<F>(names: &'static [&'static str], rest: F) -> Reply
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let outgoing = Outgoing::default();
    let out = outgoing.clone();
    let work = async move {
        for name in names {
            out.send(&HealthCheckRequest { service: (*name).into() });
        }
        rest.await
    };
    Reply { work: Some(Box::pin(work)), outgoing, ended: None }
}

fn poll(reply: &mut Reply) -> Poll<Option<Frame<Bytes>>> {
    let mut context = Context::from_waker(Waker::noop());
    Pin::new(reply).poll_frame(&mut context).map(|frame| frame.map(|Ok(frame)| frame))
}

/// The messages of a buffer.
fn heard(buffer: &[u8]) -> Result<Vec<String>, Status> {
    let mut buffer = BytesMut::from(buffer);
    let mut names = Vec::new();
    while let Some(message) = split(&mut buffer, MESSAGE_MAX)? {
        names.push(HealthCheckRequest::decode(message).unwrap().service);
    }
    Ok(names)
}

fn framed(name: &str) -> Vec<u8> {
    let message = HealthCheckRequest { service: name.into() }.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, &message].concat()
}

#[test]
fn x02_messages_sent_together_leave_as_one_frame_and_the_status_comes_last() {
    let mut reply = saying(&["a", "bc"], async { Ok(()) });
    let Poll::Ready(Some(frame)) = poll(&mut reply) else { panic!("nothing was said") };
    assert_eq!(frame.into_data().unwrap(), [framed("a"), framed("bc")].concat());
    let Poll::Ready(Some(frame)) = poll(&mut reply) else { panic!("there is no status") };
    assert_eq!(frame.into_trailers().unwrap()[STATUS], "0");
    assert!(matches!(poll(&mut reply), Poll::Ready(None)));
}

#[test]
fn x02_a_running_call_sends_its_messages() {
    let mut reply = saying(&["a"], pending());
    assert!(matches!(poll(&mut reply), Poll::Ready(Some(_))));
    assert!(matches!(poll(&mut reply), Poll::Pending));
}

#[test]
fn x02_a_failed_call_has_a_status_and_a_message() {
    let mut reply = saying(&[], async { Err(Status::new(Code::NotFound, "not here")) });
    let Poll::Ready(Some(frame)) = poll(&mut reply) else { panic!("there is no status") };
    let trailers = frame.into_trailers().unwrap();
    assert_eq!(trailers[STATUS], "5");
    assert_eq!(trailers[MESSAGE], "not here");
}

/// A long answer waits for its reader instead of being held twice.
#[test]
fn x02_a_sender_waits_until_its_messages_are_taken() {
    let outgoing = Outgoing::default();
    let out = outgoing.clone();
    let work = async move {
        for _ in 0..100 {
            out.room().await;
            out.send(&HealthCheckRequest { service: "x".repeat(60_000) });
        }
        Ok(())
    };
    let mut reply = Reply { work: Some(Box::pin(work)), outgoing, ended: None };
    let mut sizes = Vec::new();
    while let Poll::Ready(Some(frame)) = poll(&mut reply) {
        sizes.push(frame.into_data().map_or(0, |data| data.len()));
    }
    assert!(sizes.iter().all(|&size| size <= UNSENT_MAX + 60_010), "{sizes:?}");
    assert!(sizes.iter().sum::<usize>() > 6_000_000, "{sizes:?}");
}

#[test]
fn x02_messages_are_found_however_they_are_cut() {
    let bytes = [framed("first"), framed(""), framed("third")].concat();
    assert_eq!(heard(&bytes).unwrap(), ["first", "", "third"]);
    for cut in 0..framed("first").len() {
        assert_eq!(heard(&bytes[..cut]).unwrap(), [""; 0], "cut at {cut}");
    }
}

#[test]
fn x02_a_compressed_or_too_large_message_is_refused() {
    let mut bytes = framed("a");
    bytes[0] = 1;
    assert_eq!(heard(&bytes).unwrap_err().code, Code::Unimplemented);
    let huge = [&[0][..], &u32::MAX.to_be_bytes()].concat();
    assert_eq!(heard(&huge).unwrap_err().code, Code::ResourceExhausted);
}

#[test]
fn x02_only_grpc_is_taken_for_a_call() {
    let request = |kind: &str| {
        let request = Request::builder().header(CONTENT_TYPE, kind);
        request.body(Full::new(Bytes::new())).unwrap()
    };
    assert!(is_call(request("application/grpc").headers()));
    assert!(is_call(request("application/grpc+proto").headers()));
    assert!(!is_call(request("application/json").headers()));
}

/// The messages in these pieces of a stream, and why it ended.
fn read_frames(pieces: &[&[u8]]) -> (Vec<Option<ProcessingRequest>>, Cow<'static, str>) {
    let (mut buffer, mut seen) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match split(&mut buffer, MESSAGE_MAX) {
                Ok(Some(message)) => seen.push(ProcessingRequest::decode(message).ok()),
                Ok(None) => break,
                Err(status) => return (seen, status.text),
            }
        }
    }
    (seen, Cow::Borrowed(""))
}

#[test]
fn x02_fuzz_ext_proc_frames() {
    use envoy::base::{HeaderMap, HeaderValue};

    let header =
        HeaderValue { key: ":path".into(), raw_value: "/v1/x".into(), ..HeaderValue::default() };
    let headers = Some(HeaderMap { headers: vec![header] });
    let head = Say::RequestHeaders(HttpHeaders { headers, ..HttpHeaders::default() });
    let body = Say::RequestBody(HttpBody { body: b"{}".to_vec().into(), ..HttpBody::default() });
    let mut frames = Vec::new();
    for say in [head, body] {
        let message = ProcessingRequest { request: Some(say), ..ProcessingRequest::default() };
        let out = Outgoing::default();
        out.send(&message);
        frames.push(out.buffer().to_vec());
    }
    let both = frames.concat();
    crate::fuzz::fuzz(
        "ext-proc-frames",
        &[&frames[0], &both],
        &[b"\0\0\0\0\x05"],
        |input, dice| {
            let whole = read_frames(&[input]);
            assert_eq!(whole, read_frames(&dice.pieces(input)));
            let good = whole.0.iter().filter(|message| message.is_some()).count();
            format!("{} {good} {}", whole.0.len().min(9), whole.1)
        },
    );
}

#[test]
fn x02_a_text_of_a_status_is_percent_encoded() {
    let status = Status::told(Code::NotFound, "no model \"größer\"\n100%".into());
    let trailers = status.trailers();
    assert_eq!(trailers[STATUS], "5");
    assert_eq!(trailers[MESSAGE], "no model \"gr%C3%B6%C3%9Fer\"%0A100%25");
}
