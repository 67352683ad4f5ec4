//! Resolves requested model names: aliases, weighted splits over models, default bands.
//!
//! Targets are final: a name is resolved once. A rule whose target has a rule for another model is
//! refused, because one of the two rules would silently not apply.

use std::collections::BTreeMap;

use crate::ask::Band;
use crate::identity::NAME_MAX;

/// The most targets of one name.
const TARGETS_MAX: usize = 64;
/// The largest weight of one target.
const WEIGHT_MAX: u32 = 1_000_000;

/// The rule for one requested name, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelNameRule {
    /// The name that clients request.
    pub name: String,
    /// The band of asks without a band of their own; if `None`, the band of the target's own rule.
    pub band: Option<Band>,
    /// Models and their integer weights. A name with a band alone has itself as its target.
    pub targets: Vec<(String, u32)>,
}

/// All rules. The default has no rule: every name resolves to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelNames {
    entries: BTreeMap<String, NameEntry>,
}

/// The model that a requested name resolves to, for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedModel<'a> {
    /// The model that serves it.
    pub target: &'a str,
    /// The band of an ask without a band of its own.
    pub band: Option<Band>,
}

/// A rule that is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelNameError {
    /// The configuration key.
    pub key: String,
    /// The problem, and how to fix it.
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NameEntry {
    variants: Vec<Variant>,
    total: u64,
    /// The distance of consecutive draws, modulo the total.
    stride: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    model: String,
    band: Option<Band>,
    /// The sum of the weights up to and including this one.
    up_to: u64,
}

// === impl ModelNames ===

impl ModelNames {
    /// The most rules.
    pub const RULES_MAX: usize = 4096;

    /// Checks the rules. Each error names the configuration key in `models`; there is at most one
    /// about the name and one about the targets of a rule.
    pub fn new(rules: &[ModelNameRule]) -> Result<Self, Vec<ModelNameError>> {
        if rules.len() > Self::RULES_MAX {
            let (count, most) = (rules.len(), Self::RULES_MAX);
            let problem = format!("has {count} entries, at most {most} are allowed");
            return Err(vec![ModelNameError { key: "models".into(), problem }]);
        }
        let mut errors = Vec::new();
        let mut by_name: BTreeMap<&str, &ModelNameRule> = BTreeMap::new();
        for (at, rule) in rules.iter().enumerate() {
            let key = format!("models[{at}].name");
            errors.extend(check_name(&rule.name, &key).err());
            if by_name.insert(&rule.name, rule).is_some() {
                let problem = format!("'{}' has a rule already: merge the two", rule.name);
                errors.push(ModelNameError { key, problem });
            }
        }
        let mut entries = BTreeMap::new();
        for (at, rule) in rules.iter().enumerate() {
            errors.extend(check_targets(rule, &by_name, &format!("models[{at}].targets")).err());
            entries.insert(rule.name.clone(), NameEntry::new(rule, &by_name));
        }
        if errors.is_empty() { Ok(Self { entries }) } else { Err(errors) }
    }

    /// Whether a name has a rule.
    pub fn has_rule(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The names that have a rule, in order.
    pub fn ruled(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Each name that has a rule, with its targets and their weights without a common divisor.
    pub fn rules(&self) -> impl Iterator<Item = (&str, Vec<(ResolvedModel<'_>, u64)>)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.weighted()))
    }

    /// The models that the rules name as targets.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let variants = self.entries.values().flat_map(|entry| &entry.variants);
        variants.map(|variant| variant.model.as_str())
    }

    /// Resolves a requested name. `draw` decides splits: of as many consecutive draws as the
    /// weights add up to, each target gets exactly its weight, well mixed. A hash of the request's
    /// id as the draw gives the same shares on average. A name without a rule resolves to itself,
    /// and an empty or overlong name to `None`.
    pub fn resolve<'a>(&'a self, requested: &'a str, draw: u64) -> Option<ResolvedModel<'a>> {
        if requested.is_empty() || requested.len() > NAME_MAX {
            return None;
        }
        let Some(entry) = self.entries.get(requested) else {
            return Some(ResolvedModel { target: requested, band: None });
        };
        let Variant { model, band, .. } = entry.drawn(draw)?;
        Some(ResolvedModel { target: model, band: *band })
    }
}

fn check_targets(
    rule: &ModelNameRule,
    by_name: &BTreeMap<&str, &ModelNameRule>,
    key: &str,
) -> Result<(), ModelNameError> {
    let wrong = |key: String, problem: String| Err(ModelNameError { key, problem });
    if rule.targets.is_empty() || rule.targets.len() > TARGETS_MAX {
        let count = rule.targets.len();
        return wrong(key.into(), format!("has {count} entries, 1 to {TARGETS_MAX} are allowed"));
    }
    for (at, (model, weight)) in rule.targets.iter().enumerate() {
        let key = format!("{key}[{at}]");
        check_name(model, &format!("{key}.model"))?;
        if rule.targets[..at].iter().any(|(earlier, _)| earlier == model) {
            return wrong(format!("{key}.model"), format!("'{model}' is listed twice"));
        }
        if *weight > WEIGHT_MAX {
            let problem = format!("is {weight}, 0 to {WEIGHT_MAX} are allowed");
            return wrong(format!("{key}.weight"), problem);
        }
        let next = by_name.get(model.as_str()).filter(|next| next.name != rule.name);
        if next.is_some_and(|next| next.leads_elsewhere()) {
            let problem = format!("'{model}' stands for other models itself: list those instead");
            return wrong(format!("{key}.model"), problem);
        }
    }
    if rule.targets.iter().all(|(_, weight)| *weight == 0) {
        return wrong(key.into(), "has no weight above 0: nothing could be chosen".into());
    }
    Ok(())
}

fn check_name(name: &str, key: &str) -> Result<(), ModelNameError> {
    let problem = match name.len() {
        0 => "is empty: give a model's name".to_owned(),
        long if long > NAME_MAX => format!("has {long} bytes, at most {NAME_MAX} are allowed"),
        _ => return Ok(()),
    };
    Err(ModelNameError { key: key.into(), problem })
}

// === impl ModelNameRule ===

impl ModelNameRule {
    fn leads_elsewhere(&self) -> bool {
        self.targets.iter().any(|(model, _)| *model != self.name)
    }
}

// === impl NameEntry ===

impl NameEntry {
    fn new(rule: &ModelNameRule, by_name: &BTreeMap<&str, &ModelNameRule>) -> Self {
        let common = rule.targets.iter().fold(0, |sum, &(_, weight)| gcd(sum, weight.into()));
        let mut total = 0;
        let mut variants = Vec::with_capacity(rule.targets.len());
        for (model, weight) in &rule.targets {
            total += u64::from(*weight) / common.max(1);
            let own = by_name.get(model.as_str()).and_then(|next| next.band);
            variants.push(Variant { model: model.clone(), band: rule.band.or(own), up_to: total });
        }
        Self { variants, total, stride: stride(total) }
    }

    fn weighted(&self) -> Vec<(ResolvedModel<'_>, u64)> {
        let mut before = 0;
        let mut weighted = Vec::with_capacity(self.variants.len());
        for Variant { model, band, up_to } in &self.variants {
            weighted.push((ResolvedModel { target: model, band: *band }, up_to - before));
            before = *up_to;
        }
        weighted
    }

    fn drawn(&self, draw: u64) -> Option<&Variant> {
        // Totals are below 2^26, so the product fits.
        let place = draw.checked_rem(self.total)? * self.stride % self.total;
        let at = self.variants.partition_point(|variant| variant.up_to <= place);
        self.variants.get(at)
    }
}

/// A step that visits every place below `total` once and lies near the golden ratio, which mixes
/// well: a split of fifty to fifty-one nearly alternates, instead of fifty in a row.
fn stride(total: u64) -> u64 {
    let golden = (total as f64 * 0.618_033_988_749_895) as u64;
    (golden.max(1)..).find(|&step| gcd(step, total) == 1).unwrap_or(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

// === impl ModelNameError ===

impl std::fmt::Display for ModelNameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.key, self.problem)
    }
}

impl std::error::Error for ModelNameError {}
