//! X03: the scanner accepts and counts the same as serde_json.

use std::fmt;

use proptest::prelude::*;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::super::json_scanner::{JsonScanner, ScanError};
use super::prompt_size::PromptSize;

/// Bytes of text and pieces of media, counted by serde_json.
#[derive(Debug, Default, PartialEq, Eq)]
struct Oracle {
    text: u64,
    media: u64,
}

/// The count so far, and whether the value stands under a key of media.
struct Count<'w>(&'w mut Oracle, bool);

const MEDIA: [&str; 8] =
    ["data", "file_data", "image", "images", "audio", "video", "url", "b64_json"];

// === impl Oracle ===

impl Oracle {
    fn tokens(&self) -> u64 {
        self.text.div_ceil(4) + 600 * self.media
    }

    fn add(&mut self, string: &str, is_media: bool) {
        let base64 = |&letter: &u8| letter.is_ascii_alphanumeric() || b"+/=-_".contains(&letter);
        let long = string.len() >= 1024 && string.as_bytes()[..256].iter().all(base64);
        if is_media && (string.starts_with("data:") || long) {
            self.media += 1;
        } else {
            self.text += string.len() as u64;
        }
    }
}

// === impl Count ===

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.0.text += 4;
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.0.text += 4;
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.0.text += 4;
        Ok(())
    }

    fn visit_str<E>(self, string: &str) -> Result<(), E> {
        self.0.add(string, self.1);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Count(self.0, self.1))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            self.0.text += key.len() as u64;
            if ["image_url", "audio_url", "video_url"].contains(&&*key) {
                self.0.media += 1;
                entries.next_value_seed(Count(&mut Oracle::default(), false))?;
            } else {
                entries.next_value_seed(Count(self.0, MEDIA.contains(&&*key)))?;
            }
        }
        Ok(())
    }
}

fn expected(text: &str) -> Option<u64> {
    let mut oracle = Oracle::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    Count(&mut oracle, false).deserialize(&mut parser).and_then(|()| parser.end()).ok()?;
    Some(oracle.tokens())
}

fn walked(text: &str) -> Result<u64, ScanError> {
    let mut scanner = JsonScanner::new(text);
    let mut weight = PromptSize::default();
    weight.add(&mut scanner)?;
    scanner.end()?;
    Ok(weight.tokens())
}

pub(super) fn check(text: &str) {
    assert_eq!(walked(text).ok(), expected(text), "{text:?}: {:?}", walked(text));
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
    assert_eq!(walked(&"[".repeat(1_000_000)), Err(ScanError::TooDeep));
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
        for key in ["data", "images", "text"] {
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
        prop_assert_eq!(walked(&text).ok(), expected(&text), "{:?}", walked(&text));
    }
}
