//! A message of the log as a JSON object. It begins with the fields of a line of the access log:
//! `time`, `level`, `target`, `message`. The fields of the message follow beside them.

use std::fmt::{self, Debug, Write as _};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use super::timestamp;
use crate::clock;

/// The fields that every line has.
const OWN: [&str; 4] = ["time", "level", "target", "message"];

/// Writes messages in this form.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonLine;

/// The text of a message, and its fields.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

/// A line without fields of its own.
pub(super) fn plain((level, target): (&str, &str), message: &str) -> String {
    line((level, target), &Fields { message: message.to_owned(), others: Map::new() })
}

fn line((level, target): (&str, &str), fields: &Fields) -> String {
    let mut now = String::new();
    timestamp::write(&mut now, clock::since_epoch());
    let mut line = String::new();
    for (name, value) in OWN.into_iter().zip([now.as_str(), level, target, &fields.message]) {
        let before = if line.is_empty() { '{' } else { ',' };
        // Writing to a string cannot fail.
        _ = write!(line, "{before}\"{name}\":{}", Value::from(value));
    }
    for (name, value) in &fields.others {
        // No key may be there twice.
        let after = if OWN.contains(&name.as_str()) { "_" } else { "" };
        _ = write!(line, ",{}:{value}", Value::from(format!("{name}{after}")));
    }
    line.push_str("}\n");
    line
}

// === impl JsonLine ===

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        writer.write_str(&line((metadata.level().as_str(), metadata.target()), &fields))
    }
}

// === impl Fields ===

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        self.others.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            _ => self.add(field, value.into()),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.add(field, format!("{value:?}").into()),
        }
    }
}
