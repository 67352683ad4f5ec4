//! Who sends what, and when.

use flow::{BANDS, Span};

use super::{Checked, one_line, require, wrong};
use crate::arrivals::{Periods, SharedText};
use crate::scenario::duration::DurationText;
use crate::scenario::{Lengths, Rhythm, Traffic, file};
use crate::trace::SEGMENT_TOKENS;

const RATE_MAX: f64 = 1e5;
/// The range of beginnings, conversations and turns, and of the segments of a beginning.
const SHARED: std::ops::RangeInclusive<u32> = 1..=100_000;
const OUTSTANDING_MAX: u32 = 100_000;
/// A shorter pause would only repeat one refusal.
const PAUSE_MIN: Span = Span::from_millis(10);

pub(super) fn traffic(key: &str, given: &file::Traffic) -> Checked<Traffic> {
    let from = given.from.map_or(Span::ZERO, |length| length.0);
    let until = given.until.map(|length| length.0);
    let ordered = until.is_none_or(|until| from < until);
    require(ordered, format!("{key}.until"), "must be later than `from`")?;
    one_line(format!("{key}.tenant"), &given.tenant)?;
    Ok(Traffic {
        from,
        until,
        trace: given.trace.clone(),
        lengths: lengths(key, given)?,
        shared: shared(key, given)?,
        rhythm: rhythm(key, given)?,
        tenant: given.tenant.clone(),
        bands: bands(key, given)?,
        patience: given.patience.map(|length| length.0),
        ttl: given.ttl.map(|length| length.0),
    })
}

fn lengths(key: &str, given: &file::Traffic) -> Checked<Lengths> {
    let numbers = [given.prompt, given.prompt_cv, given.output, given.output_cv];
    if given.trace.is_some() {
        let none = numbers.iter().all(Option::is_none);
        require(none, format!("{key}.trace"), "gives the lengths; leave out prompt and output")?;
        return Ok(Lengths::default());
    }
    let (Some(prompt), Some(output)) = (given.prompt, given.output) else {
        return wrong(format!("{key}.trace"), "give a trace, or prompt and output in tokens");
    };
    let (prompt_cv, output_cv) = (given.prompt_cv.unwrap_or(0.0), given.output_cv.unwrap_or(0.0));
    let lengths = Lengths { prompt, prompt_cv, output, output_cv };
    check_lengths(key, &lengths)?;
    Ok(lengths)
}

fn check_lengths(key: &str, given: &Lengths) -> Checked<()> {
    let &Lengths { prompt, prompt_cv, output, output_cv } = given;
    let sound = |mean: f64| (1.0..=1e7).contains(&mean);
    require(sound(prompt), format!("{key}.prompt"), "must be 1 to 1e7 tokens")?;
    require(sound(output), format!("{key}.output"), "must be 1 to 1e7 tokens")?;
    let sound = |cv: f64| (0.0..=10.0).contains(&cv);
    require(sound(prompt_cv), format!("{key}.prompt_cv"), "must be 0 to 10")?;
    require(sound(output_cv), format!("{key}.output_cv"), "must be 0 to 10")?;
    let both = (prompt_cv > 0.0) == (output_cv > 0.0);
    let message = "prompt_cv and output_cv must both be more than 0, or both be 0 or left out";
    require(both, format!("{key}.output_cv"), message)
}

fn shared(key: &str, given: &file::Traffic) -> Checked<Option<SharedText>> {
    match (given.beginnings, given.conversations) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            wrong(format!("{key}.beginnings"), "give beginnings or conversations, not both")
        }
        (Some(given), None) => beginnings(&format!("{key}.beginnings"), given).map(Some),
        (None, Some(given)) => conversations(&format!("{key}.conversations"), given).map(Some),
    }
}

fn beginnings(key: &str, given: file::Beginnings) -> Checked<SharedText> {
    let file::Beginnings { count, tokens } = given;
    let segments = tokens / SEGMENT_TOKENS;
    require_shared(count, format!("{key}.count"))?;
    let whole = SHARED.contains(&segments) && tokens.is_multiple_of(SEGMENT_TOKENS);
    let message = format!("must be a multiple of {SEGMENT_TOKENS}, and not 0");
    require(whole, format!("{key}.tokens"), message)?;
    Ok(SharedText::Beginnings { count, segments })
}

fn conversations(key: &str, given: file::Conversations) -> Checked<SharedText> {
    let file::Conversations { count, turns } = given;
    require_shared(count, format!("{key}.count"))?;
    require_shared(turns, format!("{key}.turns"))?;
    Ok(SharedText::Conversations { count, turns })
}

fn require_shared(count: u32, key: String) -> Checked<()> {
    require(SHARED.contains(&count), key, "must be 1 to 100000")
}

fn rhythm(key: &str, given: &file::Traffic) -> Checked<Rhythm> {
    use file::Arrivals::{Closed, Gamma, OnOff, Poisson, Replay};
    let owned = [
        ("rate", given.rate.is_some(), &[Poisson, Gamma, OnOff][..]),
        ("cv", given.cv.is_some(), &[Gamma]),
        ("quiet_rate", given.quiet_rate.is_some(), &[OnOff]),
        ("on", given.on.is_some(), &[OnOff]),
        ("off", given.off.is_some(), &[OnOff]),
        ("periods", given.periods.is_some(), &[OnOff]),
        ("speed", given.speed.is_some(), &[Replay]),
        ("outstanding", given.outstanding.is_some(), &[Closed]),
        ("think", given.think.is_some(), &[Closed]),
        ("pause", given.pause.is_some(), &[Closed]),
    ];
    for (field, is_given, kinds) in owned {
        let fits = !is_given || kinds.contains(&given.arrivals);
        let message = format!("{:?} arrivals have no such figure", given.arrivals);
        require(fits, format!("{key}.{field}"), message.to_lowercase())?;
    }
    let rate = || {
        let rate = given.rate.unwrap_or(f64::NAN);
        let message = "must be more than 0, up to 1e5 requests per second";
        require(rate > 0.0 && rate <= RATE_MAX, format!("{key}.rate"), message)?;
        Ok(rate)
    };
    match given.arrivals {
        Poisson => Ok(Rhythm::Poisson { rate: rate()? }),
        Gamma => {
            let cv = given.cv.unwrap_or(f64::NAN);
            require(cv > 0.0 && cv <= 100.0, format!("{key}.cv"), "must be 0 to 100")?;
            Ok(Rhythm::Gamma { rate: rate()?, cv })
        }
        OnOff => {
            let quiet_rate = given.quiet_rate.unwrap_or(0.0);
            let sound = (0.0..=RATE_MAX).contains(&quiet_rate);
            require(sound, format!("{key}.quiet_rate"), "must be 0 to 1e5")?;
            let period = |field: &str, length: Option<DurationText>| match length {
                Some(DurationText(span)) if span > Span::ZERO => Ok(span),
                _ => wrong(format!("{key}.{field}"), "give a length of more than 0"),
            };
            let (on, off) = (period("on", given.on)?, period("off", given.off)?);
            let periods = match given.periods {
                None | Some(file::Periods::Random) => Periods::Random,
                Some(file::Periods::Fixed) => Periods::Fixed,
            };
            Ok(Rhythm::OnOff { rate: rate()?, quiet_rate, on, off, periods })
        }
        Replay => {
            let speed = given.speed.unwrap_or(1.0);
            require(speed > 0.0 && speed <= 1e3, format!("{key}.speed"), "must be 0 to 1000")?;
            let message = "only a trace can be replayed; name one";
            require(given.trace.is_some(), format!("{key}.trace"), message)?;
            Ok(Rhythm::Replay { speed })
        }
        Closed => closed_loop(key, given),
    }
}

fn closed_loop(key: &str, given: &file::Traffic) -> Checked<Rhythm> {
    let outstanding = given.outstanding.unwrap_or(0);
    let sound = (1..=OUTSTANDING_MAX).contains(&outstanding);
    require(sound, format!("{key}.outstanding"), "give a number of requests, 1 to 100000")?;
    let pause = given.pause.map(|length| length.0);
    let sound = pause.is_none_or(|pause| pause >= PAUSE_MIN);
    require(sound, format!("{key}.pause"), "must be 10ms or more")?;
    // A client without patience would send again and again at the same moment.
    let patience = given.patience.is_none_or(|length| length.0 > Span::ZERO);
    require(patience, format!("{key}.patience"), "must be more than 0 in a closed loop")?;
    let think = given.think.map_or(Span::ZERO, |length| length.0);
    Ok(Rhythm::Closed { outstanding, think, pause })
}

fn bands(key: &str, given: &file::Traffic) -> Checked<[f64; BANDS]> {
    let mut shares = [0.0; BANDS];
    match (given.band, &given.bands) {
        (Some(_), Some(_)) => return wrong(format!("{key}.band"), "give band or bands, not both"),
        (band, None) => shares[band.unwrap_or(file::Band::Normal) as usize] = 1.0,
        (None, Some(given)) => {
            given.iter().for_each(|(&band, &share)| shares[band as usize] = share);
        }
    }
    let sound = shares.iter().all(|share| (0.0..=1.0).contains(share));
    let whole = (shares.iter().sum::<f64>() - 1.0).abs() < 1e-6;
    require(sound && whole, format!("{key}.bands"), "must be shares that add up to 1")?;
    Ok(shares)
}
