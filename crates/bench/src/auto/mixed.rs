//! Four unlike engines behind one queue, against the sum of what each gives alone.
//!
//! No single number fits all of them: that is what a bound for each backend is for.

use anyhow::Result;
use sim::engine::Profile;

use super::Study;
use super::case::{Known, LOAD};
use super::main_table::CONSTANTS;
use super::report::Mixed;
use super::run::{Run, Stock};

const ENGINES: [&str; 4] = ["rtx4090-8b", "pro6000-8b", "pro6000x2-32b", "h100-8b"];
const WORKLOAD: &str = "conv";

pub(super) fn measure(study: &mut Study<'_>) -> Result<Vec<Mixed>> {
    if !study.wants("mixed")? {
        return Ok(Vec::new());
    }
    let all: Result<Vec<Known>> =
        ENGINES.iter().map(|engine| study.know(engine, WORKLOAD)).collect();
    let all = all?;
    let most: f64 = all.iter().map(|known| known.knee.most).sum();
    let capacity: f64 = all.iter().map(|known| known.capacity).sum();
    let engines: Vec<Profile> = all.iter().map(|known| known.case.engine.clone()).collect();
    let run = Run::new(&engines[0], &all[0].case.lengths, LOAD * capacity, study.effort.window);
    let run = Run { engines, ..run };
    let knees = all.iter().map(|known| f64::from(known.knee.watermark));
    let [low, high] = [knees.clone().fold(f64::MAX, f64::min), knees.fold(0.0, f64::max)];
    let mut stocks = vec![("auto with metrics".to_owned(), run.clone())];
    stocks.push(("auto without metrics".to_owned(), Run { metrics: None, ..run.clone() }));
    for watermark in [CONSTANTS[0], low, CONSTANTS[1], high] {
        stocks.push((format!("{watermark:.0} for each"), run.with(Stock::Fixed(watermark), 0)));
    }
    let (names, runs): (Vec<String>, Vec<Run>) = stocks.into_iter().unzip();
    let figures = study.effort.means(&runs)?;
    let row = |(stock, figures): (String, super::Figures)| Mixed {
        stock,
        tokens: figures.tokens / most,
        critical: figures.critical,
    };
    Ok(names.into_iter().zip(figures).map(row).collect())
}
