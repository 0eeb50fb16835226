//! Command line: one file a command. Exit codes: 0 well, 1 the run found errors (I/O, verification), 2 bad input.

mod card;
#[cfg(target_os = "linux")]
mod device;
mod reproduce;
mod run;
mod serve;
mod torture;
mod trace;
#[cfg(target_os = "linux")]
mod vfio;
mod why;

use clap::{Parser, Subcommand};
use mmcq_lab::fio;
use std::fmt;
use std::process::ExitCode;

/// A laboratory for card stacks: the mmcq stack on register-accurate controllers and timed cards, in virtual time.
///
/// Nothing here but `vfio` touches real hardware, and no other result depends on the speed of this machine: the same job and seed give the same bytes.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 well; 1 the run found errors (I/O, verification); 2 bad input, nothing written."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Trace(trace::Trace),
    Why(why::Explain),
    Reproduce(reproduce::Reproduce),
    Torture(torture::Torture),
    Card(card::Card),
    Platforms(card::Platforms),
    Serve(serve::Serve),
    #[cfg(target_os = "linux")]
    Device(device::Device),
    #[cfg(target_os = "linux")]
    Vfio(vfio::Vfio),
}

impl Cli {
    /// Does what was asked.
    pub fn run(self) -> Result<ExitCode, Error> {
        match self.command {
            Command::Run(command) => command.run(),
            Command::Trace(command) => command.run(),
            Command::Why(command) => command.run(),
            Command::Reproduce(command) => command.run(),
            Command::Torture(command) => command.run(),
            Command::Card(command) => command.run(),
            Command::Platforms(command) => command.run(),
            Command::Serve(command) => command.run(),
            #[cfg(target_os = "linux")]
            Command::Device(command) => command.run(),
            #[cfg(target_os = "linux")]
            Command::Vfio(command) => command.run(),
        }
    }
}

/// Why a command failed, in one line.
#[derive(Debug)]
pub enum Error {
    /// Something given is wrong; nothing was done.
    Input(String),
    /// The run itself failed.
    Run(String),
}

impl Error {
    /// What the program ends with.
    pub fn code(&self) -> ExitCode {
        match self {
            Error::Input(_) => ExitCode::from(2),
            Error::Run(_) => ExitCode::from(1),
        }
    }

    fn input(error: impl fmt::Display) -> Self {
        Error::Input(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Input(text) | Error::Run(text)) = self;
        f.write_str(text)
    }
}

/// The jobs of a file, or of options in fio's form.
fn jobs(file: Option<&std::path::Path>, options: &[String]) -> Result<fio::JobFile, Error> {
    match file {
        Some(path) if options.is_empty() => fio::parse_file(path, &fio::System),
        None => fio::parse_command_line(options, &fio::System),
        Some(_) => return Err(Error::input("give a job file or options after --, not both")),
    }
    .map_err(Error::input)
}

/// A file that a run will write: better known before than after it.
fn writable(option: &str, path: &std::path::Path) -> Result<(), Error> {
    let file = std::fs::File::options().append(true).create(true).open(path);
    file.map(|_| ()).map_err(|error| Error::Input(format!("{option} {}: {error}", path.display())))
}

/// Prints a line to standard output; a reader that has gone away ends the program quietly.
fn print(text: &str) -> Result<(), Error> {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(|error| Error::Run(format!("standard output: {error}"))),
    }
}
