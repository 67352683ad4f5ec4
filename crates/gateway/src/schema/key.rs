//! One key of a configuration, and the tables that keys stand in.

use super::value_type::ValueType;

/// One key. [`key`] makes one; the methods add what it has beyond name, type and description.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) value_type: ValueType,
    /// One sentence (or two) for the reader of the documents.
    pub(crate) doc: &'static str,
    /// The value without a setting, written as in `--set`.
    pub(crate) default: Option<&'static str>,
    /// For the documents: what holds without a setting, where that is not a value.
    pub(crate) unset: &'static str,
    /// Other spellings. One with a dot is a path from the root of the file.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) reload: Reload,
    /// Whether the key must be given.
    pub(crate) required: bool,
}

/// Whether a reload puts a changed value in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// At once.
    Live,
    /// Only a restart does.
    Restart,
}

/// The keys of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionSchema {
    /// The path from the root of the file; empty for the root.
    pub(crate) path: &'static str,
    /// What the table is for, in the documents. May be empty.
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [Key],
    /// The kinds that the key `kind` chooses between, each with keys of its own.
    pub(crate) variants: &'static [Variant],
    /// Whether keys may also be written in camel case.
    pub(crate) camel_case: bool,
    /// Keys that are accepted without an effect, and why they have none.
    pub(crate) ignored: &'static [(&'static str, &'static str)],
}

/// One kind of table among several, chosen by the key `kind`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) doc: &'static str,
    /// The keys that only this kind has.
    pub(crate) keys: &'static [Key],
}

/// A key without a default that need not be given.
pub(crate) const fn key(name: &'static str, value_type: ValueType, doc: &'static str) -> Key {
    Key {
        name,
        value_type,
        doc,
        default: None,
        unset: "",
        aliases: &[],
        reload: Reload::Live,
        required: false,
    }
}

// === impl Key ===

impl Key {
    pub(crate) const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub(crate) const fn unset(mut self, unset: &'static str) -> Self {
        self.unset = unset;
        self
    }

    pub(crate) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(crate) const fn restart(mut self) -> Self {
        self.reload = Reload::Restart;
        self
    }

    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

// === impl SectionSchema ===

impl SectionSchema {
    pub(crate) const fn new(path: &'static str, keys: &'static [Key]) -> Self {
        let (doc, variants, camel_case) = ("", &[] as &[Variant], false);
        Self { path, doc, keys, variants, camel_case, ignored: &[] }
    }

    pub(crate) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    pub(crate) const fn variants(mut self, variants: &'static [Variant]) -> Self {
        self.variants = variants;
        self
    }

    pub(crate) const fn camel_case(mut self) -> Self {
        self.camel_case = true;
        self
    }

    pub(crate) const fn ignored(mut self, keys: &'static [(&'static str, &'static str)]) -> Self {
        self.ignored = keys;
        self
    }

    /// The key of this name, of any kind.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Key> {
        let own = self.keys.iter().find(|key| key.name == name);
        own.or_else(|| self.variant_keys().find(|key| key.name == name))
    }

    /// The key that a table of this kind has under this name.
    pub(crate) fn find_in(&self, variant: Option<&Variant>, name: &str) -> Option<&'static Key> {
        let own = self.keys.iter().find(|key| key.name == name);
        own.or_else(|| variant?.keys.iter().find(|key| key.name == name))
    }

    pub(crate) fn variant_keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.variants.iter().flat_map(|variant| variant.keys)
    }
}

// === impl Variant ===

impl Variant {
    /// Its name and its aliases.
    pub(crate) fn spellings(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}
