//! Why requests of a batch failed: what most lines of its file of errors have in common.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};

use serde_json::Value;

use crate::cli::plain;

/// How much of the file is read: many failures have few causes.
const READ_MAX: u64 = 8 << 20;

/// The commonest cause in a sentence, if any line can be read.
pub(super) fn commonest(file: impl Read) -> Option<String> {
    let mut causes: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut read = 0;
    for line in BufReader::new(file.take(READ_MAX)).split(b'\n') {
        // The last line may be cut in two.
        let Some((code, message)) = line.ok().and_then(|line| cause(&line)) else { continue };
        // Messages may name their request, so that no two are alike: codes are counted.
        causes.entry(code).or_insert((0, message)).0 += 1;
        read += 1;
    }
    let (code, (count, message)) = causes.into_iter().max_by_key(|(_, (count, _))| *count)?;
    let [code, message] = [&code, &message].map(|text| plain::shortened(text));
    Some(format!("{count} of {read} failures are {code}, such as: {message}"))
}

/// What a line says, in a word and in a sentence.
fn cause(line: &[u8]) -> Option<(String, String)> {
    let line: Value = serde_json::from_slice(line).ok()?;
    if let Some(code) = line["error"]["code"].as_str() {
        return Some((code.to_owned(), text(&line["error"]["message"])));
    }
    let (status, body) = (line["response"]["status_code"].as_u64()?, &line["response"]["body"]);
    let message = [&body["error"]["message"], &body["message"], &body["detail"], &body["error"]];
    let message = message.into_iter().find(|message| message.is_string()).unwrap_or(body);
    Some((format!("answers with status {status}"), text(message)))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_the_commonest_failure_is_told_with_an_example() {
        let lines = b"{\"error\":{\"code\":\"batch_expired\",\"message\":\"late\"}}\nnonsense\n\
            {\"response\":{\"status_code\":404,\"body\":{\"error\":{\"message\":\"no\\nm\"}}}}\n\
            {\"response\":{\"status_code\":404,\"body\":\"<html>\"},\"error\":null}\n{\"resp";
        let told = commonest(&lines[..]).unwrap();
        assert_eq!(told, "2 of 3 failures are answers with status 404, such as: no m");
        assert_eq!(commonest(&b""[..]), None);
        assert_eq!(commonest(&b"[1]\n{}\n"[..]), None);
    }

    #[test]
    fn d10_however_long_a_message_is_a_line_of_it_is_shown() {
        let line = format!("{{\"error\":{{\"code\":\"x\",\"message\":\"{}\"}}}}", "é".repeat(9999));
        let told = commonest(line.as_bytes()).unwrap();
        assert_eq!(told.matches('é').count(), plain::SHOWN_MAX);
        let endless = std::io::repeat(b'x');
        assert_eq!(commonest(endless), None, "it ends all the same");
    }
}
