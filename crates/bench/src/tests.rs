//! Reports say what they should, and the command line is consistent.

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::report::{Report, Table, median, percentile};

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn percentiles_are_values_that_were_measured() {
    let values = [5.0, 1.0, 4.0, 2.0, 3.0];
    let found = (median(&values), percentile(&values, 990), percentile(&values, 200));
    assert_eq!(found, (3.0, 5.0, 1.0));
    assert!(median(&[]).is_nan());
}

#[test]
fn tables_are_aligned() {
    let columns = [("core", 0), ("floor", 0), ("ratio", 2)];
    let mut table = Table { subject: "ns per step", ..Table::new("Steps", &columns) };
    table.push_all("a", [120.4, 60.0, 2.006]);
    table.push("preemption", [Some(70.0), None, None]);
    let expected = "\
## Steps

| ns per step | core | floor | ratio |
| ----------- | ---: | ----: | ----: |
| a           |  120 |    60 |  2.01 |
| preemption  |   70 |     – |     – |

";
    assert_eq!(table.to_string(), expected);
}

#[test]
fn a_report_states_which_targets_are_met() {
    let mut table = Table::new("A request", &[("µs", 1)]);
    table.push_all("gateway", [30.04]);
    table.push("floor", [None]);
    table.target("ratio", 1.25, 1.2);
    table.target("p99", 1.0, 1.1);
    table.target("not measured", 1.0, table.figure("nginx", 0));
    let notes = vec!["nginx is missing".to_owned()];
    let report = Report { quick: true, notes, tables: vec![table] };
    let text = report.to_string();
    let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap().to_owned();
    assert!(text.contains("nginx is missing") && text.starts_with("A quick run"), "{text}");
    assert!(line("| gateway").contains("30.0") && line("| floor").contains('–'));
    assert!(line("| ratio").ends_with("yes |"));
    assert!(line("| p99").ends_with("NO |"));
    assert!(line("| not measured").ends_with("NO |"));
    let mut json = Vec::new();
    report.print(true, &mut json).unwrap();
    assert!(String::from_utf8(json).unwrap().contains("\"met\": false"));
}
