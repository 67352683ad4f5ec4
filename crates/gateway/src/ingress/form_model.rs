//! The model field of a multipart form, as in uploads of audio and images.
//!
//! The model decides what a tenant may do. So a form that another parser could read in another way
//! is refused: one that names the model twice, is malformed, or has its boundary in any other place
//! than before a part and at the end.

use std::borrow::Cow;

use memchr::memmem;

use super::json_body::{ModelName, NameEncoding};
use crate::multipart::{FormEvent, MalformedForm, Multipart};
use crate::reply::Fault;

/// The form is parsed in pieces of this size, because the parser copies them.
const PIECE: usize = 64 << 10;

/// The value of the field `model`. `boundary` is that of the form.
pub(super) fn model<'a>(boundary: &str, body: &'a [u8]) -> Result<Option<ModelName<'a>>, Fault> {
    let mut form = Multipart::new(boundary);
    let mut pieces = body.chunks(PIECE);
    // The place of the model, while its part is read, and after that.
    let (mut open, mut found) = (None, None);
    loop {
        let Some(event) = form.next().map_err(malformed)? else {
            form.push(pieces.next().ok_or_else(|| malformed(MalformedForm("it has no end")))?);
            continue;
        };
        match event {
            FormEvent::Part(part) => {
                open = (part.name == "model").then(|| form.offset());
            }
            FormEvent::Data(_) => {}
            FormEvent::End => {
                let Some(start) = open.take() else { continue };
                let end = form.offset() - form.boundary_length();
                if found.replace(start..end).is_some() {
                    let text = "The form names 'model' twice: name it once.";
                    return Err(Fault::InvalidModel(text.into()));
                }
            }
            FormEvent::Over => break,
        }
    }
    let delimiter = [b"--", boundary.as_bytes()].concat();
    if memmem::find_iter(body, &delimiter).count() != form.parts() + 1 {
        return Err(malformed(MalformedForm("its boundary is also in its content")));
    }
    let Some(place) = found else { return Ok(None) };
    let name = body.get(place.clone()).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| malformed(MalformedForm("the field 'model' is not UTF-8")))?;
    Ok(Some(ModelName { name: Cow::Borrowed(name), place, form: NameEncoding::Plain }))
}

fn malformed(why: MalformedForm) -> Fault {
    Fault::InvalidRequest(why.to_string())
}
