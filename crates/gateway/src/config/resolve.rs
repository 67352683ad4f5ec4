//! From what a file says to what is in force: every value is checked here, once.

mod backends;
pub(crate) mod batch;
mod fleet;
mod flows;
mod gates;
mod models;
mod queue;
mod router;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use super::Source;
use super::report::Report;
use super::resolved::Resolved;
use super::section::Section;
use super::tree::{Place, Table};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Settles everything. What has a problem has its default, and the report says so.
pub(super) fn resolve(mut table: Table, source: &Source, report: &Report) -> Resolved {
    refuse_tenants(&mut table, report);
    let mut root = Section::new(Place::default(), table, report);
    let mut flow = queue::resolve(root.section("queue"));
    queue::controller(root.section("controller"), &mut flow.settings);
    let rules = flows::resolve(root.sections("flows"), &mut flow.settings);
    router::resolve(root.section("router"), &mut flow.settings);
    queue::workload(root.section("workload"), &mut flow.settings);
    let batch = batch::batch(root.section("batch"), source);
    let resolved = Resolved {
        server: server::resolve(root.section("server"), source),
        admin: server::admin(root.section("admin")),
        epp: server::epp(root.section("epp"), source),
        log: server::log(root.section("log")),
        dbus: server::dbus(root.section("dbus")),
        identity: flows::identity(flow.parts, rules),
        cost: flow.cost,
        flow: flow.settings,
        names: models::resolve(root.sections("models"), report),
        objectives: models::objectives(root.sections("objectives")),
        fleet: fleet::resolve(&mut root, source),
        dispatch: batch::dispatch(root.section("dispatch"), source, &batch),
        batch,
        notices: Vec::new(),
    };
    root.finish();
    resolved
}

/// A path in a file is meant from where that file is.
fn beside(source: &Source, path: String) -> PathBuf {
    match source.file.as_ref().and_then(|file| file.parent()) {
        Some(folder) => folder.join(path),
        None => path.into(),
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// What is asked for here must not be taken silently: it is about who may do what.
fn refuse_tenants(table: &mut Table, report: &Report) {
    if let Some(node) = table.remove("tenants") {
        let what = "is not available yet: there are no API keys and no tenants, remove it";
        report.problem(&node.place, what.into());
    }
}
