//! `mmcq report`: writes a run as one HTML file.

use super::Error;
use super::load::Load;
use super::reporting::Reporting;
use clap::Args;
use mmcq_lab::fio::report::Replayed;
use mmcq_lab::page::live::Live;
use mmcq_lab::scene::{Loaded, Scene};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run fio jobs, and write one HTML file that a colleague can open
///
/// The file begins with the answer of `mmcq why`. Then come the rate beside the rate that bus and
/// card allow, the time of a request in other settings (Linux without and with its queue, mmcq,
/// the limit), latencies, rate and depth over time, the bus as an oscilloscope shows it, all
/// parameters with their sources, and the command that runs it again. The file loads no other file
/// and needs no script. It contains the JSON report of `mmcq run`, which `mmcq compare` reads. For
/// a recorded load: `mmcq replay TRACE --report FILE`. With --live the file also has the
/// playground, an interactive page that needs a script (tools/playground.sh builds it).
///
///   mmcq report jobs/quickstart.fio -o quickstart.html
///   mmcq report jobs/quickstart.fio -o slow.html --set cost.wake_us=80 --setting none
///   mmcq report jobs/quickstart.fio -o live.html --live
///   mmcq compare quickstart.html slow.html
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Report {
    #[command(flatten)]
    load: Load,
    /// The HTML file to write
    #[arg(short, long, value_name = "FILE.html", default_value = "report.html")]
    output: PathBuf,
    /// Puts the playground into the file: in a browser, a reader can change board, card and load
    /// there and run again. The file then has 1.4 MB. FOLDER has the result of tools/playground.sh
    /// [default: target/playground, here or beside this program]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true)]
    live: Option<Option<PathBuf>>,
}

impl Report {
    pub fn run(self) -> Result<ExitCode, Error> {
        let (file, loaded) = self.load.read()?;
        let again = |changes: &[String]| self.load.scene.load(&file, changes);
        let title = self.load.name();
        let live = self
            .live
            .as_ref()
            .map(|folder| live(folder.as_deref(), &self.load.scene, &loaded))
            .transpose()?;
        let reporting = Reporting::page_alone(self.output, live).beside(self.load.inputs());
        reporting.run(&self.load.scene, loaded, None, again, Replayed::default(), &title)
    }
}

/// Returns the playground (the laboratory as a page for the browser) from `folder`, or from the
/// first default folder that exists. The form on the page shows the settings in `scene` and the
/// jobs in `loaded`.
fn live(folder: Option<&Path>, scene: &Scene, loaded: &Loaded) -> Result<Live, Error> {
    let found = folder.map(Path::to_owned).or_else(|| places().find(|place| place.is_dir()));
    let found = found.ok_or_else(|| {
        let all: Vec<String> = places().map(|place| place.display().to_string()).collect();
        let build = "tools/playground.sh builds it, --live=FOLDER says where it is";
        Error::Input(format!("--live: no playground at {}; {build}", all.join(" or ")))
    })?;
    let wrong = |said: String| {
        Error::Input(format!("--live: {}: {said}; tools/playground.sh builds a playground", found.display()))
    };
    let mut live = Live::read(&found).map_err(wrong)?;
    live.set(scene, loaded).map_err(|said| Error::Input(format!("--live: {said}")))?;
    Ok(live)
}

/// Returns the default folders of the playground: beside this program, where cargo puts both, and
/// in the current folder.
fn places() -> impl Iterator<Item = PathBuf> {
    let program = std::env::current_exe().ok();
    let built = program.and_then(|program| Some(program.parent()?.parent()?.join("playground")));
    built.into_iter().chain([PathBuf::from("target/playground")])
}
