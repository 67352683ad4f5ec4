//! Suggestions for a misspelt word.

/// The known word that is nearest to `written`, if it is near enough to be meant.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No key is that long, and the work grows with the product of both lengths.
    if written.len() > 64 {
        return None;
    }
    let written = written.to_lowercase().replace('-', "_");
    let distances = known.into_iter().map(|word| {
        let plain = word.to_lowercase().replace('-', "_");
        (distance(&written, &plain), word)
    });
    let (distance, word) = distances.min_by_key(|&(distance, _)| distance)?;
    // One mistake in three letters is a misspelling, more is another word.
    let allowed = (word.chars().count() / 3).max(1);
    (distance <= allowed).then_some(word)
}

/// The least number of letters to insert, remove, replace or swap with a neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut next = vec![row];
        for column in 1..=right.len() {
            let same = left[row - 1] == right[column - 1];
            let replaced = last[column - 1] + usize::from(!same);
            let mut least = replaced.min(last[column] + 1).min(next[column - 1] + 1);
            if is_swap(&left[..row], &right[..column]) {
                least = least.min(before[column - 2] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[right.len()]
}

/// Whether the last two letters of both are the same in another order.
fn is_swap(left: &[char], right: &[char]) -> bool {
    match (left, right) {
        ([.., a, b], [.., c, d]) => a == d && b == c,
        _ => false,
    }
}
