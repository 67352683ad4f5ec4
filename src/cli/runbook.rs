//! The runbook, as part of the program: an operator at night may have nothing else.

use gateway::config::nearest;

/// The document that explains each finding, under a heading with its id.
const RUNBOOK: &str = include_str!("../../docs/RUNBOOK.md");

/// The document that explains each error code, in the rows of a table.
const ERRORS: &str = include_str!("../../docs/ERRORS.md");

/// The section about a finding: its id, and what it means.
pub(super) fn section(id: &str) -> Option<String> {
    let heading = format!("## {id}");
    let mut lines = RUNBOOK.lines().skip_while(|line| *line != heading);
    lines.next()?;
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
    Some(format!("{id}\n\n{}", text.join("\n").trim()))
}

/// What a name may mean that is neither a request nor a finding: an error code, or a misspelt
/// name.
pub(super) fn meant(name: &str) -> Option<String> {
    let findings = || RUNBOOK.lines().filter_map(|line| line.strip_prefix("## "));
    let codes = || ERRORS.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    if codes().any(|code| code == name) {
        return Some(format!("; {name} is an error code, which docs/ERRORS.md explains"));
    }
    let meant = nearest(name, findings().chain(codes()))?;
    let kind = if findings().any(|id| id == meant) { "finding" } else { "error code" };
    Some(format!("; did you mean the {kind} {meant}?"))
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

    #[test]
    fn m03_a_misspelt_finding_or_an_error_code_is_told() {
        let said = |name: &str| meant(name).unwrap_or_default();
        assert_eq!(said("backend_slwo"), "; did you mean the finding backend_slow?");
        assert_eq!(said("wait_to_long"), "; did you mean the error code wait_too_long?");
        let code = "; wait_too_long is an error code, which docs/ERRORS.md explains";
        assert_eq!(said("wait_too_long"), code);
        assert_eq!(meant("5f3c9a0b-77d1"), None);
    }
}
