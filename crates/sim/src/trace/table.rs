//! Tables: a header that names the columns, then a row a line, with commas between plain fields.
//!
//! Columns stand in any order and unknown ones are skipped. Quoted fields are refused rather than
//! half understood: none of the traces has any.

use std::sync::Arc;

use super::{Entry, Fault, Field, NOBODY, UNDERSTOOD, number, wall};

const SECONDS: &str = "arrived_at_s";
const WALL: &str = "TIMESTAMP";
const TIMES: &[&str] = &[SECONDS, WALL];
const CLIENTS: &[&str] = &["client"];
const PROMPTS: &[&str] = &["prompt_tokens", "input_tokens", "ContextTokens"];
const OUTPUTS: &[&str] = &["output_tokens", "GeneratedTokens"];

/// Where the columns of a table are.
pub(super) struct Table {
    time: Column,
    client: Option<Column>,
    prompt: Column,
    output: Column,
    width: usize,
}

#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    index: usize,
}

// === impl Table ===

impl Table {
    /// Reads the header.
    pub(super) fn of(header: &str) -> Result<Self, Fault> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let time = Column::find(&names, TIMES)?;
        let prompt = Column::find(&names, PROMPTS)?;
        let output = Column::find(&names, OUTPUTS)?;
        if time.is_none() && prompt.is_none() && output.is_none() {
            let quote = number::quote(header);
            return Err(Fault::line(format!("{quote} is not understood; expected {UNDERSTOOD}")));
        }
        Ok(Self {
            time: time.ok_or_else(|| missing(TIMES))?,
            client: Column::find(&names, CLIENTS)?,
            prompt: prompt.ok_or_else(|| missing(PROMPTS))?,
            output: output.ok_or_else(|| missing(OUTPUTS))?,
            width: names.len(),
        })
    }

    /// The column that rows are sorted by.
    pub(super) fn time(&self) -> Field {
        self.time.field()
    }

    /// Reads one row.
    pub(super) fn entry<'a>(&self, line: &'a str) -> Result<Entry<'a>, Fault> {
        if line.contains('"') {
            return Err(Fault::line("quotation marks are not understood: write plain fields"));
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != self.width {
            let (found, wanted) = (fields.len(), self.width);
            let quote = number::quote(line);
            let message = format!("{found} columns where the header has {wanted}: {quote}");
            return Err(Fault::line(message));
        }
        let of = |column: Column| (column.field(), fields[column.index]);
        let (time, written) = of(self.time);
        let at = match self.time.name {
            WALL => wall::moment(written).ok_or_else(|| not_a_wall_time(written)),
            _ => number::seconds(written).map_err(|error| error.about(written)),
        };
        let (prompt, prompt_text) = of(self.prompt);
        let (output, output_text) = of(self.output);
        Ok(Entry {
            at: at.map_err(|message| time.fault(message))?,
            client: self.client.map_or(Ok(NOBODY), |column| client(fields[column.index]))?,
            prompt: tokens(prompt, prompt_text)?,
            output: tokens(output, output_text)?,
            prefix: Arc::default(),
        })
    }
}

// === impl Column ===

impl Column {
    /// The column with one of these names.
    fn find(header: &[&str], names: &[&'static str]) -> Result<Option<Self>, Fault> {
        let named = |(index, written): (usize, &&str)| {
            let name = names.iter().find(|name| *name == written)?;
            Some(Self { name, index })
        };
        let mut found = header.iter().enumerate().filter_map(named);
        match (found.next(), found.next()) {
            (Some(first), Some(second)) => {
                let places = (first.index + 1, second.index + 1);
                let message = format!("the columns {} and {} mean the same", places.0, places.1);
                Err(second.field().fault(message))
            }
            (first, _) => Ok(first),
        }
    }

    fn field(self) -> Field {
        Field::Column(self.name)
    }
}

fn tokens(field: Field, text: &str) -> Result<u32, Fault> {
    number::tokens(text).map_err(|error| field.fault(error.about(text)))
}

fn missing(names: &[&'static str]) -> Fault {
    let (name, others) = (names[0], names[1..].join(" or "));
    Field::Column(name).fault(format!("missing in the header; it may also be called {others}"))
}

fn not_a_wall_time(written: &str) -> String {
    format!("{} is not a time such as 2023-11-16 18:15:46.6805900", number::quote(written))
}

/// A name that can be printed.
fn client(name: &str) -> Result<&str, Fault> {
    let fault = |message| Err(Field::Column(CLIENTS[0]).fault(message));
    if name.is_empty() {
        fault("empty: every row needs a client, or none".to_owned())
    } else if name.contains(char::is_control) {
        fault(format!("{} has control characters", number::quote(name)))
    } else {
        Ok(name)
    }
}
