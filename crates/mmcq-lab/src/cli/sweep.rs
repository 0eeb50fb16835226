//! `mmcq sweep`: runs a grid of points and writes a row for each.

use super::form::Form;
use super::page::{Files, Place, command_line};
use super::progress::{Progress, Unit};
use super::traced::Traced;
use super::{Error, print, voice};
use clap::Args;
use mmcq_lab::effects;
use mmcq_lab::fio::Note;
use mmcq_lab::image::Lock;
use mmcq_lab::recorded;
use mmcq_lab::scene::Scene;
#[cfg(feature = "parquet")]
use mmcq_lab::sweep::columns;
use mmcq_lab::sweep::heat::Cells;
use mmcq_lab::sweep::kept::{Kept, kept};
use mmcq_lab::sweep::listed;
use mmcq_lab::sweep::picture;
use mmcq_lab::sweep::{self, Axis, Format, Load, Row, Shard};
use mmcq_sim::parallel;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a job or a trace at every point of a grid, and write a row for each
///
/// An axis is a key and its values. Keys are those of `--set` (`mmcq params` lists them), and
/// platform, card, setting, seed. The points of the grid are all combinations of the axes; axes of
/// --zip change together. A row has the result of one run and direction: the axes, the rates, the
/// latencies from submission to completion, the costs of a request, the phases of `mmcq why`, and
/// the physical limit of the same job.
///
///   mmcq sweep my.fio --over setting=none,mmcq --over job.bs=4k,16k,64k --out grid.csv
///   mmcq sweep my.fio --over cost.wake_us=5,20,80 --over card=hbg4a2,pro-plus-128 --over seed=1..8
///   mmcq sweep my.fio --over job.bs=4k,1M --over job.iodepth=32,1 --zip job.bs,job.iodepth
///   mmcq sweep my.fio --over seed=1..1000 --shard 3/16 --out part3.jsonl --resume
///   mmcq sweep app.blkparse --mode think --over setting=none,mmcq --over card=hbg4a2,emmc-cache
///
/// The same grid gives the same bytes, however many threads run it. Shard I of N has the points
/// whose number modulo N is I-1; the files of all shards together are the whole grid. A point that
/// cannot run (such as a setting that the card does not support) has one row, with the reason in
/// the column error.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Sweep {
    /// fio job file (or fio's options after --), or a trace as for `mmcq replay`
    #[arg(value_name = "JOB.fio|TRACE", required_unless_present = "options")]
    job: Option<PathBuf>,
    /// Jobs as fio options, with one dash or two
    #[arg(last = true, value_name = "FIO OPTIONS")]
    options: Vec<String>,
    /// An axis: its key, and its values with commas (a value that contains a comma in quotes), or
    /// whole numbers such as 1..8. May be repeated; the last axis changes fastest
    #[arg(long, required = true, value_name = "KEY=VALUE,...")]
    over: Vec<String>,
    /// Axes of the same length that change together instead of being combined
    #[arg(long, value_name = "KEY,KEY,...")]
    zip: Vec<String>,
    /// File for the rows: .jsonl (one JSON object per line), .csv or .parquet. The rows of a
    /// .parquet are in a .jsonl beside it until the sweep ends [default: JSON objects on standard
    /// output]
    #[arg(long, value_name = "FILE", conflicts_with = "Form")]
    out: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
    /// Continues the file of an interrupted sweep. The result is the same as without the
    /// interruption
    #[arg(long, requires = "out")]
    resume: bool,
    /// Also draws an SVG picture: column X on the horizontal axis, column Y on the vertical axis,
    /// the mean of column Z as colour
    #[arg(long, value_names = ["FILE.svg", "X,Y,Z"], num_args = 2)]
    heat: Vec<String>,
    /// Also draws an SVG picture of the rates: as lines over the last axis of numbers other than
    /// the seed; without such an axis, as a bar for each point, beside the latency that 99 % of its
    /// requests do not exceed
    #[arg(long, value_name = "FILE.svg", conflicts_with = "resume")]
    plot: Option<PathBuf>,
    /// Also writes one HTML file: the fastest and the slowest point, all points, and the picture of
    /// --heat (without --heat, that of --plot)
    #[arg(long, value_name = "FILE.html", conflicts_with = "resume")]
    report: Option<PathBuf>,
    /// Runs only this part of the points, such as 3/16
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// Threads [default: this machine's cores]
    #[arg(long, value_name = "N", value_parser = super::threads)]
    jobs: Option<usize>,
    #[command(flatten)]
    scene: Scene,
    #[command(flatten, next_help_heading = "Options of a trace")]
    traced: Traced,
    /// Writes only rows about the requests of this program, which the trace names. The requests of
    /// all programs run
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
}

impl Sweep {
    pub fn run(self) -> Result<ExitCode, Error> {
        let format = self.format()?;
        let axes: Vec<Axis> =
            self.over.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(Error::Input)?;
        self.given_once(&axes)?;
        let (load, notes) = self.load()?;
        let plan = sweep::Sweep::new(self.scene.clone(), load, axes, &self.zip).map_err(Error::Input)?;
        notes.iter().chain(&plan.notes()).for_each(voice::note);
        let mut files = self.inputs(&plan);
        if let Some(out) = &self.out {
            files.writes("--out", out)?;
        }
        let mut heat = self.heat(&plan, &mut files)?;
        let place = self.report.as_deref().map(|path| files.place("--report", path)).transpose()?;
        let plot = self.plot.as_deref().map(|path| files.svg("--plot", path)).transpose()?;
        let mut reported = Vec::new();
        let points: Vec<usize> = self.shard.part(plan.grid().points()).collect();
        let Some(rows) = self.rows()? else { return Ok(ExitCode::SUCCESS) };
        let (mut out, kept, _lock) = self.open(&plan, rows.as_deref(), format, &points)?;
        if self.resume
            && let (Some((cells, _)), Some(path)) = (&mut heat, rows.as_deref())
        {
            let fault = |error: &dyn Display| Error::Input(format!("--out {}: {error}", path.display()));
            for line in BufReader::new(File::open(path).map_err(|error| fault(&error))?).lines() {
                let row = serde_json::from_str::<Map<String, Value>>(&line.map_err(|error| fault(&error))?);
                cells.add(&row.map_err(|error| fault(&error))?.into_iter().collect());
            }
        }
        let points = &points[kept.points..];
        let threads = self.jobs.unwrap_or_else(parallel::cores);
        let progress = Progress::new("points", points.len() as u64, Unit::Count);
        let mut well = true;
        let mut tried = Tried::of(points, &self.scene);
        plan.run(points, threads, |done| {
            well &= done.well;
            tried.add(&done.rows);
            let lines: String = done.rows.iter().map(|row| format.line(row)).collect();
            out.write(&lines)?;
            if let Some((cells, _)) = &mut heat {
                done.rows.iter().for_each(|row| cells.add(row));
            }
            if place.is_some() || plot.is_some() {
                reported.extend(done.rows);
            }
            progress.inc(1);
            Ok::<_, Error>(())
        })?;
        progress.end();
        tried.tell(&plan, &self.scene);
        #[cfg(feature = "parquet")]
        if let (Some(rows), Some(path)) = (&rows, &self.out)
            && rows != path
        {
            let lines = || Ok(BufReader::new(File::open(rows)?));
            Place::new("--out", path)?.fill(|file| columns::parquet(lines, file).map(|_| ()))?;
            let removed = std::fs::remove_file(rows);
            removed.map_err(|error| Error::Run(format!("{}: {error}", rows.display())))?;
        }
        let name = super::load_name(self.job.as_deref());
        let axes: Vec<String> = plan.grid().axes().iter().map(|axis| axis.key.clone()).collect();
        let rates = || picture::of(plan.grid().axes(), &reported, &name);
        if let Some(place) = plot {
            place.write(&rates().map_err(Error::Run)?)?;
        }
        let svg = heat.as_ref().map(|(cells, _)| cells.svg(&name, &axes)).transpose().map_err(Error::Run)?;
        if let Some(place) = place {
            let title = format!("{name}: {} points", points.len());
            // Without a picture that was asked for, the page has the rates, if they can be drawn.
            let rates = if svg.is_none() { rates().ok() } else { None };
            let drawn = match (&svg, &rates) {
                (Some(svg), _) => Some((svg.as_str(), HEAT)),
                (None, rates) => rates.as_deref().map(|rates| (rates, RATES)),
            };
            place.write(&listed::page(&title, &axes, &reported, drawn, &command_line()))?;
        }
        if let (Some((_, place)), Some(svg)) = (heat, svg) {
            place.write(&svg)?;
        }
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    /// Refuses an option, such as `--card`, if an axis already gives its values.
    fn given_once(&self, axes: &[Axis]) -> Result<(), Error> {
        let (scene, own) = (&self.scene, Scene::default());
        let given = [
            ("platform", scene.platform != own.platform),
            ("card", scene.card.is_some()),
            ("setting", scene.setting != own.setting),
            ("seed", scene.seed != own.seed),
        ];
        let twice = given.iter().find(|(name, given)| *given && axes.iter().any(|axis| axis.key == *name));
        match twice {
            Some((name, _)) => {
                Err(Error::Input(format!("--{name}: --over {name} gives it; expected one of them")))
            }
            None => Ok(()),
        }
    }

    /// Returns the files that the sweep reads: the load, and boards and cards.
    fn inputs(&self, plan: &sweep::Sweep) -> Files {
        let loads = self.job.iter().flat_map(|job| recorded::files(job));
        let files = loads.fold(Files::default(), |files, file| files.reads("JOB.fio|TRACE", &file));
        let named =
            plan.grid().axes().iter().filter(|axis| ["platform", "card"].contains(&axis.key.as_str()));
        let named = named.flat_map(|axis| &axis.values).filter(|name| name.ends_with(".toml"));
        named.fold(files.reads_scene(&self.scene), |files, name| files.reads("--over", Path::new(name)))
    }

    /// Returns the load that runs at each point, and the notes about it.
    fn load(&self) -> Result<(Load, Vec<Note>), Error> {
        match &self.job {
            Some(path) if self.traced.is_trace(path) => {
                let (plan, _) = self.traced.plan(std::slice::from_ref(path))?;
                let load = Load::trace(plan.workers);
                let load = match &self.program {
                    None => Ok(load),
                    Some(name) => load.of_program(name, &plan.programs),
                };
                let fault = |why: String| {
                    let name = self.program.as_deref().unwrap_or_default();
                    Error::Input(format!("--program {name}: {why}"))
                };
                Ok((load.map_err(fault)?, Vec::new()))
            }
            job => {
                let program = self.program.as_ref().map(|_| "--program");
                if let Some(option) = self.traced.given().or(program) {
                    let name = super::load_name(job.as_deref());
                    return Err(Error::Input(format!("{option}: {name} is no trace; expected one")));
                }
                let file = super::jobs(job.as_deref(), &self.options)?;
                let notes = file.notes.clone();
                Ok((file.into(), notes))
            }
        }
    }

    /// Returns the picture that `--heat` asks for, and its output file; `None`: no picture is
    /// wanted.
    fn heat(&self, plan: &sweep::Sweep, files: &mut Files) -> Result<Option<(Cells, Place)>, Error> {
        let [file, columns] = &self.heat[..] else { return Ok(None) };
        let heat = columns.parse().map_err(|why| Error::Input(format!("--heat {columns}: {why}")))?;
        let cells = Cells::new(heat, &plan.names()).map_err(Error::Input)?;
        if self.resume && self.format()? == Format::Csv {
            return Err(Error::input("--heat: with --resume, expected rows in .jsonl or .parquet"));
        }
        Ok(Some((cells, files.svg("--heat", Path::new(file))?)))
    }

    /// Returns the path of the file to which rows are written during the sweep; `Some(None)`:
    /// standard output. `None`: the output file is already complete.
    fn rows(&self) -> Result<Option<Option<PathBuf>>, Error> {
        let Some(path) = &self.out else { return Ok(Some(None)) };
        if path.extension().is_none_or(|end| end != PARQUET) {
            return Ok(Some(Some(path.clone())));
        }
        let mut rows = path.clone().into_os_string();
        rows.push(".jsonl");
        let rows = PathBuf::from(rows);
        match (path.exists(), self.resume) {
            (true, false) => {
                let why = "it has rows already; expected another name";
                Err(Error::Input(format!("--out {}: {why}", path.display())))
            }
            (true, true) if !rows.exists() => {
                voice::note(format_args!("--out {}: it is whole already", path.display()));
                Ok(None)
            }
            _ => Ok(Some(Some(rows))),
        }
    }

    fn format(&self) -> Result<Format, Error> {
        let Some(path) = &self.out else { return Ok(self.form.of_rows()) };
        match path.extension().and_then(|end| end.to_str()) {
            Some(PARQUET) if cfg!(not(feature = "parquet")) => {
                Err(Error::Input(super::left_out(&format!("--out {}", path.display()), "parquet")))
            }
            Some("jsonl" | PARQUET) => Ok(Format::Json),
            Some("csv") => Ok(Format::Csv),
            _ => Err(Error::Input(format!(
                "--out {}: expected a name in .jsonl, .csv or .parquet",
                path.display()
            ))),
        }
    }

    /// Opens the file of rows. Returns the file, and the rows that it already has. The file is not
    /// changed before all its rows are known to belong to this grid.
    fn open(
        &self,
        plan: &sweep::Sweep,
        path: Option<&Path>,
        format: Format,
        points: &[usize],
    ) -> Result<(Out, Kept, Option<Lock>), Error> {
        let Some(path) = path else {
            Out::Standard.write(&format.head(&plan.names()))?;
            return Ok((Out::Standard, Kept::default(), None));
        };
        let fault = |what: &dyn std::fmt::Display| Error::Input(format!("--out {}: {what}", path.display()));
        super::writable("--out", path)?;
        let lock = Lock::take(path, true).map_err(|_| fault(&"another program writes to this file"))?;
        let mut file = File::options().read(true).write(true).open(path).map_err(|e| fault(&e))?;
        let size = file.metadata().map_err(|e| fault(&e))?.len();
        if size > 0 && !self.resume {
            return Err(fault(&"it has rows already; expected --resume, or another name"));
        }
        let head = format.head(&plan.names());
        let begin = |at: usize| {
            let row = plan.begin(*points.get(at)?).ok()?;
            Some(format.begin(&row))
        };
        let kept = kept(BufReader::new(&file), &head, begin).map_err(|e| fault(&e))?.map_err(|line| {
            fault(&format_args!("line {line}: not of this grid; expected the same job, axes and shard"))
        })?;
        file.set_len(kept.bytes).map_err(|e| fault(&e))?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(|e| fault(&e))?;
        let mut out = Out::File(file, path.to_owned());
        if kept.bytes == 0 {
            out.write(&head)?;
        }
        Ok((out, kept, Some(lock)))
    }
}

/// Largest number of points of a sweep (combinations of values) that also run without the user's
/// changes, to find whether the changes have an effect.
const TRIED_MAX: usize = 8;

/// Points of the sweep's grid that also run without the user's changes, to find changes without an
/// effect; they are spread over the grid.
struct Tried {
    /// Points that are checked, as pairs: position among the points that this sweep runs, and
    /// number of the point in the whole grid.
    wanted: Vec<(usize, usize)>,
    all: usize,
    seen: usize,
    told: Vec<(usize, Vec<Row>)>,
}

impl Tried {
    fn of(points: &[usize], scene: &Scene) -> Self {
        let count = if scene.set.is_empty() { 0 } else { points.len().min(TRIED_MAX) };
        let at = |n: usize| n * points.len() / count;
        let wanted = (0..count).map(|n| (at(n), points[at(n)])).collect();
        Tried { wanted, all: points.len(), seen: 0, told: Vec::new() }
    }

    fn add(&mut self, rows: &[Row]) {
        if let Some((_, point)) = self.wanted.iter().find(|(at, _)| *at == self.seen) {
            self.told.push((*point, rows.to_vec()));
        }
        self.seen += 1;
    }

    fn tell(&self, plan: &sweep::Sweep, scene: &Scene) {
        let place = match self.told.len() {
            tried if tried == self.all => "at any point".to_owned(),
            tried => format!("at {tried} of {} points", self.all),
        };
        for index in plan.idle(&self.told) {
            voice::note(effects::line(scene, index, &place));
        }
    }
}

/// Sentences about the pictures of a page.
const HEAT: &str = "Each cell has the mean of its rows, in colour and as a number.";
const RATES: &str = "Rates of the runs, both directions together: the mean over the seeds. The limit, and the 99 % of a bar, \
                     are the largest of all seeds.";

/// Extension of files whose format is Parquet.
const PARQUET: &str = "parquet";

/// Output file or stream for the rows of the sweep.
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
