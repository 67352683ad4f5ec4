//! X03: the scanner accepts and counts the same as serde_json.

use std::fmt;

use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::json_scanner::{JsonScanner, ScanError};
use super::prompt_size::{Place, PromptSize};

/// Bytes of text and pieces of media, counted by serde_json.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Oracle {
    text: u64,
    media: u64,
}

/// The entries of an object in their order, also those that stand twice.
struct Entries(Vec<(String, Box<RawValue>)>);

const PLACES: [Place; 4] = [Place::Text, Place::Parts, Place::Medium, Place::Address];

// === impl Oracle ===

impl Oracle {
    fn tokens(&self) -> u64 {
        self.text.div_ceil(4) + 600 * self.media
    }

    fn add(&mut self, place: Place, raw: &RawValue) {
        let text = raw.get();
        match text.as_bytes()[0] {
            b'"' => self.add_string(place, &serde_json::from_str::<String>(text).unwrap()),
            b'[' => {
                let items: Vec<Box<RawValue>> = serde_json::from_str(text).unwrap();
                items.iter().for_each(|item| self.add_item(place, item));
            }
            b'{' => {
                let Entries(entries) = serde_json::from_str(text).unwrap();
                entries.iter().for_each(|(key, value)| self.add_entry(place, key, value));
            }
            b'-' | b'0'..=b'9' if text.len() <= 8 => self.text += 4,
            _ => self.text += text.len() as u64,
        }
    }

    fn add_item(&mut self, place: Place, item: &RawValue) {
        let before = *self;
        self.add(place, item);
        let is_text = matches!(item.get().as_bytes()[0], b'"' | b't' | b'f' | b'n');
        if *self == before || (is_text && self.media == before.media) {
            self.text += 2;
        }
    }

    fn add_entry(&mut self, place: Place, key: &str, value: &RawValue) {
        self.text += key.len() as u64 + if place == Place::Text { 4 } else { 0 };
        let is = |keys: &[&str]| keys.contains(&key);
        let under = match place {
            Place::Parts if is(&["content", "output"]) => Place::Parts,
            Place::Parts if is(&["image_url", "audio_url", "video_url"]) => Place::Address,
            Place::Parts if is(&["image", "images", "audio", "video"]) => Place::Medium,
            Place::Parts if is(&["input_audio", "source", "file", "file_data"]) => Place::Medium,
            Place::Medium if is(&["data", "url", "file_data"]) => Place::Medium,
            Place::Address if is(&["url"]) => Place::Address,
            _ => Place::Text,
        };
        self.add(under, value);
    }

    fn add_string(&mut self, place: Place, string: &str) {
        let base64 = |&letter: &u8| letter.is_ascii_alphanumeric() || b"+/=-_".contains(&letter);
        let long = string.len() >= 1024 && string.as_bytes()[..256].iter().all(base64);
        let urls = ["data:image/", "data:audio/", "data:video/", "data:application/pdf"];
        let is_url = urls.iter().any(|url| string.starts_with(url));
        let is_medium = match place {
            Place::Text | Place::Parts => false,
            Place::Medium => is_url || long,
            Place::Address => is_url,
        };
        self.media += u64::from(is_medium || place == Place::Address);
        self.text += if is_medium { 0 } else { string.len() as u64 };
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(Vec::new()))
    }
}

impl<'de> Visitor<'de> for Entries {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Self, A::Error> {
        while let Some(entry) = entries.next_entry()? {
            self.0.push(entry);
        }
        Ok(self)
    }
}

fn expected(place: Place, text: &str) -> Option<u64> {
    serde_json::from_str::<Value>(text).ok()?;
    let mut oracle = Oracle::default();
    oracle.add(place, &serde_json::from_str::<Box<RawValue>>(text).unwrap());
    Some(oracle.tokens())
}

fn walked(place: Place, text: &str) -> Result<u64, ScanError> {
    let mut scanner = JsonScanner::new(text);
    let mut size = PromptSize::default();
    let value = scanner.value()?;
    size.add(place, value, &mut scanner)?;
    scanner.end()?;
    Ok(size.tokens())
}

pub(super) fn check(text: &str) {
    for place in PLACES {
        let walked = walked(place, text);
        assert_eq!(walked.ok(), expected(place, text), "{place:?} {text:?}: {walked:?}");
    }
}

const CASES: &[&str] = &[
    "0",
    "-0",
    "00",
    "01",
    "-",
    "-1",
    "1.",
    "1.5",
    ".5",
    "1e5",
    "1E+5",
    "1e-5",
    "1e",
    "1e+",
    "1e308",
    "1e309",
    "-1e309",
    "0e999",
    "1e-999",
    "1e99999999999",
    "0e99999999999",
    "+1",
    "12345678901234567890123",
    "0x10",
    "NaN",
    "Infinity",
    "1 2",
    "- 1",
    "1.e5",
    "1.5e5",
    "true",
    "tru",
    "truex",
    "false",
    "null",
    "nul",
    "nulll",
    "True",
    "\"",
    "\"\"",
    "\"a",
    "\"\\\"",
    "\"\\",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\udc00\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\\udb00\"",
    "\"\\udbff\\udfff\"",
    "\"\\udbff\\ue000\"",
    "\"\\ud83d\\u0041\"",
    "\"\\ud83dx\"",
    "\"\\uD83D\\uDE00\"",
    "\"\\ude00\\ud83d\"",
    "\"a\nb\"",
    "\"a\u{1f}b\"",
    "\"a\u{7f}b\"",
    "\"\u{e9}\u{1F600}\"",
    "\"\\u00e9\\u20ac\\n\\/\"",
    "[]",
    "[ ]",
    "[,]",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1,2]",
    "{}",
    "{ }",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{,}",
    "{a:1}",
    "{1:1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1,\"a\":2}",
    "{\"a\" :\t1\r\n}",
    "[}",
    "{]",
    "",
    " ",
    "\u{a0}1",
    "\u{feff}1",
    "[[1],{\"b\":[null]}]x",
    "{\"\\ud800\":1}",
    "{\"image\\u005furl\":\"xxxx\"}",
];

#[test]
fn x03_the_scanner_accepts_the_same_numbers_literals_and_escapes() {
    CASES.iter().for_each(|text| check(text));
    let digits = |count| "9".repeat(count);
    [299, 300, 308, 309, 310, 400].iter().for_each(|&count| check(&digits(count)));
}

#[test]
fn x03_the_walk_goes_as_deep() {
    for depth in [126, 127, 128, 129] {
        check(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth)));
        check(&format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
    }
    let endless = walked(Place::Text, &"[".repeat(1_000_000));
    assert_eq!(endless, Err(ScanError::TooDeep));
    // Siblings do not nest.
    check(&format!("[{}[]]", "[],".repeat(1000)));
}

#[test]
fn pictures_are_seen_through_escapes() {
    let long = "QUJD".repeat(300);
    for text in [
        format!("\"{long}\""),
        format!("\"{}\\/{long}\"", &long[..8]),
        format!("\"{}\\u0041{long}\"", &long[..8]),
        format!("\"{}\\n{long}\"", &long[..8]),
        format!("\"{}\\n{long}\"", &long[..300]),
        format!("\"{}\\n{long}\"", &long[..256]),
        format!("\"{}\\n{long}\"", &long[..255]),
        format!("\"a \\/{long}\""),
        "\"data:image/png;base64,\\n\"".to_owned(),
        "\"d\\u0061ta:x\"".to_owned(),
        "\"data\\u003ax\"".to_owned(),
        "\"dat\\na:\"".to_owned(),
        "\"data:\"".to_owned(),
    ] {
        check(&text);
        for key in ["content", "data", "images", "image_url", "text", "source"] {
            check(&format!("{{\"{key}\":{text}}}"));
            check(&format!("{{\"{key}\":[{text},{{\"url\":{text}}}]}}"));
        }
    }
}

/// Strings as clients write them, and invalid ones.
fn string() -> impl Strategy<Value = String> {
    const PIECES: [&str; 20] = [
        "a",
        "B9",
        " ",
        "é",
        "😀",
        "\\n",
        "\\\"",
        "\\\\",
        "\\/",
        "\\u0041",
        "\\u00e9",
        "\\u20AC",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\ude00",
        "\\x",
        "\n",
        "\\u12",
        "data:",
        "+/=",
    ];
    let piece = proptest::sample::select(&PIECES[..]);
    let filler = prop_oneof![Just(0usize), Just(255), Just(256), Just(1024), Just(1100)];
    (proptest::collection::vec(piece, 0..8), filler, any::<bool>()).prop_map(
        |(pieces, filler, behind)| {
            let (pieces, filler) = (pieces.concat(), "x".repeat(filler));
            if behind { format!("\"{filler}{pieces}\"") } else { format!("\"{pieces}{filler}\"") }
        },
    )
}

/// Texts that are nearly JSON.
fn text() -> impl Strategy<Value = String> {
    const SHARDS: [&str; 16] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"image_url\"",
        "true",
        "null",
        "-1",
        "1.5e3",
        "0",
        " ",
        "\n",
        "é",
    ];
    let shard = prop_oneof![
        4 => proptest::sample::select(&SHARDS[..]).prop_map(str::to_owned),
        1 => string(),
    ];
    let shards = proptest::collection::vec(shard, 0..24).prop_map(|shards| shards.concat());
    prop_oneof![
        shards,
        string(),
        (string(), string()).prop_map(|(key, value)| format!("{{{key}:[{value}]}}")),
        "\\PC{0,60}",
        super::bodies::json(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn x03_the_scanner_accepts_and_counts_as_a_general_parser(text in text()) {
        check(&text);
    }
}
