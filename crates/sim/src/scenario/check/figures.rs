//! Checks the columns of the table and the expectations.

use flow::{Band, Time};

use super::{Checked, one_line, require, wrong};
use crate::scenario::duration::DurationText;
use crate::scenario::figure::BAND_NAMES;
use crate::scenario::{
    Column, Expectation, Figure, Measure, PolicyConfig, Range, ScenarioError, Scope, file,
};

/// The column of a table that a scenario asks for.
pub(super) fn column(key: &str, given: &file::Column) -> Checked<Column> {
    let file::Column { band, tenant, except, from, until, .. } = given;
    let figure =
        figure(key, &given.figure, scope(*band, (tenant, except.as_slice()), [*from, *until]))?;
    let head = given.head.clone().unwrap_or_else(|| figure.to_string());
    one_line(format!("{key}.head"), [&head])?;
    Ok(Column { head, figure })
}

pub(super) fn expectation(
    key: &str,
    given: &file::Expect,
    policies: &[PolicyConfig],
    loads: &[f64],
) -> Checked<Expectation> {
    let find = |field: &str, name: &Option<String>| -> Checked<Option<usize>> {
        let Some(name) = name else { return Ok(None) };
        let found = policies.iter().position(|policy| policy.name == *name);
        let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
        let message = format!("`{name}` is not a policy here; there are {}", names.join(", "));
        found.map(Some).ok_or_else(|| ScenarioError::new(format!("{key}.{field}"), message))
    };
    let known = given.load.is_none_or(|load| loads.contains(&load));
    require(known, format!("{key}.load"), "is not among the loads")?;
    let file::Expect { band, tenant, except, from, until, .. } = given;
    let scope = scope(*band, (tenant, except.as_slice()), [*from, *until]);
    one_line(format!("{key}.head"), &given.head)?;
    let over_figure = given.over_figure.as_ref();
    let over_key = format!("{key}.over_figure");
    require(over_figure.is_none() || given.over.is_some(), &over_key, "needs `over`")?;
    let over_scope = |measure: Measure| match measure.has_scope() {
        true => scope.clone(),
        false => Scope::default(),
    };
    let over_figure = over_figure.map(|name| Measure::parse(over_key, name)).transpose()?;
    let over_figure = over_figure.map(|measure| Figure { measure, scope: over_scope(measure) });
    let expectation = Expectation {
        head: given.head.clone(),
        figure: figure(key, &given.figure, scope)?,
        over_figure,
        policy: find("policy", &given.policy)?,
        load: given.load,
        over: find("over", &given.over)?,
        limit: Range::new(given.min, given.max),
        goal: Range::new(given.goal_min, given.goal_max),
    };
    expectation.check(key)?;
    Ok(expectation)
}

fn figure(key: &str, name: &str, scope: Scope) -> Checked<Figure> {
    let measure = Measure::parse(format!("{key}.figure"), name)?;
    if measure.is_sampled() {
        let Scope { from, until, .. } = scope;
        let all = scope == Scope { from, until, ..Scope::default() };
        let message = "this figure is of all requests; leave out band, tenant, except";
        require(all, format!("{key}.figure"), message)?;
    } else if scope != Scope::default() && !measure.has_scope() {
        let message =
            "this figure is of the whole run; leave out band, tenant, except, from, until";
        return wrong(format!("{key}.figure"), message);
    }
    one_line(format!("{key}.tenant"), &scope.tenant)?;
    one_line(format!("{key}.except"), &scope.except)?;
    let ordered = scope.from.zip(scope.until).is_none_or(|(from, until)| from < until);
    require(ordered, format!("{key}.until"), "must be later than `from`")?;
    Ok(Figure { measure, scope })
}

/// The requests that a figure counts.
fn scope(
    band: Option<file::Band>,
    (tenant, except): (&Option<String>, &[String]),
    times: [Option<DurationText>; 2],
) -> Scope {
    let [from, until] = times.map(|time| time.map(|time| Time::ZERO.after(time.0)));
    Scope {
        band: band.map(|band| Band::DESCENDING[BAND_NAMES.len() - 1 - band as usize]),
        tenant: tenant.clone(),
        except: except.to_vec(),
        from,
        until,
    }
}
