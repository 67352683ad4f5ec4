//! Checks a tree against its schema: reports every problem, and leaves only usable values.
//!
//! A value that cannot be used becomes [`Value::Null`], which reads as if the key were absent but
//! still says that it was given. So the reading goes on, and each mistake is reported once.

use super::key::{Key, SectionSchema, Variant};
use super::keyword::{alike, list};
use super::report::Report;
use super::suggest;
use super::tree::{Location, Node, Table, Value, joined};
use super::value_type::{Misfit, ValueType};

/// Checks a table that stands at `place`.
pub(crate) fn validate(
    schema: &'static SectionSchema,
    table: &mut Table,
    location: &Location,
    report: &Report,
) {
    let context = Context { report };
    context.table(schema, table, location);
}

struct Context<'r> {
    report: &'r Report,
}

/// The kind that a table says it is of.
pub(crate) fn chosen(schema: &SectionSchema, table: &Table) -> Option<&'static Variant> {
    match &table.get("kind")?.value {
        Value::Text(name) => {
            let is_meant = |known: &Variant| known.spellings().any(|word| alike(word, name));
            schema.variants.iter().find(|known| is_meant(known))
        }
        _ => None,
    }
}

/// Turns a text into the table that it stands for: the one with this text as its first key.
pub(crate) fn expand_text(schema: &SectionSchema, node: &mut Node) {
    if let (Value::Text(_), Some(first)) = (&node.value, schema.keys.first()) {
        let text = node.clone();
        node.value = Value::Table(Table::from([(first.name.to_owned(), text)]));
    }
}

// === impl Context ===

impl Context<'_> {
    fn table(&self, schema: &'static SectionSchema, table: &mut Table, location: &Location) {
        let variant = chosen(schema, table);
        let own = variant.map_or(&[] as &[Key], |variant| variant.keys);
        for key in schema.keys.iter().chain(own) {
            match table.get_mut(key.name) {
                Some(node) => self.value(schema, key.value_type, node),
                None if key.required => {
                    let path = joined(&location.path, key.name);
                    self.report.problem(&Location { path, ..location.clone() }, "is missing");
                }
                None => {}
            }
        }
        let has = |name: &str| schema.find_in(variant, name).is_some();
        let unknown = table.extract_if(.., |name, _| !has(name));
        for (name, node) in unknown.collect::<Vec<_>>() {
            self.unknown(schema, variant, &name, &node);
        }
    }

    fn unknown(&self, schema: &SectionSchema, variant: Option<&Variant>, name: &str, node: &Node) {
        if schema.find(name).is_some() {
            // Without a kind, that alone is the problem.
            if let Some(kind) = variant.map(|variant| variant.name) {
                let what = format!("means nothing to the kind {kind:?}");
                self.report.problem(&node.location, what);
            }
            return;
        }
        let own = variant.map_or(&[] as &[Key], |variant| variant.keys);
        let known: Vec<&str> = schema.keys.iter().chain(own).map(|key| key.name).collect();
        let hint = match suggest::nearest(name, known.iter().copied()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("known are: {}", known.join(", ")),
        };
        self.report.problem(&node.location, format!("is not a known key; {hint}"));
    }

    /// Checks one value, and empties it if it cannot be used.
    fn value(&self, schema: &SectionSchema, value_type: ValueType, node: &mut Node) {
        match value_type {
            ValueType::Table(inner) => self.section(inner, node),
            ValueType::WordOrTable { word, table: inner, .. } => match &node.value {
                Value::Table(_) => self.section(inner, node),
                Value::Text(text) if alike(text, word) => {}
                _ => self.refuse(node, &value_type.allowed()),
            },
            ValueType::Tables(inner) => self.list(node, &value_type.allowed(), |context, item| {
                context.section(inner, item);
            }),
            ValueType::TextsOrTables { table, .. } => {
                let allowed = value_type.allowed();
                self.list(node, &allowed, |context, item| context.text_or_table(table, item));
            }
            ValueType::Texts(form) => self.texts(ValueType::Text(form), node),
            ValueType::Map(of) => self.map(*of, node),
            ValueType::Variant => self.variant(schema, node),
            scalar => {
                if let Err(misfit) = scalar.check(&node.value) {
                    self.misfit(node, &misfit);
                }
            }
        }
    }

    /// A table, which YAML also writes as nothing at all.
    fn section(&self, schema: &'static SectionSchema, node: &mut Node) {
        match &mut node.value {
            Value::Table(table) => self.table(schema, table, &node.location),
            Value::Null => {
                node.value = Value::Table(Table::new());
                self.section(schema, node);
            }
            _ => self.refuse(node, "a table"),
        }
    }

    fn list(&self, node: &mut Node, allowed: &str, check: impl Fn(&Self, &mut Node)) {
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(|item| check(self, item)),
            _ => self.refuse(node, allowed),
        }
    }

    fn text_or_table(&self, schema: &'static SectionSchema, node: &mut Node) {
        expand_text(schema, node);
        self.section(schema, node);
    }

    fn texts(&self, of: ValueType, node: &mut Node) {
        if !matches!(node.value, Value::List(_)) {
            let alone = Node { value: node.value.clone(), location: node.location.clone() };
            node.value = Value::List(vec![alone]);
        }
        let Value::List(items) = &mut node.value else { return };
        let count = items.len();
        items.retain(|item| self.fits(of, item));
        if items.is_empty() && count > 0 {
            node.value = Value::Null;
        }
    }

    fn map(&self, of: ValueType, node: &mut Node) {
        match &mut node.value {
            Value::Table(table) => {
                let count = table.len();
                table.retain(|_, node| self.fits(of, node));
                if table.is_empty() && count > 0 {
                    node.value = Value::Null;
                }
            }
            Value::Null => node.value = Value::Table(Table::new()),
            _ => self.refuse(node, "a table"),
        }
    }

    fn fits(&self, of: ValueType, node: &Node) -> bool {
        let checked = of.check(&node.value);
        if let Err(misfit) = &checked {
            self.report.problem(&node.location, misfit);
        }
        checked.is_ok()
    }

    fn variant(&self, schema: &SectionSchema, node: &mut Node) {
        let words: Vec<&str> = schema.variants.iter().flat_map(Variant::spellings).collect();
        let text = match &node.value {
            Value::Text(text) => text.as_str(),
            _ => "",
        };
        if words.iter().any(|word| alike(word, text)) {
            return;
        }
        let meant = suggest::nearest(text, words.iter().copied());
        let meant = meant.map_or(String::new(), |word| format!("; did you mean {word:?}?"));
        let Misfit(what) = Misfit::of(&node.value, &list(&words));
        self.misfit(node, &Misfit(what + &meant));
    }

    fn refuse(&self, node: &mut Node, allowed: &str) {
        let misfit = Misfit::of(&node.value, allowed);
        self.misfit(node, &misfit);
    }

    fn misfit(&self, node: &mut Node, misfit: &Misfit) {
        self.report.problem(&node.location, misfit);
        node.value = Value::Null;
    }
}
