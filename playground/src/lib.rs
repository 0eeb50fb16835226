//! The laboratory for a browser: JSON in, JSON out. Nothing of it is written a second time here.
//!
//! A caller asks [`room`] for the bytes of its question, writes them there and calls [`answer`]. The
//! answer begins at the returned address with its length, 32 bits in little endian.

use mmcq_lab::fio::report::json;
use mmcq_lab::scene::{Loaded, Scene};
use mmcq_lab::why::{self, Why};
use mmcq_lab::{board, finished, fio, page, params, platform, runner, series};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fmt::Display;

thread_local! {
    static QUESTION: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// lists, params, run, why or scope.
    what: String,
    #[serde(default = "board_of_all")]
    platform: String,
    card: Option<String>,
    setting: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    /// fio's options.
    #[serde(default)]
    job: Vec<String>,
}

fn board_of_all() -> String {
    mmcq_lab::scene::PLATFORM.to_owned()
}

/// Room for a question of so many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    QUESTION.with(|question| {
        let mut question = question.borrow_mut();
        question.clear();
        question.resize(bytes, 0);
        question.as_mut_ptr()
    })
}

/// Answers the question in the room: `{"ok": ...}` or `{"error": "one line"}`.
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
            Ok(json!({ "platforms": platforms, "cards": cards }))
        }
        "params" => {
            let all = params::all(&question.platform, question.card.as_deref(), &question.set);
            serde_json::to_value(all.map_err(line)?).map_err(line)
        }
        "run" => {
            let (scene, loaded) = question.load()?;
            let outcome = runner::run(&scene.run_of(&loaded), None, &mut |_, _| ()).map_err(line)?;
            let origin = finished::origin(&scene, &loaded.platform, &outcome);
            Ok(json::json(&finished::report(loaded, outcome, origin), false).into())
        }
        "why" => {
            let (scene, loaded) = question.load()?;
            let why = Why::new(&scene.run_of(&loaded)).map_err(line)?;
            Ok(json!({ "lines": why::json_lines(&why), "conclusion": why.conclusion() }))
        }
        "scope" => {
            let (scene, loaded) = question.load()?;
            let run = scene.run_of(&loaded);
            let (outcome, series) = series::record(|| runner::run(&run, None, &mut |_, _| ()));
            outcome.map_err(line)?;
            page::scope(&run, &series).map(Value::from)
        }
        other => Err(format!("what {other}: expected lists, params, run, why or scope")),
    }
}

impl Question {
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
