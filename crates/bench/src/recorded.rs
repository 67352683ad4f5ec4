//! How true the simulated engine is: a recorded run of a real one, replayed.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use sim::engine::Profile;
use sim::engine::recording::{compare as errors_of, parse, replay};
use testbed::simulate;

/// Prints the simulated engine's errors against a recorded run.
pub(crate) fn compare(profile: &str, recording: &Path, out: &mut dyn Write) -> Result<()> {
    let unknown =
        || anyhow!("'{profile}' is not a profile; known are {}", Profile::NAMES.join(", "));
    let profile = Profile::named(profile).ok_or_else(unknown)?;
    let within = || recording.display().to_string();
    let rows =
        parse(&simulate::read_text(recording, simulate::TRACE_BYTES_MAX)?).with_context(within)?;
    ensure!(!rows.is_empty(), "{}: no request is in it", recording.display());
    let refused = |error| anyhow!("{}: the engine refuses a request: {error}", recording.display());
    let errors = errors_of(&rows, &replay(&profile, &rows).map_err(refused)?);
    writeln!(out, "{} requests of {} on {}\n", rows.len(), recording.display(), profile.name())?;
    write!(out, "{errors}")?;
    writeln!(
        out,
        "\nThe largest error is {:.1} %. The profiles rtx4090-8b and pro6000-8b have one or two \
         constants fitted on\nthe recorded runs that the project knows: on those this is a check \
         of the fit, not a prediction.",
        errors.worst() * 100.0
    )?;
    Ok(())
}
