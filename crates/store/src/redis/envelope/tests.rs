//! D08: mutated messages of Redis.

use super::*;
use crate::fuzz::fuzz;
use crate::llm_d_async::unreadable;
use crate::message::ID_MAX;

const MEMBERS: [&[u8]; 2] = [
    br#"{"internal":{"request_token":"00000000000000000000000000000005"},"request_kind":"redis",
        "data":{"id":"m1","created":1800000000,"deadline":1800000600,"payload":{"model":"m"},
        "metadata":{"userid":"team-a"},"endpoint":"/v1/chat/completions"}}"#,
    br#"{"internal":{"queue_id":"q","retry_count":2},"request_kind":"plain","data":{"id":"m2",
        "deadline":"1800000600","payload":{},"headers":{"a":"b"},"result_queue_name":"r"}}"#,
];

#[test]
fn d08_fuzz_messages_of_redis() {
    let words: [&[u8]; 8] = [
        b"\"id\":\"\"",
        b"\"deadline\":-1",
        b"\"pubsub\"",
        b"\"payload\":\"",
        b"1e308",
        b"null",
        b"\"metadata\":{",
        b"\"retry_count\":",
    ];
    fuzz("redis-messages", &MEMBERS, &words, |input, _| {
        let (id, shown) = unreadable::describe(input);
        assert!(shown.len() < 4000 && id.is_none_or(|id| id.len() <= ID_MAX));
        match decode(&String::from_utf8_lossy(input), "q") {
            Ok(read) => {
                assert!(!read.message.id.is_empty());
                assert!(read.score.is_finite(), "{}", read.score);
                "read".to_owned()
            }
            Err(error) => error.to_string(),
        }
    });
}
