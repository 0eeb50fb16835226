//! `mmcq sweep`: a grid of runs, a row each.

use super::progress::{Progress, Unit};
use super::scene::Scene;
use super::{Error, print};
use clap::Args;
use mmcq_lab::board;
use mmcq_lab::fio::JobFile;
use mmcq_lab::image::Lock;
use mmcq_lab::runner::{self, RunError, Setting};
use mmcq_lab::sweep::kept::{Kept, kept};
use mmcq_lab::sweep::row::{self, Format, Row};
use mmcq_lab::sweep::{self, Axis, Grid, Shard};
use mmcq_lab::why;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

/// Run a job at every point of a grid, and write down a row for each
///
/// An axis is a key and its values: what `--set` takes (`mmcq params` lists it), or platform, card,
/// setting, seed. Axes are crossed; --zip makes some go together. A row is one run and direction,
/// with the axes, the rates, the times from submission to completion, what a request costs, the
/// phases of `mmcq why`, and the physical limit of the same job.
///
///   mmcq sweep my.fio --over setting=none,mmcq --over job.bs=4k,16k,64k --out grid.csv
///   mmcq sweep my.fio --over cost.wake_us=5,20,80 --over card=hbg4a2,pro-plus-128 --over seed=1..8
///   mmcq sweep my.fio --over job.bs=4k,1M --over job.iodepth=32,1 --zip job.bs,job.iodepth
///   mmcq sweep my.fio --over seed=1..1000 --shard 3/16 --out part3.jsonl --resume
///
/// The same grid gives the same bytes, however many threads run it. Shards have the points whose
/// number modulo N is I-1; their files together are the whole grid. A point that cannot be run (a
/// setting that the card cannot, say) is one row with the reason in column error.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Sweep {
    /// fio job file (or fio's options after --)
    #[arg(value_name = "JOB.fio", required_unless_present = "options")]
    job: Option<PathBuf>,
    /// Jobs as fio options, with one dash or two
    #[arg(last = true, value_name = "FIO OPTIONS")]
    options: Vec<String>,
    /// An axis: values with commas (in quotes where a value has one), whole numbers as 1..8. May be
    /// repeated; the last one is the fastest
    #[arg(long, required = true, value_name = "KEY=VALUE,...")]
    over: Vec<String>,
    /// Axes of the same length that go together instead of being crossed
    #[arg(long, value_name = "KEY,KEY,...")]
    zip: Vec<String>,
    /// Rows to this file: .jsonl (an object a line) or .csv [default: objects to standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Go on with a file that was broken off: it becomes what it would have been
    #[arg(long, requires = "out")]
    resume: bool,
    /// Only this part of the points: 3/16
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// Threads [default: this machine's cores]
    #[arg(long, value_name = "N", value_parser = super::threads)]
    jobs: Option<usize>,
    #[command(flatten)]
    scene: Scene,
}

/// What all threads read.
struct Work<'a> {
    sweep: &'a Sweep,
    file: JobFile,
    grid: Grid,
    job_hash: u64,
    format: Format,
    /// The physical limit does not depend on the setting and on what software costs.
    limits: Mutex<HashMap<u64, Arc<OnceLock<Option<f64>>>>>,
}

impl Sweep {
    pub fn run(self) -> Result<ExitCode, Error> {
        let format = self.format()?;
        let axes: Vec<Axis> =
            self.over.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(Error::Input)?;
        let grid = Grid::new(axes, &self.zip).map_err(Error::Input)?;
        let file = super::jobs(self.job.as_deref(), &self.options)?;
        let jobs: Vec<_> = file.jobs.iter().map(|job| (&job.name, &job.given)).collect();
        let job_hash = sweep::hash(&[&format!("{:?} {jobs:?}", file.global_options)]);
        let work = Work { sweep: &self, file, grid, job_hash, format, limits: Mutex::default() };
        for point in (0..work.grid.points()).filter(|point| work.grid.is_telling(*point)) {
            work.check(point)?;
        }
        for note in &work.file.notes {
            eprintln!("mmcq: {note}");
        }
        let points: Vec<usize> = self.shard.part(work.grid.points()).collect();
        let (out, kept, _lock) = self.open(&work, &points)?;
        work.run(&points[kept.points..], out)
    }

    fn format(&self) -> Result<Format, Error> {
        let Some(path) = &self.out else { return Ok(Format::Json) };
        match path.extension().and_then(|end| end.to_str()) {
            Some("jsonl") => Ok(Format::Json),
            Some("csv") => Ok(Format::Csv),
            _ => Err(Error::Input(format!("--out {}: expected a name in .jsonl or .csv", path.display()))),
        }
    }

    /// The file of rows, and what it has already. It is not changed before all that is in it is
    /// known to be of this grid.
    fn open(&self, work: &Work<'_>, points: &[usize]) -> Result<(Out, Kept, Option<Lock>), Error> {
        let Some(path) = &self.out else { return Ok((Out::Standard, Kept::default(), None)) };
        let fault = |what: &dyn std::fmt::Display| Error::Input(format!("--out {}: {what}", path.display()));
        super::writable("--out", path)?;
        let lock = Lock::take(path, true).map_err(|_| fault(&"another program writes to this file"))?;
        let mut file = File::options().read(true).write(true).open(path).map_err(|e| fault(&e))?;
        let size = file.metadata().map_err(|e| fault(&e))?.len();
        if size > 0 && !self.resume {
            return Err(fault(&"it has rows already; expected --resume, or another name"));
        }
        let head = work.format.head(&work.names());
        let begin = |at: usize| {
            let row = work.begin(*points.get(at)?).ok()?;
            Some(work.format.begin(&row))
        };
        let kept = kept(BufReader::new(&file), &head, begin).map_err(|e| fault(&e))?.map_err(|line| {
            fault(&format_args!("line {line}: not of this grid; expected the same job, axes and shard"))
        })?;
        file.set_len(kept.bytes).map_err(|e| fault(&e))?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(|e| fault(&e))?;
        let mut out = Out::File(file, path.clone());
        if kept.bytes == 0 {
            out.write(&head)?;
        }
        Ok((out, kept, Some(lock)))
    }
}

/// Where rows go.
enum Out {
    Standard,
    File(File, PathBuf),
}

impl Out {
    fn write(&mut self, text: &str) -> Result<(), Error> {
        match self {
            Out::Standard => print(text),
            Out::File(file, path) => file
                .write_all(text.as_bytes())
                .map_err(|error| Error::Run(format!("--out {}: {error}", Path::display(path)))),
        }
    }
}

/// A point's rows.
struct Done {
    lines: String,
    /// Nothing failed.
    well: bool,
}

impl Work<'_> {
    /// The scene of a point.
    fn scene(&self, point: usize) -> Result<Scene, Error> {
        let mut scene = self.sweep.scene.clone();
        for (key, value) in self.grid.point(point) {
            let fault = |why: String| Error::Input(format!("--over {key}={value}: {why}"));
            match key {
                "platform" => value.clone_into(&mut scene.platform),
                "card" => scene.card = Some(value.to_owned()),
                "setting" => scene.setting = value.parse().map_err(fault)?,
                "seed" => scene.seed = super::whole(value).map_err(fault)?,
                key => scene.set.push(format!("{key}={value}")),
            }
        }
        Ok(scene)
    }

    /// Whether a point can be loaded: job, board and card.
    fn check(&self, point: usize) -> Result<(), Error> {
        let scene = self.scene(point)?;
        let loaded = scene.load(&self.file, &scene.set).and_then(|loaded| {
            let card = scene.card_of(&loaded.platform);
            board::card_table(card, &loaded.platform.card_changes).map_err(Error::input)
        });
        loaded.map(|_| ()).map_err(|error| {
            let mut text = error.to_string();
            for (key, value) in self.grid.point(point) {
                text = text.replace(&format!("--set {key}={value}"), &format!("--over {key}={value}"));
            }
            Error::Input(text)
        })
    }

    /// Which run a row is of.
    fn begin(&self, point: usize) -> Result<Row, Error> {
        let scene = self.scene(point)?;
        let (platform, card) = (scene.platform.as_str(), scene.card.as_deref());
        let text = sweep::configuration(platform, card, &scene.set, true).map_err(Error::input)?;
        let version = env!("CARGO_PKG_VERSION");
        let (job, seed) = (format!("{:016x}", self.job_hash), scene.seed.to_string());
        let hash = sweep::hash(&[&text, platform, scene.setting.name(), &seed, &job, version]);
        let mut row: Row = vec![("point".to_owned(), point.into())];
        row.extend(self.grid.point(point).into_iter().map(|(key, text)| (key.to_owned(), row::value(text))));
        let card = match card {
            Some(card) => card.to_owned(),
            None => scene.load(&self.file, &scene.set)?.platform.card,
        };
        let rest: [(&str, Value); 8] = [
            ("platform", platform.into()),
            ("card", card.into()),
            ("setting", scene.setting.name().into()),
            ("seed", scene.seed.into()),
            ("set", self.sweep.scene.set.join(" ").into()),
            ("version", version.into()),
            ("job_hash", job.into()),
            ("config_hash", format!("{hash:016x}").into()),
        ];
        for (name, value) in rest {
            if !row.iter().any(|(known, _)| known == name) {
                row.push((name.to_owned(), value));
            }
        }
        Ok(row)
    }

    /// The names of all columns.
    fn names(&self) -> Vec<String> {
        let begin = self.begin(0).unwrap_or_default();
        begin.into_iter().map(|(name, _)| name).chain(row::measures()).collect()
    }

    /// Runs a point.
    fn done(&self, point: usize) -> Result<Done, Error> {
        let (rows, well) = match self.rows(point) {
            Ok(rows) => {
                let failed = |row: &Row| row.iter().any(|(name, value)| name == "failed" && *value != 0);
                let well = !rows.iter().any(failed);
                (rows, well)
            }
            Err(error) => (row::refused(&error.to_string()), false),
        };
        let begin = self.begin(point)?;
        let whole = |row: Row| self.format.line(&begin.iter().cloned().chain(row).collect());
        Ok(Done { lines: rows.into_iter().map(whole).collect(), well })
    }

    fn rows(&self, point: usize) -> Result<Vec<Row>, Error> {
        let scene = self.scene(point)?;
        let loaded = scene.load(&self.file, &scene.set)?;
        let run = scene.run_of(&loaded);
        let of = |run: &runner::Run<'_>| -> Result<_, RunError> { runner::run(run, None, &mut |_, _| ()) };
        let outcome = of(&run).map_err(Error::input)?;
        let text = sweep::configuration(&scene.platform, scene.card.as_deref(), &scene.set, false);
        let key = sweep::hash(&[&text.map_err(Error::input)?, &scene.seed.to_string()]);
        let limit =
            self.limits.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let limit = *limit.get_or_init(|| {
            let outcome = of(&runner::Run { setting: Setting::Limit, ..run }).ok()?;
            Some(why::mib_per_s(&outcome.counters))
        });
        Ok(row::measured(&outcome, limit))
    }

    /// Runs these points on all threads; rows are written in the order of the grid.
    fn run(&self, points: &[usize], mut out: Out) -> Result<ExitCode, Error> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.sweep.jobs.unwrap_or(cores).min(points.len());
        let progress = Progress::new("points", points.len() as u64, Unit::Count);
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        let well = std::thread::scope(|scope| {
            for _ in 0..threads {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let at = next.fetch_add(1, Ordering::Relaxed)
                        && let Some(point) = points.get(at)
                        && sender.send((at, self.done(*point))).is_ok()
                    {}
                });
            }
            drop(sender);
            let (mut early, mut due, mut well) = (BTreeMap::new(), 0, true);
            while let Ok((at, done)) = receiver.recv() {
                early.insert(at, done);
                while let Some(done) = early.remove(&due) {
                    let written = done.and_then(|done| {
                        well &= done.well;
                        out.write(&done.lines)
                    });
                    if let Err(error) = written {
                        next.store(points.len(), Ordering::Relaxed);
                        return Err(error);
                    }
                    due += 1;
                    progress.inc(1);
                }
            }
            Ok(well)
        })?;
        progress.end();
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}
