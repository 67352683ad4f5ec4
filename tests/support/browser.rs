//! A real browser: Debian's Chromium, driven by a script.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::tools::{python, tool};
use super::wait::eventually;

/// A running browser with one page.
#[derive(Debug)]
pub(crate) struct Browser {
    child: Child,
    /// `None` once the browser shall end.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

// === impl Browser ===

impl Browser {
    pub(crate) fn start() -> Self {
        // Says so if it is not installed.
        drop(tool("chromium"));
        let mut command = python("browser.py");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (commands, answers) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut browser = Self { child, commands, answers: BufReader::new(answers) };
        browser.answer();
        browser
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call(json!(["open", url]));
    }

    /// The size of the window.
    pub(crate) fn size(&mut self, width: u32, height: u32) {
        self.call(json!(["size", width, height]));
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        self.call(json!(["eval", expression]))
    }

    /// The text of an element.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let found = format!("document.querySelector({selector:?})?.textContent ?? ''");
        self.eval(&found).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        eventually(expression, || match self.eval(expression) {
            Value::Bool(true) => Ok(()),
            other => Err(other.to_string()),
        });
    }

    /// What the console has complained about.
    pub(crate) fn errors(&mut self) -> Vec<String> {
        serde_json::from_value(self.call(json!(["errors"]))).unwrap()
    }

    fn call(&mut self, command: Value) -> Value {
        writeln!(self.commands.as_ref().unwrap(), "{command}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        assert!(answer["error"].is_null(), "{answer}");
        answer["ok"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The script ends the browser when its input ends.
        drop(self.commands.take());
        let _ = self.child.wait();
    }
}
