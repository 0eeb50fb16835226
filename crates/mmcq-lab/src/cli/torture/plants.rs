//! Looks for planted bugs with the torture.

use super::super::progress::{Progress, Unit};
use super::super::{Error, print};
use mmcq_torture::plants::{Planted, look_for_all, without};
use std::process::ExitCode;
use std::time::Instant;

/// Runs the torture on each planted bug whose name contains `named`; all these bugs must be found.
/// An empty `named` also runs it without a bug, and then no promise may be broken. `card`: index of
/// the only card to use; `jobs`: number of threads.
pub fn plants(named: &str, card: Option<usize>, jobs: usize) -> Result<ExitCode, Error> {
    let began = Instant::now();
    let all: Vec<Planted> =
        Planted::all().into_iter().filter(|planted| planted.name().contains(named)).collect();
    if all.is_empty() {
        return Err(Error::Input(format!("--plants {named}: no planted bug has that in its name")));
    }
    if named.is_empty()
        && let Some((campaign, violation)) = without(card, jobs)
    {
        let what = "a promise is broken without any planted bug";
        return Err(Error::Run(format!("--plants: {what} ({}: {violation})", campaign.name())));
    }
    let shown = Progress::new("planted bugs", all.len() as u64, Unit::Count);
    let results = look_for_all(&all, card, jobs, &|| shown.inc(1));
    shown.end();
    print(&format!(
        "{:<20} {:<13} {:>8} {:>8} {:>8}  broke\n",
        "bug", "found by", "requests", "median", "seconds"
    ))?;
    for (planted, result) in all.iter().zip(&results) {
        let bug = planted.name();
        print(&match result {
            Some(found) => format!(
                "{bug:<20} {:<13} {:>8} {:>8} {:>8.2}  {}\n",
                found.campaign.name(),
                found.requests.first().copied().unwrap_or(0),
                found.median_requests(),
                found.took.as_secs_f64(),
                found.violation
            ),
            None => format!("{bug:<20} not found\n"),
        })?;
    }
    let (found, seconds) = (results.iter().flatten().count(), began.elapsed().as_secs_f64());
    print(&format!("{found} of {} found, all must be; {seconds:.1} s\n", all.len()))?;
    Ok(if found < all.len() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}
