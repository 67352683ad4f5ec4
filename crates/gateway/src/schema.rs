//! Tables of keys: the name, type, range, default, aliases and description of each key, stated
//! once.
//!
//! A [`SectionSchema`] lists the keys of one table of a configuration file. Everything else is
//! derived from it: [`validate()`] checks a file against it, [`Section`] reads typed values through
//! it, and the documents and the JSON Schema of `config` are printed from it. This module knows no
//! particular key.

mod key;
mod keyword;
mod literal;
mod quantity;
mod report;
mod section;
mod suggest;
mod tree;
mod validate;
mod value_type;

pub(crate) use key::{Key, Reload, SectionSchema, Variant, key};
#[cfg(test)]
pub(crate) use keyword::Word;
pub(crate) use keyword::{Keyword, Keywords, find, list, spelling, texts, words};
pub(crate) use literal::toml_table;
pub(crate) use quantity::{show_duration, show_size};
pub(crate) use report::Report;
pub use report::{ConfigError, Finding};
pub(crate) use section::Section;
pub use suggest::nearest;
pub(crate) use tree::{Location, Node, Origin, Table, Value, joined};
pub(crate) use validate::{chosen, expand_text, validate};
pub(crate) use value_type::{ANY_TEXT, Form, Misfit, NOT_EMPTY, Range, ValueType};

#[cfg(test)]
mod tests;
