//! A summary of a configuration, in a few lines.

mod tenants;

use std::fmt;

use flow::identity::{Attribute, ClassRule};
use flow::{Band, Bounds, Cascade, FlowClass, Order, ResolvedModel, Span};

use super::BATCH_QUEUE;
use super::settings::dispatch::{Capacity, GateSettings, Queue};
use super::settings::{BackendSpec, Config, Epp, Hold, SessionPart};
use super::values::without_secrets;
use crate::clock;
use crate::schema::{show_duration, show_size, spelling};

/// Displays the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a>(pub &'a Config);

// === impl Summary ===

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.profile(f)?;
        self.server(f)?;
        self.epp(f)?;
        self.queue(f)?;
        writeln!(f, "bounds    {}", self.bounds())?;
        if let Some(reserve) = self.reserve() {
            writeln!(f, "reserve   {reserve}")?;
        }
        writeln!(f, "bands     {}", self.bands())?;
        self.flows(f)?;
        self.tenants(f)?;
        self.models(f)?;
        self.objectives(f)?;
        self.backends(f)?;
        if let Some(bus) = self.0.dbus {
            writeln!(f, "dbus      on the {bus} bus")?;
        }
        self.batch(f)?;
        self.dispatch(f)
    }
}

impl Summary<'_> {
    /// The design whose rules hold, if any, why, and what it writes otherwise. Its values are among
    /// the others.
    fn profile(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(profile) = self.0.values.profile() else { return Ok(()) };
        writeln!(f, "profile   {profile}")?;
        self.0.conventions.told().try_for_each(|line| writeln!(f, "          {line}"))
    }

    fn server(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.0.server;
        write!(f, "listen    {}", server.listen)?;
        if let Some(admin) = self.0.admin.listen {
            write!(f, ", status pages at {admin}")?;
        }
        let body = show_size(server.body_limit as u64);
        writeln!(f, ", bodies up to {body}, {} of grace", show_duration(server.grace))
    }

    /// The settings of the endpoint picker, if any is not a default.
    fn epp(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let epp = &self.0.epp;
        if *epp == Epp::default() {
            return Ok(());
        }
        write!(f, "epp       {}, health at {}", epp.listen, epp.health_listen)?;
        write!(f, ", status pages at {}", epp.metrics_listen)?;
        writeln!(f, ", {} fallbacks, {} to drain", epp.fallbacks, show_duration(epp.drain))
    }

    fn queue(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.0.flow;
        if !settings.enabled {
            let rest = match self.0.conventions.passes_when_off {
                true => "requests pass to ready backends at once",
                false => "a request that would have to wait is refused",
            };
            return writeln!(f, "queue     off: {rest}");
        }
        let FlowClass { capacity, ttl, .. } = settings.default_class;
        let cost = spelling(self.0.cost);
        write!(f, "queue     {} in all, {capacity} a flow", settings.total_capacity)?;
        write!(f, ", {} each, cost in {cost}", show_span(ttl))?;
        if !matches!(settings.order, Order::Fifo | Order::Session) {
            write!(f, ", order {}", spelling(settings.order))?;
        }
        let admission = spelling(settings.admission);
        writeln!(f, ", admission {admission}")?;
        let Hold { ttl, capacity } = self.0.hold;
        match capacity < settings.total_capacity as usize {
            true => write!(f, "          {capacity} in all")?,
            false => write!(f, "          any of them")?,
        }
        write!(f, " for configured models without a backend")?;
        writeln!(f, ", {} each", show_span(ttl))?;
        self.slo_ttft().map_or(Ok(()), |text| writeln!(f, "          {text}"))
    }

    /// The objectives of the bands; `None` if there are none.
    fn slo_ttft(&self) -> Option<String> {
        let objectives = &self.0.flow.objectives;
        let set = |band: &Band| objectives[*band as usize] != Span::FOREVER;
        let show =
            |band: Band| format!("{} {}", spelling(band), show_span(objectives[band as usize]));
        let bands: Vec<String> = Band::DESCENDING.into_iter().filter(set).map(show).collect();
        (!bands.is_empty()).then(|| format!("objective to the first token: {}", bands.join(", ")))
    }

    fn bounds(&self) -> String {
        let settings = &self.0.flow;
        match settings.bounds {
            Bounds::Fixed(_) if !settings.enabled && self.0.conventions.passes_when_off => {
                "none: the queue is off".into()
            }
            Bounds::Auto => match settings.pace_max {
                Some(pace) => format!("auto, at most {} from token to token", show_span(pace)),
                None => "auto".into(),
            },
            Bounds::Fixed(hysteresis) => {
                let unit = spelling(settings.stock);
                // The core keeps bounds in binary and rounds them down.
                let rounded = |bound: f64| (bound * 1e4).round() / 1e4;
                let [lower, watermark, upper] = hysteresis.scaled(1).map(rounded);
                let leave = format!("leave the queue below {lower}");
                format!("watermark {watermark} {unit} a backend: bypass below {upper}, {leave}")
            }
        }
    }

    /// The places kept free; `None` if there are none.
    fn reserve(&self) -> Option<String> {
        let reserve = &self.0.flow.reserve;
        if reserve.is_off() {
            return None;
        }
        let percent = (reserve.share_max() * 1e4).round() / 1e2;
        let least = reserve.least(Band::Critical);
        let places = (1.0 / reserve.share_max()).ceil();
        let whom =
            if reserve.is_for_flows() { "higher bands and quiet flows" } else { "higher bands" };
        Some(format!(
            "up to {percent} % of the places for {whom}, at least {least} for critical requests; \
             none of fewer than {places} places"
        ))
    }

    fn bands(&self) -> String {
        let Cascade::Weighted(weights) = &self.0.flow.cascade else { return "strict".into() };
        let share = |band: Band| {
            let weight = (weights[band as usize].value() * 100.0).round() / 100.0;
            format!("{} {weight}", spelling(band))
        };
        Band::DESCENDING.map(share).join(", ")
    }

    fn flows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = &self.0.identity;
        let parts: Vec<String> = identity.parts.iter().map(show_part).collect();
        write!(f, "flows     by {}", parts.join(" and "))?;
        let sessions: Vec<String> = identity.session_parts.iter().map(show_session_part).collect();
        if !sessions.is_empty() {
            write!(f, ", their sessions by {}", sessions.join(" and "))?;
        }
        writeln!(f)?;
        for rule in &identity.rules {
            let class = self.0.flow.classes.get((rule.class as usize).wrapping_sub(1));
            writeln!(f, "          {}", show_rule(rule, class))?;
        }
        Ok(())
    }

    fn models(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut title = "models";
        for (name, targets) in self.0.names.rules() {
            writeln!(f, "{title:<9} {name}: {}", show_targets(name, &targets))?;
            title = "";
        }
        Ok(())
    }

    fn objectives(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut title = "objective";
        for (name, band) in &self.0.objectives {
            writeln!(f, "{title:<9} {name}: {}", spelling(*band))?;
            title = "";
        }
        Ok(())
    }

    fn backends(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fleet = &self.0.fleet;
        let listed = fleet.backends.iter().map(show_backend);
        let file = fleet.endpoints_file.iter();
        let file = file.map(|path| format!("the servers in {}", path.display()));
        let targets = fleet.kubernetes.iter().flat_map(|cluster| &cluster.targets);
        let targets = targets.map(ToString::to_string);
        let found = fleet.discover.then(|| "servers found on the well-known local ports".into());
        let mut title = "backends";
        for line in listed.chain(file).chain(targets).chain(found) {
            writeln!(f, "{title:<9} {line}")?;
            title = "";
        }
        Ok(())
    }

    fn batch(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batch = &self.0.batch;
        let Some(folder) = &batch.folder else { return Ok(()) };
        let [file, files] = [batch.file_limit, batch.files_limit].map(show_size);
        write!(f, "batch     in {}: files up to {file}, {files} together", folder.display())?;
        let (lines, keep) = (batch.lines_max, show_duration(batch.keep));
        writeln!(f, ", batches up to {lines} requests, kept {keep}")
    }

    fn dispatch(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dispatch = &self.0.dispatch;
        if dispatch.queues.is_empty() && !dispatch.has_shared_store() {
            return Ok(());
        }
        let workers = dispatch.workers;
        write!(f, "dispatch  up to {workers} requests at once")?;
        write!(f, ", {} each", show_duration(dispatch.request_timeout))?;
        match dispatch.attempts_max {
            Some(1) => write!(f, ", dead letter after 1 failure")?,
            Some(most) => write!(f, ", dead letter after {most} failures")?,
            None => write!(f, ", tried until their deadline")?,
        }
        if let Some(redis) = &dispatch.redis {
            let urls: Vec<String> = redis.urls.iter().map(|url| without_secrets(url)).collect();
            write!(f, ", shared at {}", urls.join(", "))?;
        }
        if let Some(pubsub) = &dispatch.pubsub {
            write!(f, ", shared in Pub/Sub of {}", pubsub.project)?;
        }
        writeln!(f)?;
        for queue in &dispatch.queues {
            writeln!(f, "          {}", show_queue(queue))?;
        }
        for gate in &dispatch.gates {
            writeln!(f, "          {}", show_gate(gate))?;
        }
        for queue in dispatch.queues.iter().filter(|queue| queue.name != BATCH_QUEUE) {
            self.note(f, queue)?;
        }
        Ok(())
    }

    /// Mistakes that matter to only one of the commands that read the configuration.
    fn note(&self, f: &mut fmt::Formatter<'_>, queue: &Queue) -> fmt::Result {
        let name = &queue.name;
        if !self.0.dispatch.has_shared_store() {
            write!(f, "note      the queue {name:?} has no store: set dispatch.redis.urls or ")?;
            writeln!(f, "dispatch.pubsub.project")?;
        }
        if queue.target.is_none() {
            write!(f, "note      the queue {name:?} has no target: `serve` sends it to itself")?;
            return writeln!(f, ", `dispatch` needs --target URL");
        }
        let is_local =
            |gate: &&GateSettings| gate.kind.is_local() && queue.gates.contains(&gate.name);
        if let Some(gate) = self.0.dispatch.gates.iter().find(is_local) {
            let gate = &gate.name;
            write!(f, "note      the queue {name:?} goes through {gate:?}")?;
            writeln!(f, ", which reads the state of `serve`: `dispatch` needs another gate")?;
        }
        Ok(())
    }
}

fn show_queue(queue: &Queue) -> String {
    let target = queue.target.as_deref().map_or("this gateway".to_owned(), without_secrets);
    let band = spelling(queue.band);
    format!("queue {} to {target} as {band}, through {}", queue.name, queue.gates.join(" and "))
}

fn show_gate(gate: &GateSettings) -> String {
    let mut shown = format!("gate {}: {}", gate.name, gate.kind.name());
    if let Some(summary) = gate.kind.summary() {
        return format!("{shown}, {summary}");
    }
    match gate.capacity {
        Capacity::FromSource => {}
        Capacity::Fixed(most) => shown += &format!(", {most} in all"),
        Capacity::PerServer { each, .. } => shown += &format!(", {each} a server"),
    }
    shown + &format!(", a share of {} left to other work", gate.baseline)
}

fn show_span(span: Span) -> String {
    show_duration(clock::duration(span))
}

fn show_session_part(part: &SessionPart) -> String {
    match part {
        SessionPart::Session => "session".into(),
        SessionPart::Attribute(part) => show_part(part),
    }
}

fn show_part(part: &Attribute) -> String {
    match part {
        Attribute::Model => "model".into(),
        Attribute::TargetModel => "target_model".into(),
        Attribute::Tenant => "tenant".into(),
        Attribute::Workload => "workload".into(),
        Attribute::FairnessId => "fairness_id".into(),
        Attribute::Address => "address".into(),
        Attribute::Header(name) => format!("header:{name}"),
    }
}

fn show_rule(rule: &ClassRule, class: Option<&FlowClass>) -> String {
    let pattern = |(part, pattern): &(Attribute, String)| format!("{} {pattern}", show_part(part));
    let patterns: Vec<String> = rule.patterns.iter().map(pattern).collect();
    let mut shown = patterns.join(" and ");
    if let Some(class) = class {
        let weight = (class.weight.value() * 100.0).round() / 100.0;
        shown += &format!(": weight {weight}, {} waiting", class.capacity);
        shown += &format!(", {} each", show_span(class.ttl));
        if let Some(most) = class.in_flight_max {
            shown += &format!(", {most} in flight");
        }
        if let Some(most) = class.in_flight_per_backend_max {
            shown += &format!(", {most} at a backend");
        }
    }
    shown
}

/// The targets of a requested name with their weights, and the band of its requests.
fn show_targets(name: &str, targets: &[(ResolvedModel<'_>, u64)]) -> String {
    let total: u64 = targets.iter().map(|(_, weight)| weight).sum();
    let mut shown: Vec<String> = match targets {
        [(only, _)] if only.target == name => Vec::new(),
        [(only, _)] => vec![only.target.to_owned()],
        several => several
            .iter()
            .map(|(resolved, weight)| format!("{} ({weight} of {total})", resolved.target))
            .collect(),
    };
    let mut bands: Vec<Option<Band>> = targets.iter().map(|(resolved, _)| resolved.band).collect();
    bands.dedup();
    shown.extend(match bands[..] {
        [None] => None,
        [Some(band)] => Some(format!("as {}", spelling(band))),
        _ => Some("in the band of its target".to_owned()),
    });
    match shown.is_empty() {
        true => "its requests wait while no backend lists it".into(),
        false => shown.join(", "),
    }
}

fn show_backend(backend: &BackendSpec) -> String {
    let kind = backend.kind.name();
    let models = match backend.models.as_slice() {
        [] => "models read from it".into(),
        models => models.join(", "),
    };
    let places = backend.places.map(|places| format!(", {places} places")).unwrap_or_default();
    format!("{}: {kind} at {}, {models}{places}", backend.id, backend.url)
}
