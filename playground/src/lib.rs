//! The laboratory for a browser: a question as JSON in, an answer as JSON out. This crate only
//! calls the library of `mmcq-lab`.
//!
//! A caller gets memory for its question from [`room`], writes the question there, and calls
//! [`answer`]. The returned address has the length of the answer (32 bits, little endian), and then
//! the answer.

use mmcq_lab::fio::report::json;
use mmcq_lab::runner::{Counters, Outcome, Run, Setting, allowed_mib_per_s};
use mmcq_lab::scene::{Loaded, Scene};
use mmcq_lab::series::Series;
use mmcq_lab::why::{self, Why};
use mmcq_lab::{board, finished, fio, page, params, platform, runner, series};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fmt::Display;

thread_local! {
    static QUESTION: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The last run that was explained. The answer to "scope" shows the bus in the middle of it.
    static LAST: RefCell<Option<(Question, Series)>> = const { RefCell::new(None) };
    /// The last limit of bus and card that was computed. It depends on the load and not on the
    /// setting, so runs of one load with other settings use it again.
    static LIMIT: RefCell<Option<(Question, Counters)>> = const { RefCell::new(None) };
}

/// A question of the page, as JSON.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// Kind of question: lists, params, run, rated, why, explained or scope.
    what: String,
    #[serde(default = "board_of_all")]
    platform: String,
    card: Option<String>,
    setting: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    /// The load, as options of fio.
    #[serde(default)]
    job: Vec<String>,
}

fn board_of_all() -> String {
    mmcq_lab::scene::PLATFORM.to_owned()
}

/// Returns memory for a question of this number of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    QUESTION.with(|question| {
        let mut question = question.borrow_mut();
        question.clear();
        question.resize(bytes, 0);
        question.as_mut_ptr()
    })
}

/// Answers the question that the caller wrote to the memory of [`room`]: `{"ok": ...}`, or
/// `{"error": "one line"}`. Returns the address of length and answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    let question = QUESTION.with(|question| std::mem::take(&mut *question.borrow_mut()));
    let value = match answered(&question) {
        Ok(value) => json!({ "ok": value }),
        Err(line) => json!({ "error": line }),
    };
    let text = value.to_string();
    ANSWER.with(|answer| {
        let mut answer = answer.borrow_mut();
        answer.clear();
        answer.extend_from_slice(&(text.len() as u32).to_le_bytes());
        answer.extend_from_slice(text.as_bytes());
        answer.as_ptr()
    })
}

fn line(error: impl Display) -> String {
    error.to_string()
}

fn answered(question: &[u8]) -> Result<Value, String> {
    let question: Question = serde_json::from_slice(question).map_err(line)?;
    match question.what.as_str() {
        "lists" => {
            let platforms: Vec<&str> = platform::Platform::names().collect();
            let cards: Vec<&str> = board::card_names().collect();
            Ok(json!({ "platforms": platforms, "cards": cards, "version": env!("CARGO_PKG_VERSION") }))
        }
        "params" => {
            let all = params::all(&question.platform, question.card.as_deref(), &question.set);
            serde_json::to_value(all.map_err(line)?).map_err(line)
        }
        "run" => {
            let (scene, loaded) = question.load()?;
            let outcome = runner::run(&scene.run_of(&loaded), None, &mut |_, _| ()).map_err(line)?;
            Ok(report(&scene, loaded, outcome).into())
        }
        // A run, and the rate that the limit of bus and card allows for it.
        "rated" => {
            let key = question.limit();
            let (scene, loaded) = question.load()?;
            let run = scene.run_of(&loaded);
            let outcome = runner::run(&run, None, &mut |_, _| ()).map_err(line)?;
            let known = LIMIT.with(|last| last.borrow().clone()).filter(|(of, _)| *of == key);
            let limit = match known {
                Some((_, limit)) => limit,
                None => {
                    let limit = Run { setting: Setting::Limit, ..run };
                    runner::run(&limit, None, &mut |_, _| ()).map_err(line)?.counters
                }
            };
            let allowed = allowed_mib_per_s(&limit, &outcome.counters);
            LIMIT.with(|last| *last.borrow_mut() = Some((key, limit)));
            Ok(json!({ "run": report(&scene, loaded, outcome), "allowed_mib_s": allowed }))
        }
        "why" => {
            let (scene, loaded) = question.load()?;
            let mut why = Why::new(&scene.run_of(&loaded)).map_err(line)?;
            why.title = scene.title(&loaded.platform);
            Ok(json!({ "lines": why::json_lines(&why), "conclusion": why.conclusion() }))
        }
        // The run itself, the run at the limit of bus and card, and where the time went.
        "explained" => {
            let key = question.scope();
            let (scene, loaded) = question.load()?;
            let run = scene.run_of(&loaded);
            let (outcome, series) = recorded(&run)?;
            let limit_run = Run { setting: Setting::Limit, ..run };
            let limit = runner::run(&limit_run, None, &mut |_, _| ()).map_err(line)?;
            let mut why = Why::of(&run, outcome.counters.clone(), limit.counters.clone()).map_err(line)?;
            why.title = scene.title(&loaded.platform);
            LAST.with(|last| *last.borrow_mut() = Some((key, series)));
            let limit_scene = Scene { setting: Setting::Limit, ..scene.clone() };
            let at_limit = allowed_mib_per_s(&limit.counters, &limit.counters);
            let limit = report(&limit_scene, loaded.clone(), limit);
            Ok(json!({
                "run": report(&scene, loaded, outcome), "allowed_mib_s": why.limit_mib_per_s(),
                "limit": { "run": limit, "allowed_mib_s": at_limit },
                "lines": why::json_lines(&why), "conclusion": why.conclusion(),
            }))
        }
        "scope" => {
            let key = question.scope();
            let (scene, loaded) = question.load()?;
            let run = scene.run_of(&loaded);
            let known = LAST.with(|last| last.borrow_mut().take_if(|(of, _)| *of == key));
            let series = match known {
                Some((_, series)) => series,
                None => recorded(&run)?.1,
            };
            page::scope(&run, &series).map(Value::from)
        }
        other => Err(format!("what {other}: expected lists, params, run, rated, why, explained or scope")),
    }
}

/// Returns the report of a run in fio's JSON, as the program `mmcq` prints it.
fn report(scene: &Scene, loaded: Loaded, outcome: Outcome) -> String {
    let origin = finished::origin(scene, &loaded.platform, &outcome);
    json::json(&finished::report(loaded, outcome, origin), false)
}

/// Runs a load. Returns the outcome, and the rate over time.
fn recorded(run: &Run<'_>) -> Result<(Outcome, Series), String> {
    let (outcome, series) = series::record(|| runner::run(run, None, &mut |_, _| ()));
    Ok((outcome.map_err(line)?, series))
}

impl Question {
    /// Returns the question with kind "scope": the key under which an explained run is stored.
    fn scope(&self) -> Self {
        Question { what: "scope".to_owned(), ..self.clone() }
    }

    /// Returns the question with kind "limit" and without a setting: the key under which the limit
    /// is stored.
    fn limit(&self) -> Self {
        Question { what: "limit".to_owned(), setting: None, ..self.clone() }
    }

    fn load(self) -> Result<(Scene, Loaded), String> {
        let jobs = fio::parse_command_line(&self.job, &fio::System).map_err(line)?;
        let mut scene = Scene { platform: self.platform, card: self.card, set: self.set, ..Scene::default() };
        if let Some(setting) = &self.setting {
            scene.setting = setting.parse()?;
        }
        let loaded = scene.load(&jobs, &scene.set).map_err(line)?;
        Ok((scene, loaded))
    }
}
