//! `mmcq completions` and `mmcq man`: write shell completions and manual pages.

use super::{Cli, Error, print};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print a completion script for a shell
///
/// For bash: `mmcq completions bash > ~/.local/share/bash-completion/completions/mmcq`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell for which the script is
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn run(self) -> Result<ExitCode, Error> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::described(), "mmcq", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Write the manual pages: mmcq.1, and one for each command
#[derive(Debug, Args)]
pub struct Man {
    /// Folder for the pages, which must exist
    directory: PathBuf,
}

impl Man {
    pub fn run(self) -> Result<ExitCode, Error> {
        if !self.directory.is_dir() {
            return Err(Error::Input(format!("{}: expected a directory", self.directory.display())));
        }
        clap_mangen::generate_to(Cli::described(), &self.directory)
            .map_err(|error| Error::Run(format!("{}: {error}", self.directory.display())))?;
        Ok(ExitCode::SUCCESS)
    }
}
