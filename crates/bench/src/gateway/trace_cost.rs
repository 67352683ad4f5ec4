//! What traces cost in processor time of the whole process, with the kernel's part of it.
//!
//! Instructions outside the kernel say nothing about the bytes that are sent. So three gateways
//! take turns at the same load: without traces, with traces of no request, and with traces of each.
//! A trace that is dropped costs nothing, so none may be.

use anyhow::{Result, ensure};

use super::cost::{self, CLIENTS, SHORT};
use super::load::{Client, Request};
use super::measured::{Measured, play, table};
use super::metrics::sum;
use super::origin::{Behaviour, EVENTS, Origin};
use super::proxies::Proxy;
use super::settings::{flow_control, traced};
use crate::report::Table;
use crate::runner::Bench;

const OFF: &str = "gateway";
const NONE: &str = "gateway, sample_ratio 0";
const EACH: &str = "gateway, sample_ratio 1";
/// The most that traces may cost.
const RATIO_MAX: f64 = 1.05;
const DROPPED: &str = "tidegate_traces_dropped_total";
const SENT: &str = "tidegate_traces_sent_total";

/// A short response, of which a trace is the largest part that it can be.
pub(crate) async fn post(bench: &mut Bench) -> Result<Table> {
    let title = "A request that is traced: POST of 1 KB, 64 connections";
    measure(bench, title.to_owned(), Request::chat(false, "")).await
}

/// A response as clients of models mostly ask for it. The figures are those of an event.
pub(crate) async fn stream(bench: &mut Bench) -> Result<Table> {
    let title = format!("A traced event: {EVENTS} a stream, {CLIENTS} streams, as fast as they go");
    measure(bench, title, Request::chat(true, "")).await
}

async fn measure(bench: &mut Bench, title: String, request: Request) -> Result<Table> {
    let origin = Origin::start(Behaviour::default())?;
    // It takes any message.
    let receiver = Origin::start(Behaviour::default())?;
    let peers = [
        (OFF, flow_control()),
        (NONE, traced(receiver.address, 0.0)),
        (EACH, traced(receiver.address, 1.0)),
    ];
    let mut all = Vec::new();
    for (name, config) in peers {
        let load = cost::load(CLIENTS, request.clone(), SHORT);
        all.push(Measured::start(bench, &origin, &Proxy::ours(name, config), load).await?);
    }
    play(bench, &mut all, &origin).await?;
    let mut client = Client::connect(all[2].address()).await?;
    let metrics = client.text(&Request::get("/metrics")).await?;
    let (sent, dropped) = (sum(&metrics, SENT), sum(&metrics, DROPPED));
    ensure!(dropped == Some(0.0), "{dropped:?} traces were dropped, {sent:?} sent");
    ensure!(sent > Some(0.0), "the receiver got no traces");
    let mut table = table(title, &all, OFF);
    for (what, who) in [("no request", NONE), ("every request", EACH)] {
        let ratio = table.figure(who, 2);
        table.target(format!("CPU with traces of {what} over without"), RATIO_MAX, ratio);
    }
    Ok(table)
}
