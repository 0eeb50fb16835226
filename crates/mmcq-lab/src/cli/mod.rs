//! The command line, with one file for each command. Exit codes: 0 for success, 1 if the run found
//! errors ([`FOUND`] says what that means for each command), 2 for bad input.

mod card;
mod check;
mod compare;
#[cfg(all(feature = "outside", target_os = "linux"))]
mod device;
mod diff_bus;
mod effects;
#[cfg(all(feature = "outside", target_os = "linux"))]
mod exec;
#[cfg(feature = "fit")]
mod fit;
mod form;
mod function;
#[cfg(all(feature = "outside", target_os = "linux"))]
mod guest;
mod iozone;
mod load;
mod new;
mod page;
mod params;
mod progress;
mod replay;
mod report;
mod reporting;
mod reproduce;
mod run;
#[cfg(feature = "outside")]
mod serve;
#[cfg(feature = "torture")]
mod shards;
#[cfg(feature = "shell")]
mod shell;
mod snoop;
mod sweep;
#[cfg(feature = "torture")]
mod torture;
mod trace;
mod traced;
#[cfg(all(feature = "outside", target_os = "linux"))]
mod vfio;
mod voice;
mod why;

pub use voice::fault;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use mmcq_lab::fio;
use mmcq_lab::image::Lock;
use mmcq_lab::recorded::{self, is_fifo};
use mmcq_lab::scene::whole;
use mmcq_sim::card::Medium;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// A laboratory for drivers of SD and eMMC cards: the mmcq stack on register-accurate controllers
/// and timed cards, in virtual time.
///
/// Only the command `vfio` accesses real hardware. Results do not depend on the speed of this
/// machine: the same job and seed give the same bytes. (There is one exception: a program under
/// `exec` that waits for other programs with a timeout; a line then says so.)
#[derive(Debug, Parser)]
#[command(name = "mmcq", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    voice: voice::Voice,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Iozone(iozone::Iozone),
    Replay(replay::Replay),
    Sweep(sweep::Sweep),
    #[cfg(feature = "fit")]
    Fit(fit::Fit),
    Trace(trace::Trace),
    Snoop(snoop::Snoop),
    Why(why::Explain),
    Report(report::Report),
    Compare(compare::Compare),
    Check(check::Check),
    Reproduce(reproduce::Reproduce),
    #[cfg(feature = "torture")]
    Torture(torture::Torture),
    Card(card::Card),
    Platforms(card::Platforms),
    Params(params::Params),
    New(new::New),
    #[cfg(feature = "outside")]
    Serve(serve::Serve),
    DiffBus(diff_bus::DiffBus),
    #[cfg(feature = "shell")]
    Completions(shell::Completions),
    #[cfg(feature = "shell")]
    Man(shell::Man),
    #[cfg(all(feature = "outside", target_os = "linux"))]
    Fio(exec::Fio),
    #[cfg(all(feature = "outside", target_os = "linux"))]
    Exec(exec::Exec),
    #[cfg(all(feature = "outside", target_os = "linux"))]
    Device(device::Device),
    #[cfg(all(feature = "outside", target_os = "linux"))]
    Guest(guest::Guest),
    #[cfg(all(feature = "outside", target_os = "linux"))]
    Vfio(vfio::Vfio),
}

/// Meaning of exit code 1, for each command.
const FOUND: [(&str, &str); 26] = [
    ("run", "an I/O failed, data were not what was written, or the run did not come to its end"),
    ("iozone", "an I/O failed, or the run did not come to its end"),
    ("replay", "an I/O failed, or the run did not come to its end"),
    (
        "sweep",
        "an I/O of a point failed, a point cannot be run (its row says why), or a row could not be written",
    ),
    ("fit", "the held-out figures are further off than --require allows, or a file could not be written"),
    ("trace", "the run did not come to its end, or a file could not be written"),
    ("snoop", "an I/O failed, or the run did not come to its end"),
    ("why", "an I/O failed, or the run did not come to its end"),
    ("report", "an I/O failed, the run did not come to its end, or the file could not be written"),
    ("compare", "the comparison could not be written"),
    ("check", "a budget is broken, or a run did not come to its end"),
    ("reproduce", "a run did not come to its end, or a file could not be written"),
    ("torture", "a promise was broken, a recovery took longer than it may, or a planted bug was not found"),
    ("card", "the card's registers cannot be decoded"),
    ("platforms", "the list could not be written"),
    ("params", "the list could not be written"),
    ("new", "the file could not be written"),
    ("completions", "the script could not be written"),
    ("man", "a page could not be written"),
    ("serve", "the server failed, or its last flush, or a client does not know of lost writes"),
    ("fio", "and others: fio's own"),
    ("exec", "and others: the program's own; 125 a cut was asked for and none came"),
    ("device", "the virtual machine broke the protocol"),
    ("diff-bus", "the comparison could not be written"),
    ("guest", "the machine, or its job, did not come to its end, or two runs of one CPU were not the same"),
    ("vfio", "the card or the reader failed, or a file could not be written"),
];

/// Commands that a build has only with a certain cargo feature, each with this feature.
const FEATURES: [(&str, &str); 10] = [
    ("fit", "fit"),
    ("torture", "torture"),
    ("serve", "outside"),
    ("completions", "shell"),
    ("man", "shell"),
    ("fio", "outside"),
    ("exec", "outside"),
    ("device", "outside"),
    ("guest", "outside"),
    ("vfio", "outside"),
];

/// Returns the message about a part that this build lacks, and about how to get it.
fn left_out(what: &str, feature: &str) -> String {
    format!(
        "{what}: this build was made without it; `cargo build --release -p mmcq-lab --features {feature}` \
         makes one that has it, `--features full` one that has everything"
    )
}

/// Returns the exit codes of a command, for its help.
fn exit_codes(command: &str) -> String {
    let found = FOUND.iter().find(|(name, _)| *name == command);
    let found = found.map_or("the run found errors (each command's help says which)", |(_, what)| *what);
    format!("Exit codes: 0 well; 1 {found}; 2 bad input, nothing written.")
}

impl Cli {
    /// Returns the definition of the command line, with the text that the help of every command
    /// has.
    fn described() -> clap::Command {
        let with_codes = |command: clap::Command| {
            let codes = exit_codes(command.get_name());
            let text = match command.get_after_help() {
                Some(more) => format!("{more}\n\n{codes}"),
                None => codes,
            };
            command.after_help(text)
        };
        let command = with_codes(Cli::command().mut_subcommands(with_codes)).color(voice::colours());
        let missing = FEATURES.iter().filter(|(name, _)| command.find_subcommand(name).is_none());
        let missing: Vec<&str> = missing.map(|(name, _)| *name).collect();
        if missing.is_empty() {
            return command;
        }
        let codes = exit_codes("");
        command.after_help(format!(
            "Left out of this build: {}. `cargo build --release -p mmcq-lab --features full` has them.\n\n{codes}",
            missing.join(", ")
        ))
    }

    /// Parses the arguments. If the user wants help or the version, prints it and ends the program.
    pub fn given() -> Result<Self, Error> {
        let matches = Cli::described().try_get_matches();
        let given = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        given.map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
            _ => Cli::misread(&error),
        })
    }

    /// Returns an error of one line about a wrong command line, from clap's error.
    fn misread(error: &clap::Error) -> Error {
        let command = error.get(ContextKind::InvalidSubcommand);
        if let (ErrorKind::InvalidSubcommand, Some(command)) = (error.kind(), command) {
            let known = Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect::<Vec<_>>();
            let text = command.to_string();
            if let Some((name, feature)) = FEATURES.iter().find(|(name, _)| *name == text) {
                return Error::Input(left_out(name, feature));
            }
            // The largest edit distance that counts as similar: 2, or half of a short word.
            let close = |name: &&String| strsim::osa_distance(name, &text) <= (text.len() / 2).min(2);
            let nearest = known.iter().filter(close).min_by_key(|name| strsim::osa_distance(name, &text));
            let hint = nearest.map_or(String::new(), |name| format!("; did you mean {name}?"));
            return Error::Input(format!("{command}: no command{hint}; expected {}", known.join(", ")));
        }
        let text = error.to_string();
        let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
        let said = said.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
        let line = said.collect::<Vec<_>>().join(" ");
        Error::Input(format!("{} (--help says more)", line.trim_start_matches("error: ")))
    }

    /// Executes the command that was given, and returns its exit code.
    pub fn run(self) -> Result<ExitCode, Error> {
        self.voice.take();
        match self.command {
            Command::Run(command) => command.run(),
            Command::Iozone(command) => command.run(),
            Command::Replay(command) => command.run(),
            Command::Sweep(command) => command.run(),
            #[cfg(feature = "fit")]
            Command::Fit(command) => command.run(),
            Command::Trace(command) => command.run(),
            Command::Snoop(command) => command.run(),
            Command::Why(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Compare(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Reproduce(command) => command.run(),
            #[cfg(feature = "torture")]
            Command::Torture(command) => command.run(),
            Command::Card(command) => command.run(),
            Command::Platforms(command) => command.run(),
            Command::Params(command) => command.run(),
            Command::New(command) => command.run(),
            #[cfg(feature = "outside")]
            Command::Serve(command) => command.run(),
            Command::DiffBus(command) => command.run(),
            #[cfg(feature = "shell")]
            Command::Completions(command) => command.run(),
            #[cfg(feature = "shell")]
            Command::Man(command) => command.run(),
            #[cfg(all(feature = "outside", target_os = "linux"))]
            Command::Fio(command) => command.run(),
            #[cfg(all(feature = "outside", target_os = "linux"))]
            Command::Exec(command) => command.run(),
            #[cfg(all(feature = "outside", target_os = "linux"))]
            Command::Device(command) => command.run(),
            #[cfg(all(feature = "outside", target_os = "linux"))]
            Command::Guest(command) => command.run(),
            #[cfg(all(feature = "outside", target_os = "linux"))]
            Command::Vfio(command) => command.run(),
        }
    }
}

/// Reason why a command failed, in one line.
#[derive(Debug)]
pub enum Error {
    /// An input is wrong, and nothing was done; the text says why.
    Input(String),
    /// The run itself failed; the text says why.
    Run(String),
}

impl Error {
    /// Returns the exit code of the program.
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

impl From<String> for Error {
    /// Makes the error of a command from a library's error (one line) about an input.
    fn from(line: String) -> Self {
        Error::Input(line)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Input(text) | Error::Run(text)) = self;
        f.write_str(text)
    }
}

/// Returns the jobs in a file or, without a file, those of options in the form of fio or iozone. A
/// command that calls this writes no report of fio, so it refuses fio's option `--output`.
fn jobs(file: Option<&Path>, options: &[String]) -> Result<fio::JobFile, Error> {
    Ok(jobs_with_output(file, options)?.without_output()?)
}

/// Returns the jobs as [`jobs`] does, and accepts fio's option `--output`.
fn jobs_with_output(file: Option<&Path>, options: &[String]) -> Result<fio::JobFile, Error> {
    match file {
        Some(path) if options.is_empty() && path.as_os_str() == "-" => {
            let mut text = Vec::new();
            let most = fio::FILE_BYTES_MAX as u64 + 1;
            std::io::Read::read_to_end(&mut std::io::Read::take(std::io::stdin(), most), &mut text)
                .map_err(|error| Error::Input(format!("standard input: {error}")))?;
            fio::parse_text("standard input", &text, &fio::System)
        }
        Some(path) if options.is_empty() => {
            let read = fio::parse_file(path, &fio::System);
            match read.is_err().then(|| recorded::format(path)).flatten() {
                Some(format) => {
                    let (path, format) = (path.display(), format.name());
                    return Err(Error::Input(format!(
                        "{path}: a trace ({format}); expected a job file: `mmcq replay {path}` runs it, with --report also as a page"
                    )));
                }
                None => read,
            }
        }
        None if iozone::is_line(options) => return iozone::jobs(options),
        None => fio::parse_command_line(options, &fio::System),
        Some(_) => return Err(Error::input("give a job file or options after --, not both")),
    }
    .map_err(Error::input)
}

/// Returns the name of a load for titles of reports.
fn load_name(file: Option<&Path>) -> String {
    match file {
        Some(path) if path.as_os_str() == "-" => "jobs of standard input".to_owned(),
        Some(path) => path.display().to_string(),
        None => "jobs by options".to_owned(),
    }
}

/// Largest number of threads that a user can give.
const THREADS_MAX: usize = 1024;

/// Parses a number of threads.
fn threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|n| (1..=THREADS_MAX).contains(n));
    threads.ok_or_else(|| format!("expected a whole number from 1 to {THREADS_MAX}"))
}

/// Opens an image file, for reads and writes if `write`, otherwise for reads only, and locks it.
/// Returns its content as a medium, and the lock.
fn image(path: &Path, write: bool) -> Result<(Medium, Lock), Error> {
    if is_fifo(path) {
        let why = "a named pipe, and an image is read at any place; expected a file";
        return Err(Error::Input(format!("{}: {why}", path.display())));
    }
    let medium = Medium::image(path, !write).map_err(Error::input)?;
    Ok((medium, Lock::take(path, write).map_err(Error::Input)?))
}

/// Checks before a run that the file at `path` can be written; `option` names it in errors. Creates
/// an empty file if there is none.
fn writable(option: &str, path: &Path) -> Result<(), Error> {
    let file = std::fs::File::options().append(true).create(true).open(path);
    file.map(|_| ()).map_err(|error| Error::Input(format!("{option} {}: {error}", path.display())))
}

/// Prints text to standard output. Ends the program silently if the reader has closed the pipe.
fn print(text: &str) -> Result<(), Error> {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(|error| Error::Run(format!("standard output: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_says_what_it_ends_with() {
        let mut command = Cli::described();
        assert!(command.render_long_help().to_string().contains("Exit codes: 0 well; 1 "));
        let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        for name in names.iter().filter(|name| *name != "help") {
            assert!(FOUND.iter().any(|(known, _)| known == name), "{name}");
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            assert_eq!(help.matches("Exit codes: 0 well; 1 ").count(), 1, "{name}");
        }
        command.debug_assert();
    }
}
