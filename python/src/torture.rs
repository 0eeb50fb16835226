//! Parts of campaigns of torture: random requests with faults and power cuts.

use crate::failure::input;
use mmcq_lab::parallel;
use mmcq_torture::spread::Share;
use mmcq_torture::summary::{self, Summary};
use mmcq_torture::swarm::Swarm;
use mmcq_torture::{hosts, queues, spi, streams};
use pyo3::prelude::*;
use std::num::NonZeroUsize;

/// Runs a shard (a part) of a campaign of random runs. Returns the summary that `mmcq torture
/// --json` prints.
#[pyfunction]
#[pyo3(signature = (mode, ios, seed, shard, jobs, faults, cuts))]
pub fn torture(
    py: Python<'_>,
    mode: &str,
    ios: u64,
    seed: u64,
    shard: &str,
    jobs: Option<NonZeroUsize>,
    faults: f64,
    cuts: u64,
) -> PyResult<String> {
    let shard = Some(shard.parse().map_err(|why: String| input(format!("shard {shard}: {why}")))?);
    if !(0.0..=1.0).contains(&faults) {
        return Err(input(format!("faults {faults}: expected a number from 0 to 1")).into());
    }
    let share = Share { seed, requests: ios, shard, jobs: jobs.map_or_else(parallel::cores, usize::from) };
    let silent = |_| ();
    let (campaign, score) = crate::heard::heard(py, || match mode {
        "swarm" => {
            let swarm = Swarm { share, faults, cuts, card: None };
            Ok((format!("{mode} --faults {faults} --cuts {cuts}"), swarm.run(&silent)))
        }
        "streams" => Ok((mode.to_owned(), streams::streams(&share, &silent))),
        "hosts" => Ok((mode.to_owned(), hosts::hosts(&share, &silent))),
        "sdmmc" => Ok((mode.to_owned(), hosts::sdmmc(&share, &silent))),
        "spi" => Ok((mode.to_owned(), spi::spi(&share, &silent))),
        "queues" => Ok((mode.to_owned(), queues::queues(&share, &silent))),
        _ => Err(input(format!("mode {mode}: expected swarm, streams, hosts, sdmmc, spi or queues"))),
    })?;
    Ok(Summary::of(campaign, &share, &score).line())
}

/// Adds up the summaries of shards, one JSON object per line. Returns one line for each campaign.
#[pyfunction]
pub fn merge(lines: &str) -> PyResult<String> {
    let merged = summary::merged(&[("merge".to_owned(), lines.to_owned())]).map_err(input)?;
    Ok(merged.iter().map(Summary::line).collect())
}
