//! From validated tables to the typed configuration.
//!
//! Types, ranges and defaults are those of `sections`. The checks here concern several keys at
//! once, or forms that a table cannot state.

mod backends;
pub(crate) mod batch;
pub(super) mod dispatch;
pub(super) mod fleet;
mod flows;
mod gates;
mod lints;
mod models;
mod queue;
mod router;
mod scaler;
pub(super) mod server;
mod tenants;

use std::sync::Arc;

use super::settings::{Config, Profile};
use super::values::Values;
use super::{Source, sections};
use crate::schema::{Location, Report, Section, SectionSchema, Table, validate};

/// Validates and resolves a whole configuration. A key with a problem has its default, and the
/// report has the problem.
pub(super) fn resolve(mut table: Table, source: &Source, report: &Report) -> Config {
    validate(&sections::ROOT, &mut table, &Location::default(), report);
    let values = Values::new(table.clone(), report.file().map(Into::into));
    let root = Section::new(&sections::ROOT, table, Location::default(), report);
    let profile: Profile = root.given("profile").unwrap_or_default();
    let conventions = profile.conventions();
    let mut flow = queue::queue(&root.section("queue"));
    queue::controller(&root.section("controller"), &mut flow.settings);
    if conventions.passes_when_off {
        queue::pass_when_off(&mut flow.settings);
    }
    let mut rules = flows::rules(root.sections("flows"), &mut flow.settings);
    let tenants = tenants::tenants(&root.sections("tenants"), &mut flow.settings, &mut rules);
    let identity = flows::identity(flow.parts, flow.session_parts, rules);
    router::router(&root.section("router"), conventions, &mut flow.settings);
    queue::workload(&root.section("workload"), &mut flow.settings);
    let batch = batch::batch(&root.section("batch"));
    let names = models::names(root.sections("models"), report);
    let mut fleet = fleet::fleet(&root, flow.settings.bounds);
    fleet.configured_models = names.targets().map(String::from).collect();
    let server = server::server(&root.section("server"));
    let config = Config {
        admin: server::admin(&root.section("admin"), &server),
        server,
        epp: server::epp(&root.section("epp")),
        scaler: scaler::scaler(&root.section("scaler")),
        log: server::log(&root.section("log")),
        conventions,
        traces: server::traces(&root.section("traces")),
        dbus: server::dbus(&root.section("dbus")),
        identity: tenants::by_tenant(identity, &root, &tenants),
        auth: tenants::auth(&root.section("auth")),
        tenants,
        usage_file: root.section("usage").path("file"),
        keys: Arc::default(),
        tokens: None,
        cost: flow.cost,
        charge_cached: root.section("queue").get("charge_cached"),
        flow: flow.settings,
        hold: flow.hold,
        cache_per_tenant: root.section("router").get("cache_per_tenant"),
        names,
        objectives: models::objectives(root.sections("objectives")),
        cluster: Arc::default(),
        band_rules: flows::band_rules(root.sections("band_rules")),
        fleet,
        dispatch: dispatch::dispatch(&root.section("dispatch"), source, &batch),
        batch,
        notices: Vec::new(),
        awaits_restart: Vec::new(),
        values,
    };
    server::refuse_tokens_without_cluster(&root, &config);
    tenants::refuse_lone_tokens(&root, &config);
    tenants::notice_accounts(&root, &config);
    lints::notice(&root, &config);
    config
}

/// What a section means that has no value of its own.
pub(super) fn defaults<T>(
    schema: &'static SectionSchema,
    read: impl FnOnce(&Section<'_>) -> T,
) -> T {
    let report = Report::new(None);
    read(&Section::new(schema, Table::new(), Location::default(), &report))
}
