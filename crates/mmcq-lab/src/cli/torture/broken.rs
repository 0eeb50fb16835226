//! Prints the runs that broke a promise: the name of each, a shortened version, and all events on
//! its bus.

use super::super::{Error, print};
use mmcq_torture::case::Case;
use mmcq_torture::describe;
use mmcq_torture::run::{Bench, run};
use mmcq_torture::score::{Score, counted};
use mmcq_torture::shrink::shrink;
use mmcq_torture::trace::{HEADING, InOrder};
use std::process::ExitCode;

/// Number of failing runs that are shortened and printed.
const SHORTENED: usize = 3;

/// Returns the seed of a run if a command can replay the run, otherwise a description of the run.
fn named(case: &Case, command: Option<&str>) -> String {
    match command {
        Some(_) => format!("seed {}", case.seed),
        None => describe::line(case),
    }
}

/// Prints the promises that the runs of `score` broke, and shortened versions of the first such
/// runs. `command` returns the command that replays a seed, if there is one.
pub(super) fn explain(score: &Score, command: &dyn Fn(u64) -> Option<String>) -> Result<(), Error> {
    for (case, violation) in &score.failures {
        let command = command(case.seed);
        print(&format!("  {}: {violation}\n", named(case, command.as_deref())))?;
        if let Some(command) = command {
            print(&format!("    replay: {command}\n"))?;
        }
    }
    for (case, violation) in score.failures.iter().take(SHORTENED) {
        if let Some(short) = shrink(case, &mut Bench::new()) {
            let name = named(case, command(case.seed).as_deref());
            print(&format!("\n{name}, made short ({violation}):\n"))?;
            replay(&short)?;
        }
    }
    Ok(())
}

/// Runs this case again and prints all events on its bus.
pub(super) fn replay(case: &Case) -> Result<ExitCode, Error> {
    print(&describe::run(case))?;
    print(HEADING)?;
    let mut failed = None;
    let mut lines = InOrder::new(|line: String| {
        if failed.is_none() {
            failed = print(&(line + "\n")).err();
        }
    });
    let outcome = run(case, &mut Bench::new(), Some(&mut |line| lines.line(line)));
    drop(lines);
    if let Some(error) = failed {
        return Err(error);
    }
    match &outcome.violation {
        Some(violation) => {
            print(&format!("{violation}\n"))?;
            Ok(ExitCode::from(1))
        }
        None => {
            let (requests, cuts) = (counted(outcome.requests, "request"), counted(outcome.cuts, "cut"));
            print(&format!("{requests}, {cuts}, nothing broken\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
