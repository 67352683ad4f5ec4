//! What a body asks for: how large its prompts are, and how many are each answered.
//!
//! A list of prompts is as much work as a request for each of them. A score or a ranking compares
//! one text with each of the others, so an engine reads that text as often. A field that the
//! gateway does not know may be a part of the prompt: a template may write anything.

use super::json_scanner::{JsonScanner, JsonValue, ScanError};
use super::prompt_size::{Place, PromptSize};

/// Fields with text that no engine writes into a prompt.
const BESIDE: [&str; 4] = ["metadata", "logit_bias", "stop", "stream_options"];

/// See the module's description.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BodyPrompts {
    size: PromptSize,
    /// How many prompts `prompt` lists; 0 if it is no list.
    listed: u64,
    /// What is compared with each of the others: its size, how many it lists, and how many others
    /// there are.
    query: PromptSize,
    queries: u64,
    others: u64,
}

// === impl BodyPrompts ===

impl BodyPrompts {
    /// Those of a body of this size without fields.
    pub(super) fn of_size(size: PromptSize) -> Self {
        Self { size, ..Self::default() }
    }

    /// The number of prompts that are each answered.
    pub(super) fn count(&self) -> u64 {
        self.listed.max(1)
    }

    /// The estimated tokens of all of them.
    pub(super) fn tokens(&self) -> u64 {
        let mut all = self.size;
        // Several are compared with one each.
        if self.queries <= 1 {
            all += self.query.times(self.others.saturating_sub(1));
        }
        all.tokens()
    }

    /// Adds the value of a field with a prompt.
    pub(super) fn add(
        &mut self,
        name: &str,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        let (place, mut size, mut listed) = (Place::of_field(name), PromptSize::default(), 0);
        match scanner.value()? {
            JsonValue::Array(mut list) => {
                while scanner.item(&mut list)? {
                    listed += u64::from(size.add_item(place, scanner)?);
                }
            }
            value => size.add(place, value, scanner)?,
        }
        self.size += size;
        match name {
            "prompt" => self.listed = listed,
            "query" | "queries" | "text_1" => (self.query, self.queries) = (size, listed),
            "documents" | "text_2" => self.others = listed,
            _ => {}
        }
        Ok(())
    }

    /// Adds the value of any other field.
    pub(super) fn add_unknown(
        &mut self,
        name: &str,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        let value = scanner.value()?;
        let is_plain = matches!(value, JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_));
        let mut beside = PromptSize::default();
        let is_beside = is_plain || BESIDE.contains(&name);
        let size = if is_beside { &mut beside } else { &mut self.size };
        size.add(Place::Text, value, scanner)
    }
}
