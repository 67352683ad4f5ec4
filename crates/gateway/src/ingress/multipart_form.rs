//! The model field of a multipart form, as in uploads of audio and images.
//!
//! Only the first part of the body is searched: clients send small fields first, and a body may be
//! large.

use std::borrow::Cow;

use memchr::memmem;

use super::json_body::{ModelName, NameEncoding};
use crate::reply::Fault;

const SEARCHED: usize = 64 << 10;
/// The longest boundary that RFC 2046 allows.
const BOUNDARY_MAX: usize = 70;

/// The value of the field `model`, if it ends within the searched part. `content_type` is the
/// header of the body.
pub(super) fn model<'a>(
    content_type: &str,
    body: &'a [u8],
) -> Result<Option<ModelName<'a>>, Fault> {
    let Some(boundary) = boundary(content_type) else { return Ok(None) };
    let searched = &body[..body.len().min(SEARCHED)];
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let mut marks = memmem::find_iter(searched, &delimiter).peekable();
    let mut found = None;
    while let Some(mark) = marks.next() {
        let Some(&end) = marks.peek() else { break };
        let Some(named) = field(searched, mark + delimiter.len(), end) else { continue };
        if found.replace(named).is_some() {
            return Err(Fault::InvalidModel("The form names 'model' twice: name it once.".into()));
        }
    }
    Ok(found)
}

/// The part between two delimiters, if it is the field `model`.
fn field(body: &[u8], start: usize, end: usize) -> Option<ModelName<'_>> {
    let part = body.get(start..end)?.strip_suffix(b"\r\n")?;
    let blank = memmem::find(part, b"\r\n\r\n")?;
    // The space excludes `filename`.
    memmem::find(&part[..blank], b" name=\"model\"")?;
    let value = blank + 4;
    let name = std::str::from_utf8(&part[value..]).ok()?;
    let place = start + value..start + part.len();
    Some(ModelName { name: Cow::Borrowed(name), place, form: NameEncoding::Plain })
}

/// The boundary in this content type.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).map(str::trim_ascii);
    let given = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then_some(value)
    })?;
    let given = given.trim_matches('"');
    (1..=BOUNDARY_MAX).contains(&given.len()).then_some(given)
}
