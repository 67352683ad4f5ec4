//! The file of budgets: how many instructions each count may have at most.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::callgrind::Counts;

/// Another compiler of the same version, another C library: counts differ by less than this.
const SLACK: f64 = 0.02;
const HEAD: &str = "\
# Instructions outside the kernel, on the thread that serves the request. `make budgets` fails where
# one is exceeded by more than 2 %. A commit that raises one says why; `make budgets WRITE=1` writes
# this file.
";

/// Budgets by the names of their counts.
#[derive(Debug, PartialEq)]
pub(super) struct Budgets(BTreeMap<String, f64>);

// === impl Budgets ===

impl Budgets {
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Self::parse(&text).with_context(|| file.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let budget = |line: &str| {
            let (name, count) = line.split_once('=').with_context(|| line.to_owned())?;
            let count = count.trim().parse().with_context(|| line.to_owned())?;
            Ok((name.trim().trim_matches('"').to_owned(), count))
        };
        lines.map(budget).collect::<Result<_>>().map(Self)
    }

    pub(super) fn of(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// An error that names every count above its budget.
    pub(super) fn judge(&self, counted: &[(&str, Counts)]) -> Result<()> {
        let above = counted.iter().filter_map(|(name, found)| {
            let budget = self.of(name)?;
            let share = found.busiest / budget - 1.0;
            (share > SLACK).then(|| {
                let percent = 100.0 * share;
                format!("{name}: {:.0}, {percent:.1} % above {budget:.0}", found.busiest)
            })
        });
        let above: Vec<String> = above.collect();
        if !above.is_empty() {
            bail!("more instructions than the budget allows:\n  {}", above.join("\n  "));
        }
        Ok(())
    }

    /// Writes what was counted as the new budgets; those that were not counted stay.
    pub(super) fn written(mut self, counted: &[(&str, Counts)], file: &Path) -> Result<()> {
        let counted = counted.iter().map(|(name, found)| ((*name).to_owned(), found.busiest));
        self.0.extend(counted);
        let line = |(name, count): (&String, &f64)| format!("{name:?} = {count:.0}\n");
        let lines: String = self.0.iter().map(line).collect();
        Ok(fs::write(file, format!("{HEAD}{lines}"))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(count: f64) -> Counts {
        Counts { busiest: count, all: 9.0 * count }
    }

    #[test]
    fn a_count_that_is_two_per_cent_above_its_budget_is_an_error() {
        let budgets = Budgets::parse("# why\n\"request: a\" = 1000\n\"core: b\" = 200\n").unwrap();
        let of = |a, b| budgets.judge(&[("request: a", found(a)), ("core: b", found(b))]);
        of(1019.0, 10.0).unwrap();
        let error = of(1021.0, 300.0).unwrap_err().to_string();
        assert!(error.contains("request: a: 1021, 2.1 % above 1000"), "{error}");
        assert!(error.contains("core: b: 300, 50.0 % above 200"), "{error}");
    }

    #[test]
    fn budgets_that_are_written_are_read_again() {
        let name = format!("tidegate-budgets-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let budgets = || Budgets::parse("\"a\" = 1\n\"b, c\" = 2\n").unwrap();
        budgets().written(&[("b, c", found(7.4))], &file).unwrap();
        let read = Budgets::read(&file);
        fs::remove_file(&file).unwrap();
        assert_eq!(read.unwrap(), Budgets::parse("\"a\" = 1\n\"b, c\" = 7\n").unwrap());
        assert!(Budgets::parse("nothing\n").is_err());
    }
}
