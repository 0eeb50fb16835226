//! `mmcq replay`: replays a recorded load on a board.

use super::Error;
use super::page::Files;
use super::reporting::Reporting;
use super::traced::{self, Traced};
use clap::Args;
use mmcq_lab::recorded;
use mmcq_lab::scene::Scene;
use std::path::PathBuf;
use std::process::ExitCode;

/// Replay a recorded load on a simulated board, in virtual time
///
/// The program recognises the format of TRACE by how the file begins, or --format names it:
///
///   iolog     fio's I/O log, version 2 or 3 (fio --write_iolog)
///   blktrace  binary: `x` stands for x.blktrace.0, x.blktrace.1 ... (blktrace -d DEV -o x)
///   blkparse  text as blkparse prints it by default
///   ftrace    text of tracefs: block_bio_queue, block_rq_issue, block_rq_complete
///   perfetto  the same events in a trace of Perfetto
///   csv       any columns, named by --columns
///   msr, spc, mqsim, pixel   columns of the SNIA MSR, UMass SPC, MQSim and Pixel 6a traces
///
/// Reads, writes, forced unit access (FUA), flushes and discards go to the card as recorded. The
/// report is that of `mmcq run`. It also describes the trace, says how much later than in the
/// trace the requests started, and shows the latencies for each program if the trace names
/// programs.
///
///   mmcq replay phone.blkparse                          at the recorded times
///   mmcq replay x --mode think --setting none           processes wait for the card; Linux's stack
///   mmcq replay x --mode closed --depth 8               as fast as possible, eight at a time
///   gzip -dc app.csv.gz | mmcq replay - --remap modulo --gap-max 10ms
///   mmcq replay t.csv --columns time=ts,op=rw,sector=lba,bytes=len,unit=us
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Replay {
    /// Files of one trace, which are merged by time; - is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    traced: Traced,
    #[command(flatten)]
    scene: Scene,
    #[command(flatten)]
    reporting: Reporting,
}

impl Replay {
    pub fn run(self) -> Result<ExitCode, Error> {
        let (plan, format) = self.traced.plan(&self.traces)?;
        let name = traced::name(&self.traces);
        let again = |changes: &[String]| self.scene.load_workers(&plan.workers, changes);
        let loaded = again(&self.scene.set).map_err(Error::input)?;
        let replayed = plan.replayed(&name, format, &self.traced.wishes());
        let files = self.traces.iter().flat_map(|path| recorded::files(path));
        let inputs = files.fold(Files::default(), |inputs, file| inputs.reads("TRACE", &file));
        self.reporting.beside(inputs).run(&self.scene, loaded, None, again, replayed, &name)
    }
}
