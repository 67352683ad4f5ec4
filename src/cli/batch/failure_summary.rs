//! The most frequent failure in the errors file of a batch.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};

use serde_json::Value;

use crate::cli::plain;

/// The part of the file that is read: many failures have few causes.
const READ_MAX: u64 = 8 << 20;

/// The most frequent failure in a sentence, if any line can be read.
pub(super) fn most_frequent(file: impl Read) -> Option<String> {
    let mut causes: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut read = 0;
    for line in BufReader::new(file.take(READ_MAX)).split(b'\n') {
        // The last line may be cut in two.
        let Some((code, message)) = line.ok().and_then(|line| cause(&line)) else { continue };
        // Codes are counted, because messages may name their request and be all different.
        causes.entry(code).or_insert((0, message)).0 += 1;
        read += 1;
    }
    let (code, (count, message)) = causes.into_iter().max_by_key(|(_, (count, _))| *count)?;
    let [code, message] = [&code, &message].map(|text| plain::shortened(text));
    Some(format!("most frequent failure ({count} of {read}): {code}, for example: {message}"))
}

/// The code and the message of a line.
fn cause(line: &[u8]) -> Option<(String, String)> {
    let line: Value = serde_json::from_slice(line).ok()?;
    if let Some(code) = line["error"]["code"].as_str() {
        return Some((code.to_owned(), text(&line["error"]["message"])));
    }
    let (status, body) = (line["response"]["status_code"].as_u64()?, &line["response"]["body"]);
    let message = [&body["error"]["message"], &body["message"], &body["detail"], &body["error"]];
    let message = message.into_iter().find(|message| message.is_string()).unwrap_or(body);
    Some((format!("status {status}"), text(message)))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_the_most_frequent_failure_is_shown_with_an_example() {
        let lines = b"{\"error\":{\"code\":\"batch_expired\",\"message\":\"late\"}}\nnonsense\n\
            {\"response\":{\"status_code\":404,\"body\":{\"error\":{\"message\":\"no\\nm\"}}}}\n\
            {\"response\":{\"status_code\":404,\"body\":\"<html>\"},\"error\":null}\n{\"resp";
        let summary = most_frequent(&lines[..]).unwrap();
        assert_eq!(summary, "most frequent failure (2 of 3): status 404, for example: no m");
        assert_eq!(most_frequent(&b""[..]), None);
        assert_eq!(most_frequent(&b"[1]\n{}\n"[..]), None);
    }

    #[test]
    fn d10_a_long_message_is_cut_and_a_file_without_end_is_not_read_to_its_end() {
        let line = format!("{{\"error\":{{\"code\":\"x\",\"message\":\"{}\"}}}}", "é".repeat(9999));
        let summary = most_frequent(line.as_bytes()).unwrap();
        assert_eq!(summary.matches('é').count(), plain::SHOWN_MAX);
        let endless = std::io::repeat(b'x');
        assert_eq!(most_frequent(endless), None);
    }
}
