//! X06: mutated configurations.

use super::{toml, yaml};
use crate::api_keys::read_lines;
use crate::fuzz::fuzz;

const TOML: &str = include_str!("../../../../../examples/tidegate.toml");
const YAML: &str = include_str!("../../../../../examples/tidegate.yaml");

/// Pieces of an example: whole files would hide small mutations among their own problems.
fn pieces(text: &'static str, mark: &str) -> Vec<&'static [u8]> {
    let starts = text.match_indices(mark).map(|(at, _)| at + 1);
    let mut marks: Vec<usize> = starts.collect();
    marks.push(text.len());
    marks.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect()
}

fn outcome(result: Result<super::Config, super::ConfigError>) -> String {
    match result {
        Ok(_) => "accepted".to_owned(),
        Err(error) => {
            let lines = error.lines();
            assert!(!lines.is_empty(), "an error without a line");
            // The text behind the place says what is wrong.
            lines[0].split(": ").last().unwrap_or_default().to_owned()
        }
    }
}

#[test]
fn x06_fuzz_toml() {
    let words: [&[u8]; 8] =
        [b"[queue]\n", b"[[backends]]\n", b" = ", b"\"30s\"", b"\"\"\"", b"'''", b"{", b"-1"];
    fuzz("toml", &pieces(TOML, "\n["), &words, |input, _| {
        outcome(toml(&String::from_utf8_lossy(input)))
    });
}

#[test]
fn x06_fuzz_yaml() {
    let words: [&[u8]; 9] =
        [b"queue:\n  ", b"- ", b"&a ", b"*a", b"<<: ", b"!!str ", b"|\n", b"? ", b"---\n"];
    let seeds = pieces(YAML, "\n\n");
    fuzz("yaml", &seeds, &words, |input, _| outcome(yaml(&String::from_utf8_lossy(input))));
}

#[test]
fn x05_fuzz_key_files() {
    let digest = "0".repeat(64);
    let line = format!("# keys\nsha256:{digest} team-a laptop 2027-01-31\n");
    let admin = format!("sha256:{digest} admin:read grafana 2027-01-15T08:00:00Z\n");
    let words: [&[u8]; 5] = [b"sha256:", b"admin:change", b" ", b"\n", b"2027-02-30"];
    fuzz("key-files", &[line.as_bytes(), admin.as_bytes()], &words, |input, _| {
        let text = String::from_utf8_lossy(input);
        match read_lines(&text) {
            Ok(lines) => {
                for line in &lines {
                    assert_eq!(line.to_string().parse().as_ref(), Ok(line));
                }
                lines.len().min(3).to_string()
            }
            Err(error) => {
                assert!(error.line >= 1 && error.line <= text.lines().count());
                "refused".to_owned()
            }
        }
    });
}
