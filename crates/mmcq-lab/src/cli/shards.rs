//! `mmcq torture --merge`: combines the results of the parts (shards) of campaigns.

use super::{Error, print, voice};
use mmcq_torture::summary::{self, Summary};
use std::path::PathBuf;
use std::process::ExitCode;

/// Combines the results in these files: the sum of all shards of each campaign. The exit code is 1
/// if a shard is missing, the stack broke a promise (a guarantee about data), or a recovery took
/// too long.
pub fn merge(files: &[PathBuf]) -> Result<ExitCode, Error> {
    let read = |path: &PathBuf| match std::fs::read_to_string(path) {
        Ok(text) => Ok((format!("--merge {}", path.display()), text)),
        Err(error) => Err(Error::Input(format!("--merge {}: {error}", path.display()))),
    };
    let texts: Vec<(String, String)> = files.iter().map(read).collect::<Result<_, _>>()?;
    let campaigns = summary::merged(&texts).map_err(Error::Input)?;
    let mut is_whole = true;
    for campaign in &campaigns {
        print(&campaign.line())?;
        let missing = campaign.missing();
        if let [first, ..] = missing[..] {
            is_whole = false;
            let (name, of) = (&campaign.campaign, campaign.of);
            let count = missing.len();
            voice::fault(format_args!(
                "{name}: {count} of {of} shards are missing, the first is {first}/{of}"
            ));
        }
    }
    Ok(if is_whole && campaigns.iter().all(Summary::is_well) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
