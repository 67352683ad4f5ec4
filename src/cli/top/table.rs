//! Tables of text: columns as wide as their widest cell, numbers to the right.

use serde_json::Value;

/// One column: its title, and whether its cells are numbers.
pub(super) type Column = (&'static str, bool);

/// The lines of a table, the titles first. The last column is not padded.
pub(super) fn lines<const N: usize>(columns: [Column; N], rows: &[[String; N]]) -> Vec<String> {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([columns[at].0.chars().count()]).max().unwrap_or(0).min(40)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (at, cell) in cells.into_iter().enumerate() {
            let cell = cut(cell, if at + 1 == N { usize::MAX } else { widths[at] });
            let width = widths[at];
            line += &match (columns[at].1, at + 1 == N) {
                (true, _) => format!("{cell:>width$}  "),
                (false, false) => format!("{cell:<width$}  "),
                (false, true) => cell,
            };
        }
        line.trim_end().to_owned()
    };
    let titles = columns.map(|(title, _)| title);
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(line(titles)).chain(rows).collect()
}

/// A text of at most this many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A number without the sign of a zero.
fn unsigned(number: String) -> String {
    let is_zero = !number.contains(|letter: char| ('1'..='9').contains(&letter));
    if is_zero { number.trim_start_matches('-').to_owned() } else { number }
}

/// A whole number; a dash where there is none.
pub(super) fn count(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |number| unsigned(format!("{number:.0}")))
}

/// A number with one digit after the point.
pub(super) fn decimal(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |number| unsigned(format!("{number:.1}")))
}

/// A time in seconds.
pub(super) fn time(value: &Value) -> String {
    match value.as_f64() {
        None => "-".into(),
        Some(seconds) if seconds < 10.0 => format!("{seconds:.1} s"),
        Some(seconds) if seconds < 120.0 => format!("{seconds:.0} s"),
        Some(seconds) if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        Some(seconds) => format!("{:.0} h", seconds / 3600.0),
    }
}

/// A time in milliseconds.
pub(super) fn millis(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |millis| time(&(millis / 1e3).into()))
}

/// A share in per cent.
pub(super) fn percent(value: &Value) -> String {
    value
        .as_f64()
        .map_or_else(|| "-".into(), |share| unsigned(format!("{:.0}", share * 100.0)) + " %")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn m03_numbers_stand_right_and_long_cells_are_cut() {
        let row = |name: &str, count: &str| [name.to_owned(), count.to_owned(), "why".to_owned()];
        let rows = [row("a", "7"), row(&"b".repeat(60), "1234")];
        let lines = lines([("name", false), ("count", true), ("reason", false)], &rows);
        assert_eq!(lines[0], format!("{:<40}  count  reason", "name"));
        assert_eq!(lines[1], format!("{:<40}      7  why", "a"));
        assert_eq!(lines[2], format!("{}…   1234  why", "b".repeat(39)));
        assert_eq!(
            [time(&json!(0.25)), time(&json!(75)), time(&json!(600))],
            ["0.2 s", "75 s", "10 min"]
        );
        assert_eq!(
            [count(&json!(-0.0)), decimal(&json!(-0.01)), percent(&json!(-0.0))],
            ["0", "0.0", "0 %"]
        );
        assert_eq!(
            [time(&json!(null)), millis(&json!(1500)), percent(&json!(0.5))],
            ["-", "1.5 s", "50 %"]
        );
    }
}
