//! `mmcq params`: lists what `--set` can change.

use super::Error;
use super::form::{self, Form};
use clap::Args;
use mmcq_lab::params::{self, Param};
use mmcq_lab::scene::PLATFORM;
use std::process::ExitCode;

/// List what --set can change: every value of a board and its card
///
/// The kind of a value says where its number comes from: spec (a standard or a data sheet), prior
/// (a usual value, without a measurement), fit (fitted to published figures), val (checked against
/// other published figures), measured (on this stack, or on Linux itself), board (the board's file,
/// which names no source), default (the model's own).
#[derive(Debug, Args)]
pub struct Params {
    /// Lists only keys that contain this text, or values of this kind, such as `mmcq params prior`
    #[arg(value_name = "TEXT")]
    only: Option<String>,
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = PLATFORM)]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Changes one value, as in `mmcq run`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    form: Form,
}

impl Params {
    pub fn run(self) -> Result<ExitCode, Error> {
        let mut all = params::all(&self.platform, self.card.as_deref(), &self.set).map_err(Error::input)?;
        if let Some(only) = &self.only {
            let wanted = only.to_lowercase();
            let says = |param: &Param| {
                param.kind == wanted
                    || param.key.contains(&wanted)
                    || param.meaning.to_lowercase().contains(&wanted)
            };
            all.retain(says);
            if all.is_empty() {
                return Err(Error::Input(format!(
                    "{only}: no kind has this name, no key and no meaning of one contains it; `mmcq params` lists all"
                )));
            }
        }
        let lines = || all.iter().map(|p| format!("{}\n", serde_json::json!(p))).collect();
        self.form.print(|| as_table(&all), lines)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Length in characters above which a value is printed on a line of its own below its key.
const LONG: usize = 22;

/// Returns columns with key, value, unit, kind and range. Meaning and source follow below each key
/// in wrapped lines.
fn as_table(all: &[Param]) -> String {
    let value = |p: &Param| p.value.as_ref().map_or("-".to_owned(), toml::Value::to_string);
    let range = |p: &Param| {
        p.interval.or(p.range).map_or(String::new(), |[least, most]| format!("{least} to {most}"))
    };
    let mut out = String::new();
    let row = |key: &str, value: &str, unit: &str, kind: &str, range: &str| {
        format!("{key:<38} {value:<22} {unit:<11} {kind:<8} {range}").trim_end().to_owned() + "\n"
    };
    out += &row("key", "value", "unit", "kind", "range");
    let mut said = "";
    for param in all {
        // The source of a whole table is printed only once.
        let source = if param.source == said { "" } else { param.source.as_str() };
        said = &param.source;
        let (value, unit, kind) = (value(param), param.unit, &param.kind);
        let (short, long) = if value.len() > LONG { ("", value.as_str()) } else { (value.as_str(), "") };
        out += &row(&param.key, short, unit, kind, &range(param));
        let meaning = if param.meaning.is_empty() { String::new() } else { format!("{};", param.meaning) };
        let words = format!("{long} {meaning} {source}");
        for line in form::folded(words.trim_end_matches([' ', ';']), 4) {
            out += &format!("    {line}\n");
        }
    }
    out
}
