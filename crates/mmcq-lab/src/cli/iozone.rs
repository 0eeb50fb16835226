//! `mmcq iozone`: runs the tests of iozone on a board.

use super::Error;
use super::reporting::Reporting;
use clap::Args;
use mmcq_lab::fio::JobFile;
use mmcq_lab::fio::report::Replayed;
use mmcq_lab::iozone::Iozone as Line;
pub use mmcq_lab::iozone::is_line;
use mmcq_lab::scene::Scene;
use std::process::ExitCode;

/// Run iozone's tests on a simulated board, in virtual time
///
/// All arguments after -- are iozone's; the program's name may stand in front. The result is
/// iozone's table (KiB/s), or fio's report with --output-format. `mmcq run`, `why`, `trace` and
/// others take the same arguments after --. The file of the tests is a part of the card, without a
/// page cache in between: all I/O is direct, as with iozone's -I.
///
///   mmcq iozone --platform stream-rtsx -- -az -i0 -i1 -s 20m -y 16k -q 4m -I -f iozone.tmp -e
///
/// Tests: 0 (write, rewrite), 1 (read, reread), 2 (random read, random write). Options: -a -z -s
/// -r -y -q -n -g -i -f -e -I; -w, -M and -R are accepted and change nothing. Others are refused.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Iozone {
    #[command(flatten)]
    scene: Scene,
    #[command(flatten)]
    reporting: Reporting,
    /// iozone's own options
    #[arg(last = true, required = true, value_name = "IOZONE OPTIONS")]
    options: Vec<String>,
}

impl Iozone {
    pub fn run(self) -> Result<ExitCode, Error> {
        let line = Line::parse(&self.options).map_err(Error::Input)?;
        let file = line.jobs().map_err(Error::Input)?;
        let loaded = self.scene.load(&file, &self.scene.set).map_err(Error::input)?;
        let again = |changes: &[String]| self.scene.load(&file, changes);
        let reporting = self.reporting.with_table(Some(line));
        reporting.run(&self.scene, loaded, None, again, Replayed::default(), "iozone")
    }
}

/// Returns the jobs of an iozone command line.
pub fn jobs(options: &[String]) -> Result<JobFile, Error> {
    Line::parse(options).and_then(|line| line.jobs()).map_err(Error::Input)
}

/// Returns the parsed command line of iozone, if the options are one; `None`: they are options of
/// fio.
pub fn line(options: &[String]) -> Result<Option<Line>, Error> {
    is_line(options).then(|| Line::parse(options)).transpose().map_err(Error::Input)
}
