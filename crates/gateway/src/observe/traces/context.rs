//! The trace context of W3C: `traceparent`, by which a client, the gateway and a backend agree on
//! one trace.

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The length of version 00: `00-<32 digits>-<16 digits>-<2 digits>`.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;
/// The most bytes of `tracestate` that spans have.
const STATE_MAX: usize = 512;

pub(in crate::observe) type TraceId = [u8; 16];
pub(super) type SpanId = [u8; 8];

/// The context that a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceContext {
    pub(super) trace: TraceId,
    pub(super) parent: SpanId,
    pub(super) sampled: bool,
}

/// The context in the headers of a request. One that is not valid, or that stands there twice,
/// counts as none, as the standard asks.
pub(super) fn read(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    parse(value.as_bytes())
}

/// The `tracestate` of a request, for its spans.
pub(super) fn state(headers: &HeaderMap) -> String {
    let lines = headers.get_all(TRACESTATE).iter().filter_map(|line| line.to_str().ok());
    let state = lines.collect::<Vec<_>>().join(",");
    // Backends get it whole. The standard asks for 512 characters; a longer one is not kept.
    if state.len() <= STATE_MAX { state } else { String::new() }
}

/// A number that looks random, and differs for each input (SplitMix64).
pub(super) const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// An id of random digits; never zero, which no id may be.
pub(super) fn span_id(number: u64) -> SpanId {
    mixed(number).max(1).to_be_bytes()
}

/// The id of a span below this one.
pub(super) fn derived(root: SpanId, part: u64) -> SpanId {
    span_id(u64::from_be_bytes(root).wrapping_add(part))
}

/// The `traceparent` of a sampled span.
pub(super) fn header(trace: TraceId, span: SpanId) -> HeaderValue {
    let mut text = [b'-'; LENGTH];
    text[..2].copy_from_slice(b"00");
    write_hex(&mut text[3..35], &trace);
    write_hex(&mut text[36..52], &span);
    text[53..].copy_from_slice(b"01");
    // It consists of digits and hyphens, so it is a valid value.
    HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn parse(text: &[u8]) -> Option<TraceContext> {
    let later = |version: u8| version != 0 && version != 0xff;
    let [version] = hex(text.get(..2)?)?;
    let fits = match version {
        0 => text.len() == LENGTH,
        // A later version may have more fields.
        version => later(version) && (text.len() == LENGTH || text.get(LENGTH) == Some(&b'-')),
    };
    let separated = [2, 35, 52].into_iter().all(|at| text.get(at) == Some(&b'-'));
    if !fits || !separated {
        return None;
    }
    let trace: TraceId = hex(text.get(3..35)?)?;
    let parent: SpanId = hex(text.get(36..52)?)?;
    let [flags] = hex(text.get(53..55)?)?;
    let valid = trace != TraceId::default() && parent != SpanId::default();
    valid.then_some(TraceContext { trace, parent, sampled: flags & SAMPLED != 0 })
}

/// Lower-case hexadecimal digits as bytes.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

fn write_hex(out: &mut [u8], bytes: &[u8]) {
    let (fours, _) = bytes.as_chunks::<4>();
    let (eights, _) = out.as_chunks_mut::<8>();
    for (digits, four) in eights.iter_mut().zip(fours) {
        *digits = eight_digits(u32::from_be_bytes(*four));
    }
}

/// The digits of a number. All are computed at once: each has a byte of one register.
fn eight_digits(number: u32) -> [u8; 8] {
    let spread = u64::from(number);
    let spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let values = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (values + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let to_letter = u64::from(b'a' - b'0' - 10);
    (values + 0x3030_3030_3030_3030 + letters * to_letter).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn m02_a_valid_context_is_read_and_written() {
        let context = parse(GOOD.as_bytes()).unwrap();
        assert!(context.sampled);
        assert_eq!(header(context.trace, context.parent), GOOD);
        let unsampled = GOOD.replace("-01", "-00");
        assert!(!parse(unsampled.as_bytes()).unwrap().sampled);
        let later = format!("{}-more", GOOD.replacen("00", "cc", 1));
        assert_eq!(parse(later.as_bytes()), Some(context));
    }

    #[test]
    fn m02_an_invalid_context_counts_as_none() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        let upper = GOOD.to_uppercase();
        let long = format!("{GOOD}-more");
        let wrong_version = GOOD.replacen("00", "ff", 1);
        let wrong_later = format!("{}x", GOOD.replacen("00", "01", 1));
        let texts = ["", "00", &GOOD[..54], &zero_trace, &zero_span, &upper, &long, &wrong_version];
        for text in texts.into_iter().chain([wrong_later.as_str()]) {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        for cut in 0..GOOD.len() {
            assert_eq!(parse(&GOOD.as_bytes()[..cut]), None);
        }
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert!(read(&headers).is_some());
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(read(&headers), None, "two");
    }

    #[test]
    fn m02_fuzz_trace_contexts() {
        let later = format!("{}-more", GOOD.replacen("00", "cc", 1));
        let seeds = [GOOD.as_bytes(), later.as_bytes()];
        crate::fuzz::fuzz("trace-contexts", &seeds, &[b"-", b"ff", b"01-"], |input, _| {
            let Some(context) = parse(input) else { return "none" };
            // The digits are those of the client.
            let written = header(context.trace, context.parent);
            assert_eq!(written.as_bytes()[3..52], input[3..52]);
            if context.sampled { "sampled" } else { "not sampled" }
        });
    }
}
