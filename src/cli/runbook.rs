//! The runbook, as part of the program: an operator at night may have nothing else.

/// The document that explains each finding, under a heading with its id.
const RUNBOOK: &str = include_str!("../../docs/RUNBOOK.md");

/// The section about a finding: its id, and what it means.
pub(super) fn section(id: &str) -> Option<String> {
    let heading = format!("## {id}");
    let mut lines = RUNBOOK.lines().skip_while(|line| *line != heading);
    lines.next()?;
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
    Some(format!("{id}\n\n{}", text.join("\n").trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m03_the_program_has_a_section_for_each_finding() {
        let text = section("disk_full").unwrap();
        assert!(text.starts_with("disk_full\n\nThe gateway cannot write a file"), "{text}");
        assert!(!text.contains('#') && !text.contains("store_failing"), "{text}");
        assert_eq!(section("log_dropped").unwrap().lines().next(), Some("log_dropped"));
        assert_eq!((section("disk"), section(""), section("Backends")), (None, None, None));
    }
}
