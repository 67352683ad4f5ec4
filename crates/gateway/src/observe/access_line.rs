//! One request as a line of the access log: `key=value` or JSON.
//!
//! Both formats share one list of fields. Unknown values are left out. Values come from clients, so
//! they are cut, and escaped so that they cannot end a line or a field, or control a terminal.

use std::fmt::Write;
use std::time::Duration;

use flow::Span;

use super::timestamp::{self, digits};
use super::{BAND_NAMES, Record};
use crate::config::settings::LogFormat;

/// The longest value, in bytes.
const VALUE_MAX: usize = 256;
const CUT_MARK: &str = "...";

/// A line under construction.
#[derive(Debug)]
struct AccessLine {
    out: String,
    format: LogFormat,
}

/// The line of a request that ended at `moment`, counted from 1970. No other request has its
/// `number`, which is part of the workload id if the client gave none.
pub(super) fn write(record: &Record, format: LogFormat, moment: Duration, number: u64) -> String {
    let mut line = AccessLine { out: String::with_capacity(640), format };
    line.stamp(moment, "\"access\",\"message\":\"request\"");
    line.word("request_id", record.request_id.to_str().unwrap_or_default());
    line.word("method", record.method.as_str());
    line.word("path", &record.path);
    line.word("client", &record.client);
    line.maybe("status", (record.status > 0).then_some(record.status.into()));
    line.word("outcome", record.outcome);
    let (model, target) = record.models();
    line.word("model", model);
    line.word("target_model", target);
    line.word("flow", &record.flow);
    if let Some(tenant) = &record.tenant {
        line.word("tenant", &tenant.name);
        line.word("key", record.key.as_deref().unwrap_or_default());
    }
    line.word("priority", record.band.map_or("", |band| BAND_NAMES[band as usize]));
    if record.criticality > 0 {
        line.workload(record, number);
        line.number("criticality", record.criticality);
        if let Some(terms) = &record.urgency {
            line.real("workload_rate", terms.rate);
            line.millionths("urgency", terms.urgency);
        }
    }
    if !record.backend.is_empty() {
        line.word("backend", &record.backend);
        line.word("reason", record.reason);
        line.real("boost", record.boost);
        line.real("score", record.score);
        line.real("queue_penalty", record.queue_penalty);
    }
    line.number("attempts", record.attempts);
    line.flag("bypassed", record.bypassed);
    line.millis("wait_ms", record.waited);
    line.millis("first_byte_ms", record.first_byte);
    line.millis("slo_ttft_ms", record.slo_ttft);
    line.millis("total_ms", Some(record.total));
    line.maybe("prompt_tokens", record.prompt_tokens);
    line.maybe("output_tokens", record.output_tokens);
    line.maybe("cached_tokens", record.cached_tokens);
    let expected = record.cached_expected;
    line.maybe("cached_expected", (expected > 0).then_some(expected));
    line.word("usage", if record.usage_estimated { "estimated" } else { "" });
    line.number("bytes_in", record.bytes_in);
    line.number("bytes_out", record.bytes_out);
    line.finish()
}

/// A message in a line of its own. In the text format it has no time, because its readers look for
/// its first word.
pub(super) fn message(text: &str, format: LogFormat, moment: Duration) -> String {
    match format {
        LogFormat::Text => format!("{text}\n"),
        LogFormat::Json => {
            let mut line = AccessLine { out: String::with_capacity(256), format };
            line.stamp(moment, "\"tidegate\"");
            line.word("message", text);
            line.finish()
        }
    }
}

/// Whether a byte needs no quotes in the text format.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'=')
}

/// Whether a character may stand unescaped in quotes. Beyond ASCII only letters and digits may;
/// invisible characters and terminal controls may not.
fn is_harmless(letter: char) -> bool {
    match letter {
        '"' | '\\' => false,
        ' ' => true,
        _ if letter.is_ascii() => letter.is_ascii_graphic(),
        _ => letter.is_alphanumeric(),
    }
}

// === impl AccessLine ===

impl AccessLine {
    /// The time, and in JSON the other fields that each line of the log has: `target` is written as
    /// it is, with what may follow it.
    fn stamp(&mut self, moment: Duration, target: &str) {
        self.key("time");
        self.quote();
        timestamp::write(&mut self.out, moment);
        self.quote();
        if self.format == LogFormat::Json {
            self.out.push_str(",\"level\":\"INFO\",\"target\":");
            self.out.push_str(target);
        }
    }

    /// The workload id of the client, or a generated one.
    fn workload(&mut self, record: &Record, number: u64) {
        if !record.workload.is_empty() {
            return self.word("workload", &record.workload);
        }
        self.key("workload");
        self.quote();
        self.out.push_str(record.workload_prefix);
        digits(&mut self.out, number, 1);
        self.quote();
    }

    /// Begins or ends a text that needs quotes in JSON only.
    fn quote(&mut self) {
        if self.format == LogFormat::Json {
            self.out.push('"');
        }
    }

    fn key(&mut self, key: &str) {
        let first = self.out.is_empty();
        let (before, after) = match self.format {
            LogFormat::Text if first => ("", "="),
            LogFormat::Text => (" ", "="),
            LogFormat::Json if first => ("{\"", "\":"),
            LogFormat::Json => (",\"", "\":"),
        };
        self.out.push_str(before);
        self.out.push_str(key);
        self.out.push_str(after);
    }

    fn word(&mut self, key: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.key(key);
        let kept = &value[..value.floor_char_boundary(VALUE_MAX)];
        let mark = if kept.len() < value.len() { CUT_MARK } else { "" };
        let is_plain = kept.bytes().all(is_plain);
        let quote = if self.format == LogFormat::Text && is_plain { "" } else { "\"" };
        self.out.push_str(quote);
        if is_plain {
            self.out.push_str(kept);
        } else {
            self.escaped(kept);
        }
        self.out.push_str(mark);
        self.out.push_str(quote);
    }

    /// Writes a value with JSON escapes.
    fn escaped(&mut self, value: &str) {
        for letter in value.chars() {
            match letter {
                _ if is_harmless(letter) => self.out.push(letter),
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                _ => self.numbered(letter),
            }
        }
    }

    /// Writes a character as a `\u` escape.
    fn numbered(&mut self, letter: char) {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            _ = write!(self.out, "\\u{unit:04x}");
        }
    }

    fn number(&mut self, key: &str, value: impl Into<u64>) {
        self.key(key);
        digits(&mut self.out, value.into(), 1);
    }

    fn maybe(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(key, value);
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.key(key);
        self.out.push_str(if value { "true" } else { "false" });
    }

    fn millis(&mut self, key: &str, span: Option<Span>) {
        if let Some(span) = span {
            self.key(key);
            self.thousandths(span.nanos() / 1000);
        }
    }

    fn real(&mut self, key: &str, value: f64) {
        // JSON has no numbers that are not finite.
        if value.is_finite() {
            self.key(key);
            self.out.push_str(if value < 0.0 { "-" } else { "" });
            self.thousandths((value.abs() * 1000.0).round() as u64);
        }
    }

    fn millionths(&mut self, key: &str, value: f64) {
        if value.is_finite() {
            self.key(key);
            let millionths = (value.abs() * 1e6).round() as u64;
            self.out.push_str(if value < 0.0 { "-" } else { "" });
            digits(&mut self.out, millionths / 1_000_000, 1);
            self.out.push('.');
            digits(&mut self.out, millionths % 1_000_000, 6);
        }
    }

    /// Writes a number with three decimals.
    fn thousandths(&mut self, value: u64) {
        digits(&mut self.out, value / 1000, 1);
        self.out.push('.');
        digits(&mut self.out, value % 1000, 3);
    }

    fn finish(mut self) -> String {
        self.out.push_str(match self.format {
            LogFormat::Text => "\n",
            LogFormat::Json => "}\n",
        });
        self.out
    }
}
