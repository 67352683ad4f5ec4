//! A file with several cases: one template, and a scenario for each set of values.
//!
//! `{{key}}` stands for a value of the case; a number stands alone where the placeholder is a whole
//! string. One file then compares the same policies on many engines and workloads.

use toml::{Table, Value};

use super::{Scenario, ScenarioError};

/// A scenario of a file with cases, and the name of its case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name; empty where the file has no cases.
    pub name: String,
    /// The scenario.
    pub scenario: Scenario,
}

// === impl Scenario ===

impl Scenario {
    /// Reads every case of a file; a file without cases is one.
    pub fn parse_cases(text: &str) -> Result<Vec<Case>, ScenarioError> {
        // The plain parser reports syntax errors with their place.
        let cases = toml::from_str::<Table>(text).ok().and_then(|mut file| file.remove("cases"));
        let Some(cases) = cases else {
            return Ok(vec![Case { name: String::new(), scenario: Self::parse(text)? }]);
        };
        let wrong = || ScenarioError::new("cases", "give a list of tables, each with a name");
        let cases = cases.as_array().filter(|cases| !cases.is_empty()).ok_or_else(wrong)?;
        let read = |case: &Value| {
            let values = case.as_table().ok_or_else(wrong)?;
            let name = values.get("name").and_then(Value::as_str).ok_or_else(wrong)?;
            let within = |error: ScenarioError| {
                ScenarioError::new(error.key, format!("case {name}: {}", error.message))
            };
            let scenario = Self::parse(&expand(text, values)).map_err(within)?;
            Ok(Case { name: name.to_owned(), scenario })
        };
        cases.iter().map(read).collect()
    }
}

/// The text with the values of one case in place of their names. Values of other types than these
/// leave their placeholders, which the parser then refuses.
fn expand(text: &str, values: &Table) -> String {
    let mut text = text.to_owned();
    for (key, value) in values {
        let name = format!("{{{{{key}}}}}");
        let number = match value {
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::String(value) => {
                text = text.replace(&name, value);
                continue;
            }
            _ => continue,
        };
        text = text.replace(&format!("\"{name}\""), &number).replace(&name, &number);
    }
    text
}
