//! The model field and the size of a multipart form, as in uploads of audio and images.
//!
//! The model decides what a tenant may do. So a form that another parser could read in another way
//! is refused: one that names the model twice or in another spelling, is malformed, has text around
//! its parts (which a server may read as JSON), or has its boundary in any other place than before
//! a part and at the end.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::body_key::is_like_model;
use super::json_body::{ModelName, NameEncoding};
use super::prompt_size::PromptSize;
use crate::multipart::{self, FormEvent, MalformedForm, Multipart, Part};
use crate::reply::Fault;

/// The form is parsed in pieces of this size, because the parser copies them.
const PIECE: usize = 64 << 10;

/// What a form says: the value of its field `model`, and its size.
#[derive(Debug)]
pub(super) struct Form<'a> {
    pub(super) model: Option<ModelName<'a>>,
    pub(super) size: PromptSize,
}

/// Reads a form of this content type.
pub(super) fn read<'a>(content_type: &str, body: &'a [u8]) -> Result<Form<'a>, Fault> {
    let no_boundary = MalformedForm("its content type has not exactly one boundary");
    let boundary = multipart::boundary(content_type).ok_or_else(|| malformed(no_boundary))?;
    if !multipart::is_plain_charset(content_type) {
        return Err(malformed(MalformedForm("it is not UTF-8")));
    }
    let (place, size) = measured(boundary, body)?;
    let Some(place) = place else { return Ok(Form { model: None, size }) };
    let name = body.get(place.clone()).and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| malformed(MalformedForm("the field 'model' is not UTF-8")))?;
    let name = ModelName { name: Cow::Borrowed(name), place, form: NameEncoding::Plain };
    Ok(Form { model: Some(name), size })
}

/// Where the form has the value of its field `model`, and its size: each file is one piece.
fn measured(boundary: &str, body: &[u8]) -> Result<(Option<Range<usize>>, PromptSize), Fault> {
    let mut form = Multipart::new(boundary);
    let mut pieces = body.chunks(PIECE);
    // The place of the model, while its part is read, and after that.
    let (mut open, mut found) = (None, None);
    let (mut size, mut is_file) = (PromptSize::default(), false);
    loop {
        let Some(event) = form.next().map_err(malformed)? else {
            form.push(pieces.next().ok_or_else(|| malformed(MalformedForm("it has no end")))?);
            continue;
        };
        match event {
            FormEvent::Part(part) => {
                open = is_model(&part)?.then(|| form.offset());
                is_file = part.filename.is_some();
                size += if is_file { PromptSize::MEDIUM } else { PromptSize::default() };
            }
            FormEvent::Data(_) if is_file => {}
            FormEvent::Data(text) => size += PromptSize::of_bytes(text.len()),
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
    check_frame(boundary, form.parts(), body)?;
    Ok((found, size))
}

/// Whether a part is the field `model`. A name that another server may read as `model` is refused.
fn is_model(part: &Part) -> Result<bool, Fault> {
    if !part.plain {
        return Err(malformed(MalformedForm(
            "the name of a part or of a file has unusual letters",
        )));
    }
    if part.name != "model" && is_like_model(&part.name) {
        let text = "The form has 'model' in another spelling: write it as 'model', once.";
        return Err(Fault::InvalidModel(text.into()));
    }
    let is_model = part.name == "model";
    if is_model && (part.filename.is_some() || part.encoded) {
        return Err(malformed(MalformedForm("the field 'model' is not plain text")));
    }
    Ok(is_model)
}

/// Checks that the boundary stands where a part begins and at the end alone, and that there is no
/// text before the first and behind the last.
fn check_frame(boundary: &str, parts: usize, body: &[u8]) -> Result<(), Fault> {
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let (mut count, mut last) = (0, 0);
    for at in memmem::find_iter(body, &delimiter) {
        (count, last) = (count + 1, at);
    }
    if count != parts + 1 {
        return Err(malformed(MalformedForm("its boundary is also in its content")));
    }
    let behind = body.get(last + delimiter.len()..).unwrap_or_default();
    let behind = behind.strip_prefix(b"--").unwrap_or(behind);
    let before = body.trim_ascii_start();
    if !before.starts_with(&delimiter) || !behind.trim_ascii().is_empty() {
        return Err(malformed(MalformedForm("it has text before or behind its parts")));
    }
    Ok(())
}

fn malformed(why: MalformedForm) -> Fault {
    Fault::InvalidRequest(why.to_string())
}
