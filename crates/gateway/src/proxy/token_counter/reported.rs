//! The counts of tokens that a backend reported.
//!
//! The names differ between the APIs, and so does what belongs to a prompt.

/// The counts of a report, as far as they were stated. Where one is stated several times, the
/// largest counts: streams report sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reported {
    prompt: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    /// The parts of a prompt that Anthropic's API does not count in `input_tokens`.
    read_from_cache: Option<u64>,
    written_to_cache: Option<u64>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Prompt,
    Output,
    Cached,
    ReadFromCache,
    WrittenToCache,
}

// === impl Reported ===

impl Reported {
    /// The tokens of the whole prompt.
    pub(super) fn prompt(&self) -> Option<u64> {
        let beside = [self.read_from_cache, self.written_to_cache];
        let beside = beside.into_iter().flatten().fold(0, u64::saturating_add);
        self.prompt.map(|prompt| prompt.saturating_add(beside))
    }

    pub(super) fn output(&self) -> Option<u64> {
        self.output
    }

    pub(super) fn cached(&self) -> Option<u64> {
        self.cached.max(self.read_from_cache)
    }

    /// Notes a count, of which a stream may report several.
    pub(super) fn note(&mut self, count: Count, number: u64) {
        let noted = match count {
            Count::Prompt => &mut self.prompt,
            Count::Output => &mut self.output,
            Count::Cached => &mut self.cached,
            Count::ReadFromCache => &mut self.read_from_cache,
            Count::WrittenToCache => &mut self.written_to_cache,
        };
        *noted = (*noted).max(Some(number));
    }
}
