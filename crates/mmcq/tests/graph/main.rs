//! Tests of engine and recovery with every sequence of up to a given number of faults (the graph of
//! all runs).
//!
//! Engine and supervisor are the real code. The controller, the card and the clients are abstract,
//! and each of their results is a choice ([`choice::Bad`]). A run depends only on the list of its
//! faults. The explorer runs every list up to a length, for several workloads, and the judge checks
//! each run.
//!
//! An ordinary test run tests all sequences of two faults. `tools/graph.sh` tests all sequences of
//! three, with a shorter form of each workload: it sets `GRAPH_DEPTH` and `GRAPH_THREADS`.
//! `GRAPH_STUCK=0` leaves out the card that stays busy for ever, which takes nine tenths of the
//! time. `GRAPH_WORKLOAD` is a part of a workload's name. `GRAPH_PLAN=12:3,40:0` shows one run step
//! by step.

#![allow(clippy::print_stderr, reason = "the figures are what it is for")]

mod card;
mod choice;
mod explore;
mod host;
mod judge;
mod named;
#[path = "../support/one_thread.rs"]
mod one_thread;
mod rest;
mod run;
mod supervisor;
mod workload;

use run::Start;
use workload::{ALL, Workload};

fn wanted() -> impl Iterator<Item = Workload> {
    let part = std::env::var("GRAPH_WORKLOAD").unwrap_or_default();
    let sticks = number("GRAPH_STUCK") != Some(0);
    let of_name = ALL.into_iter().filter(move |workload| workload.name.contains(&part));
    of_name.map(move |workload| Workload { sticks: sticks && workload.sticks, ..workload })
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_sequence_of_bad_answers_ends_well() {
    if let Ok(plan) = std::env::var("GRAPH_PLAN") {
        return show(&plan);
    }
    let depth = number("GRAPH_DEPTH").unwrap_or(2);
    let threads = number("GRAPH_THREADS").unwrap_or(1);
    let mut broken = 0;
    for workload in wanted() {
        let start = Start::new(workload.for_depth(depth));
        let report = explore::explore(&start, depth, threads);
        let states = report.states.len();
        eprintln!("{}: {} runs, {states} states, {} steps", workload.name, report.runs, report.steps);
        for (what, found) in &report.found {
            broken += 1;
            let plan: Vec<_> = found.plan.iter().map(|(at, bad)| format!("{at}:{bad}")).collect();
            eprintln!(
                "  BROKEN {} times: {what}: {:?}, GRAPH_PLAN={}",
                found.times,
                found.bad,
                plan.join(",")
            );
        }
    }
    assert_eq!(broken, 0, "the lines above say which");
}

fn show(plan: &str) {
    let plan: Vec<(u32, u8)> = plan
        .split(',')
        .filter_map(|pair| pair.split_once(':'))
        .map(|(at, bad)| (at.parse().unwrap(), bad.parse().unwrap()))
        .collect();
    for workload in wanted() {
        let depth = number("GRAPH_DEPTH").unwrap_or(2);
        let start = Start::new(workload.for_depth(depth));
        let outcome = run::run(&start, &mut run::Room::new(), &plan, true);
        eprintln!("{}:\n{}\n{:?}", workload.name, outcome.log.join("\n"), outcome.violations);
    }
}
