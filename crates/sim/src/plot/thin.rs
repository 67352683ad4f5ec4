//! A long series thinned to what its width in pixels can show.
//!
//! Every column keeps its first, lowest, highest and last point: a peak of one sample in a million
//! stays in the picture, and lines enter and leave columns where they did.

/// A place in the picture.
pub(super) type Point = (f64, f64);

/// Points that are joined.
pub(super) type Run = Vec<Point>;

/// The series as joined runs. A point without height is a gap between runs; where the series is
/// long, only a column of nothing but gaps is one. At most `4 * columns` points are kept.
pub(super) fn thin(mut points: Vec<(f64, Option<f64>)>, columns: usize) -> Vec<Run> {
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let cells = if points.len() <= 4 * columns {
        points.iter().map(|(x, y)| y.map(|y| vec![(*x, y)])).collect()
    } else {
        columned(&points, columns)
    };
    let parts = cells.split(Option::is_none);
    let runs = parts.map(|cells| cells.iter().flatten().flatten().copied().collect());
    runs.filter(|run: &Run| !run.is_empty()).collect()
}

/// The remaining points of each column that has points, `None` where all of them are gaps.
fn columned(points: &[(f64, Option<f64>)], columns: usize) -> Vec<Option<Run>> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let width = (last.0 - first.0) / columns as f64;
    let column = |x: f64| (((x - first.0) / width) as usize).min(columns - 1);
    let same =
        |one: &(f64, Option<f64>), other: &(f64, Option<f64>)| column(one.0) == column(other.0);
    points.chunk_by(same).map(kept).collect()
}

fn kept(column: &[(f64, Option<f64>)]) -> Option<Run> {
    let shown: Run = column.iter().filter_map(|(x, y)| y.map(|y| (*x, y))).collect();
    let heights = || shown.iter().map(|(_, y)| *y);
    let (low, high) = (heights().reduce(f64::min)?, heights().reduce(f64::max)?);
    let mut lowest = heights().position(|y| y == low)?;
    let mut highest = heights().position(|y| y == high)?;
    // Of equal points those next to the change are kept, or a step would become a slope.
    if lowest < highest {
        lowest = shown[..highest].iter().rposition(|(_, y)| *y == low)?;
    } else if highest < lowest {
        highest = shown[..lowest].iter().rposition(|(_, y)| *y == high)?;
    }
    let mut indices = vec![0, lowest, highest, shown.len() - 1];
    indices.sort_unstable();
    indices.dedup();
    Some(indices.into_iter().map(|index| shown[index]).collect())
}
