//! Budgets: loads on boards, with limits for their figures. Runs are deterministic, so a figure
//! changes only if code or files change.

use crate::effects;
use crate::fio::{self, JobFile};
use crate::runner::{self, RunError, Setting};
use crate::scene::{Loaded, PLATFORM, Scene};
use crate::sweep::row;
use crate::table::Table;
use mmcq_sim::document;
use mmcq_sim::parallel;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    run: Vec<Spanned<Entry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    job: Option<Spanned<String>>,
    /// Options of fio in place of a job file.
    options: Option<Spanned<Vec<String>>>,
    platform: Option<String>,
    card: Option<String>,
    setting: Option<Spanned<String>>,
    #[serde(default)]
    set: Vec<String>,
    seed: Option<u64>,
    #[serde(default)]
    least: BTreeMap<String, Spanned<f64>>,
    #[serde(default)]
    most: BTreeMap<String, Spanned<f64>>,
}

/// Whether a budget is a lower or an upper limit for its figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The figure must not be below the budget's limit.
    Least,
    /// The figure must not be above the budget's limit.
    Most,
}

/// Limit for one measured figure of a load, as a line in the file of budgets has it.
#[derive(Clone, Debug, PartialEq)]
struct Budget {
    /// Name of the figure: `run_mib_s`, or with a direction: `read_lat_p99_us`.
    figure: String,
    side: Side,
    bound: f64,
    /// Number of the line with this budget in the file of budgets.
    line: usize,
}

/// A load to run on a board, and the budgets for its figures.
#[derive(Debug)]
pub struct Load {
    name: String,
    /// Number of the line in the file at which the load begins.
    line: usize,
    scene: Scene,
    file: JobFile,
    loaded: Loaded,
    budgets: Vec<Budget>,
}

/// Result for one budget: its limit, and the value that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Name of the load that was run. For a comparison with a saved report (baseline): whether the
    /// figure is of the whole run, or which job and direction it is of.
    pub run: String,
    /// Name of the figure that the budget limits, such as `read_lat_p99_us`.
    pub figure: String,
    /// Whether the budget is a lower or an upper limit.
    pub side: Side,
    /// Limit for the figure, in the unit of the figure.
    pub budget: f64,
    /// Value of the figure that the run measured.
    pub measured: f64,
    /// Distance of the measured value from the limit, in percent of the limit; below 0: the value
    /// is beyond the limit. `None`: the limit is 0.
    pub room_percent: Option<f64>,
    /// Whether the measured value is within the limit. For a baseline: within the limit and the
    /// tolerance that the user allows.
    pub kept: bool,
}

/// Reason why a load could not be compared, in one line.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The load did not run.
    #[error("{place}: {error}")]
    Run {
        /// File of budgets, line and name of the load.
        place: String,
        /// Reason why the simulation of the load failed.
        error: Box<RunError>,
    },
    /// The load transferred nothing in the direction of a figure.
    #[error("{place}: {figure}: the run has nothing of it")]
    Nothing {
        /// File of budgets, line and name of the load.
        place: String,
        /// Name of the figure that the load did not give, such as `read_lat_p99_us`.
        figure: String,
    },
}

/// Reads a file of budgets. A job is a file; a board or a card is a built-in name or a file
/// (`.toml`). Paths count from the folder of the file of budgets.
///
/// # Errors
/// The file is wrong; the error is one line with the line's number and what was expected.
pub fn read(path: &Path) -> Result<Vec<Load>, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let line_of = |at: usize| 1 + text.get(..at).unwrap_or_default().matches('\n').count();
    let file: File =
        document::read(&text).map_err(|error| format!("{name}:{}: {error}", error.line(&text)))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let file_beside = |given: &str| match given.ends_with(".toml") {
        true => beside.join(given).display().to_string(),
        false => given.to_owned(),
    };
    // The change `card=FILE` names a card, as the key of the board does.
    let change_beside = |change: String| match change.strip_prefix(CARD_IS) {
        Some(card) => format!("{CARD_IS}{}", file_beside(card)),
        None => change,
    };
    if file.run.is_empty() {
        return Err(format!("{name}: no [[run]]; expected at least one"));
    }
    let mut loads = Vec::new();
    for entry in file.run {
        let (own, entry) = (entry.span(), entry.into_inner());
        let start = entry.job.as_ref().map(Spanned::span).or(entry.options.as_ref().map(Spanned::span));
        let line = line_of(start.unwrap_or(own).start);
        let (job, parsed) = match (entry.job, entry.options) {
            (Some(job), None) => {
                let job = job.into_inner();
                let parsed = fio::parse_file(&beside.join(&job), &fio::System);
                (job, parsed.map_err(|error| format!("{name}:{line}: job: {error}"))?)
            }
            (None, Some(options)) => {
                let options = options.into_inner();
                let wrong = |error: String| format!("{name}:{line}: options: {error}");
                let parsed =
                    fio::parse_command_line(&options, &Beside { folder: beside, read: Default::default() });
                let parsed = parsed.map_err(|error| error.to_string()).and_then(JobFile::without_output);
                (options.join(" "), parsed.map_err(wrong)?)
            }
            _ => return Err(format!("{name}:{line}: [[run]]: expected either job or options")),
        };
        let setting: Setting = match &entry.setting {
            None => Setting::Mmcq,
            Some(text) => text
                .get_ref()
                .parse()
                .map_err(|why| format!("{name}:{}: setting: {why}", line_of(text.span().start)))?,
        };
        let scene = Scene {
            platform: file_beside(entry.platform.as_deref().unwrap_or(PLATFORM)),
            card: entry.card.as_deref().map(file_beside),
            setting,
            set: entry.set.into_iter().map(change_beside).collect(),
            seed: entry.seed.unwrap_or(1),
        };
        let loaded = scene.load(&parsed, &scene.set).map_err(|error| format!("{name}:{line}: {error}"))?;
        let mut budgets = Vec::new();
        for (side, bounds) in [(Side::Least, &entry.least), (Side::Most, &entry.most)] {
            for (figure, bound) in bounds {
                let line = line_of(bound.span().start);
                known(figure).map_err(|what| format!("{name}:{line}: {what}"))?;
                budgets.push(Budget { figure: figure.clone(), side, bound: *bound.get_ref(), line });
            }
        }
        if budgets.is_empty() {
            return Err(format!("{name}:{line}: no budget; expected [run.least] or [run.most] with figures"));
        }
        let name = entry.name.unwrap_or(job);
        loads.push(Load { name, line, scene, file: parsed, loaded, budgets });
    }
    Ok(loads)
}

/// Beginning of a change that puts another card into the board's slot.
const CARD_IS: &str = "card=";

/// Gives fio's parser the job files that a file of budgets names. Their paths count from `folder`.
/// Records the paths of all files that were read.
struct Beside<'a> {
    folder: &'a Path,
    read: RefCell<Vec<PathBuf>>,
}

impl fio::Sources for Beside<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        fio::System.variable(name)
    }

    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        self.read.borrow_mut().push(path.to_owned());
        fio::System.file(&self.folder.join(path))
    }
}

/// Name of the figure that counts failed requests. It must be 0 unless the file has another budget
/// for it.
const FAILED: &str = "failed";

const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// Returns the names of the figures that a budget can limit.
pub fn figures() -> Vec<String> {
    let (of_direction, of_run) = row::figures();
    let of_direction = of_direction.iter().flat_map(|name| DIRECTIONS.map(|of| format!("{of}_{name}")));
    of_run.into_iter().chain(of_direction).collect()
}

fn known(figure: &str) -> Result<(), String> {
    let all = figures();
    if all.iter().any(|name| name == figure) {
        return Ok(());
    }
    let nearest = all.iter().max_by(|a, b| strsim::jaro(a, figure).total_cmp(&strsim::jaro(b, figure)));
    let nearest = nearest.map_or("", |name| name.as_str());
    Err(format!("{figure}: no such figure; the nearest is {nearest}; `mmcq check --figures` lists all"))
}

/// Result of a check of all budgets in a file.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// All budgets with their measured values.
    pub kept: Vec<Kept>,
    /// Lines about options of the jobs and changes (`--set`) that had no effect on the load for
    /// which they were given.
    pub idle: Vec<String>,
}

/// Runs all loads on `threads` threads, and compares their figures with the budgets. Calls `done`
/// after each load.
///
/// # Errors
/// A load does not run; the error names it and says why.
pub fn check(
    path: &Path,
    loads: &[Load],
    threads: usize,
    done: &(dyn Fn() + Sync),
) -> Result<Checked, CheckError> {
    let mut all = Checked::default();
    parallel::in_order(
        loads.len(),
        threads,
        |at| {
            let kept = loads[at].check(path);
            done();
            kept
        },
        |kept| {
            let checked: Checked = kept?;
            all.kept.extend(checked.kept);
            all.idle.extend(checked.idle);
            Ok(())
        },
    )?;
    Ok(all)
}

impl Load {
    fn check(&self, path: &Path) -> Result<Checked, CheckError> {
        let place = |line: usize| format!("{}:{line}: {}", path.display(), self.name);
        let run = self.scene.run_of(&self.loaded);
        let go = |run: &runner::Run<'_>| {
            let outcome = runner::run(run, None, &mut |_, _| ());
            outcome.map_err(|error| CheckError::Run { place: place(self.line), error: Box::new(error) })
        };
        let outcome = go(&run)?;
        let limit = match self.budgets.iter().any(|budget| budget.figure.starts_with("limit")) {
            true => Some(go(&runner::Run { setting: Setting::Limit, ..run })?.counters),
            false => None,
        };
        let rows = row::measured(&outcome, limit.as_ref());
        let of = |direction: Option<&str>, name: &str| {
            let is_it = |row: &&row::Row| {
                direction.is_none_or(|wanted| {
                    row.iter().any(|(name, value)| name == "direction" && *value == wanted)
                })
            };
            let row = rows.iter().find(is_it)?;
            row.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.as_f64())
        };
        let kept = self.budgets.iter().map(|budget| {
            let measured = match budget.figure.split_once('_').filter(|(of, _)| DIRECTIONS.contains(of)) {
                Some((direction, name)) => of(Some(direction), name),
                None => of(None, &budget.figure),
            };
            let missing = || CheckError::Nothing { place: place(budget.line), figure: budget.figure.clone() };
            Ok(self.kept(budget, measured.ok_or_else(missing)?))
        });
        let mut kept: Vec<Kept> = kept.collect::<Result<_, _>>()?;
        // A load whose jobs fail never passes, even if the file has no budget for failures.
        let failed = outcome.counters.failed.max(outcome.stats.iter().map(|stats| stats.total_errors).sum());
        if failed > 0 && !self.budgets.iter().any(|budget| budget.figure == FAILED) {
            let (figure, side, bound, line) = (FAILED.to_owned(), Side::Most, 0.0, self.line);
            kept.push(self.kept(&Budget { figure, side, bound, line }, failed as f64));
        }
        let again = |changes: &[String]| self.scene.load(&self.file, changes);
        let idle = effects::idle(&self.scene, again, &outcome).into_iter();
        let notes = self.loaded.notes().into_iter().map(|note| note.to_string());
        let idle = notes.chain(idle).map(|line| format!("{}: {line}", place(self.line)));
        Ok(Checked { kept, idle: idle.collect() })
    }

    fn kept(&self, budget: &Budget, measured: f64) -> Kept {
        let Budget { side, bound, .. } = *budget;
        let more = match side {
            Side::Least => measured - bound,
            Side::Most => bound - measured,
        };
        Kept {
            run: self.name.clone(),
            figure: budget.figure.clone(),
            side,
            budget: bound,
            measured,
            room_percent: (bound != 0.0).then(|| 100.0 * more / bound.abs()),
            kept: more >= 0.0,
        }
    }
}

/// Returns the path by which the file `file` must name `path`: paths in `file` count from its
/// folder. An absolute path is returned unchanged.
fn from_folder_of(file: &Path, path: &Path) -> PathBuf {
    let folder = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).canonicalize().ok()
    };
    let found = folder(file).zip(folder(path)).zip(path.file_name());
    let Some(((from, to), name)) = found.filter(|_| path.is_relative()) else { return path.to_owned() };
    let same = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(same).map(|_| Component::ParentDir);
    up.chain(to.components().skip(same)).chain([Component::Normal(name)]).collect()
}

/// Returns a text for the file of budgets `file`, with budgets for the figures of one load. The
/// load is the job file `job` or, without one, the options of fio in `options`; it runs now in
/// `scene`. Each limit is `room_percent` away from the present figure.
///
/// # Errors
/// The job does not run; the error is one line.
pub fn skeleton(
    file: &Path,
    job: Option<&Path>,
    options: &[String],
    room_percent: f64,
    scene: &Scene,
) -> Result<String, String> {
    let (least, most) = (1.0 - room_percent / 100.0, 1.0 + room_percent / 100.0);
    let name = job.map_or_else(|| "jobs by options".to_owned(), |job| job.display().to_string());
    let sources = Beside { folder: Path::new(""), read: RefCell::default() };
    let parsed = match job {
        Some(job) => fio::parse_file(job, &sources),
        None => fio::parse_command_line(options, &sources),
    };
    let parsed = parsed.map_err(|error| error.to_string())?.without_output()?;
    let loaded = scene.load(&parsed, &scene.set).map_err(|error| error.to_string())?;
    let outcome = runner::run(&scene.run_of(&loaded), None, &mut |_, _| ());
    let outcome = outcome.map_err(|error| format!("{name}: {error}"))?;
    if let Some(why) = why_failed(&outcome) {
        return Err(format!("{name}: {why}; expected jobs that do not fail"));
    }
    let rows = row::measured(&outcome, None);
    let shown = |path: &Path| from_folder_of(file, path).display().to_string();
    let board_or_card = |name: &str| match name.ends_with(".toml") {
        true => shown(Path::new(name)),
        false => name.to_owned(),
    };
    let quoted = |text: String| toml::Value::String(text).to_string();
    let load = match job {
        Some(job) => format!("job = {}", quoted(shown(job))),
        None => {
            let read = sources.read.borrow();
            let word = |word: &String| match read.iter().any(|path| path.as_os_str() == word.as_str()) {
                true => shown(Path::new(word)),
                false => word.clone(),
            };
            let words: Vec<String> = options.iter().map(word).map(quoted).collect();
            format!("options = [{}]", words.join(", "))
        }
    };
    let mut text = format!(
        "# Budgets, for `mmcq check`: what the load has now, with {room_percent} % of room. `mmcq check --figures`\n\
         # lists what a budget can name.\n[[run]]\n{load}\nplatform = {}\n",
        quoted(board_or_card(&scene.platform))
    );
    text += &match &scene.card {
        Some(card) => format!("card = {}\n", quoted(board_or_card(card))),
        None => "# card = \"\"\n".to_owned(),
    };
    let own = Scene::default();
    let mut line = |given: bool, key: &str, value: String| {
        text += &format!("{}{key} = {value}\n", if given { "" } else { "# " });
    };
    line(scene.setting != own.setting, "setting", quoted(scene.setting.name().to_owned()));
    line(scene.seed != own.seed, "seed", scene.seed.to_string());
    let change = |change: &String| match change.strip_prefix(CARD_IS) {
        Some(card) => format!("{CARD_IS}{}", board_or_card(card)),
        None => change.clone(),
    };
    let set: Vec<String> = scene.set.iter().map(change).map(quoted).collect();
    match set.is_empty() {
        true => line(false, "set", "[\"cost.wake_us=40\"]".to_owned()),
        false => line(true, "set", format!("[{}]", set.join(", "))),
    }
    // A figure that the run does not have, such as a rate without data, gets no budget.
    let budget = |row: &row::Row, (of, name): (&str, &str), room: f64| {
        let found = row.iter().find(|(known, _)| known == name);
        let value = found.and_then(|(_, value)| value.as_f64());
        value.map_or(String::new(), |value| format!("{of}{name} = {}\n", number(room * value)))
    };
    let first = rows.first().cloned().unwrap_or_default();
    text +=
        &format!("\n[run.least]\n{}\n[run.most]\n{FAILED} = 0\n", budget(&first, ("", "run_mib_s"), least));
    for name in ["interrupts_per_io", "context_switches_per_io"] {
        text += &budget(&first, ("", name), most);
    }
    for row in &rows {
        let direction = row.iter().find(|(name, _)| name == "direction").and_then(|(_, of)| of.as_str());
        let Some(direction) = direction.filter(|of| DIRECTIONS.contains(of)) else { continue };
        for name in ["lat_mean_us", "lat_p99_us"] {
            text += &budget(row, (&format!("{direction}_"), name), most);
        }
    }
    Ok(text)
}

/// Returns what failed in a run; `None`: nothing.
fn why_failed(outcome: &runner::Outcome) -> Option<String> {
    let of_job = outcome.stats.iter().find_map(|stats| stats.error.as_ref()).map(|error| error.text.clone());
    let differs = outcome.verify_errors.first().cloned();
    of_job
        .or(differs)
        .or((outcome.counters.failed > 0).then(|| format!("{} I/Os failed", outcome.counters.failed)))
}

/// Returns the results of all budgets as a readable table.
pub fn text(all: &[Kept]) -> String {
    let mut table = Table::default();
    let column = |of: &dyn Fn(&Kept) -> String| all.iter().map(of).collect::<Vec<_>>();
    table.add("", "run", column(&|kept| kept.run.clone()));
    table.add("", "figure", column(&|kept| kept.figure.clone()));
    let side = |kept: &Kept| if kept.side == Side::Least { "at least" } else { "at most" };
    table.add("", "", column(&|kept| side(kept).to_owned()));
    table.add("", "budget", column(&|kept| number(kept.budget)));
    table.add("", "measured", column(&|kept| number(kept.measured)));
    let room = |kept: &Kept| kept.room_percent.map_or(String::new(), |room| format!("{room:+.1} %"));
    table.add("", "room", column(&room));
    table.add("", "", column(&|kept| if kept.kept { "kept" } else { "BROKEN" }.to_owned()));
    let broken = all.iter().filter(|kept| !kept.kept).count();
    let said = match broken {
        0 => format!("all {} budgets are kept", all.len()),
        _ => format!("{broken} of {} budgets are broken", all.len()),
    };
    format!("{}{said}\n", table.text())
}

/// Returns the results of all budgets as JSON, one object per line.
pub fn json_lines(all: &[Kept]) -> String {
    let line = |kept: &Kept| serde_json::to_value(kept).unwrap_or(Value::Null).to_string() + "\n";
    all.iter().map(line).collect()
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}
