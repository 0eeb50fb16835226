//! `mmcq new`: writes a file of a board, a card, a job or budgets, for a user to change.

use super::{Error, print};
use clap::{Args, Subcommand};
use mmcq_lab::platform::Platform;
use mmcq_lab::scene::{PLATFORM, Scene};
use mmcq_lab::{board, budgets, params};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a file to begin with: a board, a card, a job or budgets
///
/// The file works without changes, and comments explain its content.
#[derive(Debug, Args)]
pub struct New {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A board, for --platform: it extends another board, and changes the values that you uncomment
    Board {
        /// File to write; its name ends in .toml
        file: PathBuf,
        /// The board that the new board extends
        #[arg(long, value_name = "PLATFORM", default_value = PLATFORM)]
        like: String,
    },
    /// A card, for --card: a copy of another card
    Card {
        /// File to write; its name ends in .toml
        file: PathBuf,
        /// The card to copy
        #[arg(long, value_name = "CARD", default_value = "emmc-hs200")]
        like: String,
    },
    /// A job, for `mmcq run`
    Job {
        /// File to write
        file: PathBuf,
    },
    /// Budgets, for `mmcq check`: limits around the present figures of a job
    Budgets {
        /// File to write; its name ends in .toml
        file: PathBuf,
        /// The job to measure: a file (or fio's options after --)
        #[arg(long, value_name = "JOB.fio", required_unless_present = "options", conflicts_with = "options")]
        job: Option<PathBuf>,
        /// Jobs as fio options, with one dash or two
        #[arg(last = true, value_name = "FIO OPTIONS")]
        options: Vec<String>,
        /// Distance of each budget from the present figure, in percent of the figure
        #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = percent)]
        room: f64,
        #[command(flatten)]
        scene: Box<Scene>,
    },
}

impl New {
    pub fn run(self) -> Result<ExitCode, Error> {
        let (file, text, next) = match &self.what {
            What::Board { file, like } => (file, board_text(like)?, "mmcq params --platform"),
            What::Card { file, like } => {
                let text = board::card_text(like).map_err(Error::input)?;
                (file, with_comments(&text, like), "mmcq card --card")
            }
            What::Job { file } => (file, JOB.to_owned(), "mmcq run"),
            What::Budgets { file, job, options, room, scene } => {
                (file, budgets::skeleton(file, job.as_deref(), options, *room, scene)?, "mmcq check")
            }
        };
        if !matches!(self.what, What::Job { .. }) && file.extension().is_none_or(|end| end != "toml") {
            return Err(Error::Input(format!("{}: expected a name that ends in .toml", file.display())));
        }
        write_new(file, &text)?;
        print(&format!("{} is there; try: {next} {}\n", file.display(), file.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes a new file. An existing file is not changed.
fn write_new(path: &Path, text: &str) -> Result<(), Error> {
    let file = std::fs::File::options().write(true).create_new(true).open(path);
    let mut file = file.map_err(|error| Error::Input(format!("{}: {error}", path.display())))?;
    file.write_all(text.as_bytes()).map_err(|error| Error::Run(format!("{}: {error}", path.display())))
}

fn board_text(like: &str) -> Result<String, Error> {
    let platform = Platform::load(like).map_err(Error::input)?;
    let mut text = format!(
        "# A board. What it does not say, it has from the board that it stands on. Remove a `#` to change a\n\
         # value; say then where yours comes from. kind: spec, prior, fit, val or measured.\n\
         description = \"My board: like {like}\"\nextends = \"{like}\"\ncard = \"{}\"\n",
        platform.card
    );
    let all = params::all(like, None, &[]).map_err(Error::input)?;
    let mut section = "";
    for param in &all {
        let Some((table, key)) = param.key.split_once('.') else { continue };
        if table == "card" || key.contains('.') {
            continue;
        }
        if table != section {
            let _ = writeln!(text, "\n[{table}]");
            section = table;
        }
        let value = param.value.as_ref().map_or("0".to_owned(), toml::Value::to_string);
        let quantity = ["cost", "share", "own"].contains(&table);
        let origin = toml::Value::String(param.source.clone());
        let _ = match (quantity, &param.value) {
            (true, Some(_)) => {
                writeln!(text, "#{key} = {{ value = {value}, kind = \"{}\", source = {origin} }}", param.kind)
            }
            (true, None) => {
                writeln!(text, "#{key} = {{ value = 0, kind = \"prior\", source = \"\" }} # may be left out")
            }
            (false, Some(_)) => writeln!(text, "#{key} = {value}"),
            (false, None) => Ok(()),
        };
    }
    Ok(text)
}

/// Tables of a card's file, each with a text about its content.
const TABLES: [(&str, &str); 14] = [
    ("identity", "What the card calls itself: its CID."),
    ("sd", "What it can do: its CSD, SCR and SD status."),
    ("emmc", "What it can do: its EXT_CSD."),
    ("sd.time", "How long it takes to come up and to switch."),
    ("emmc.time", "How long it takes to come up and to switch."),
    (
        "flash.read",
        "A read: until its first block comes, and for each 4 KiB more. By fio at depth 1, 4 KiB at random\n\
         # and 128 KiB in a row, less the time on the wire.",
    ),
    (
        "flash.write",
        "A write: busy after its first 4 KiB, and for each 4 KiB more, while buffers take it. What is in\n\
         # them drains at drain_mib_s, and a full buffer makes a write wait.",
    ),
    (
        "flash.cache",
        "What the cache hides: program_us more where a write waits for the flash, and flush_us for a flush\n\
         # beside what is still to drain. The cache is as large as its register says.",
    ),
    ("flash.spread", "Requests that take longer than the others, by chance, and the cliff of an SLC cache."),
    ("flash.erase", "An erase or a trim: its first group, and each group more."),
    ("queue", "Its command queue."),
    ("packed", "Its packed commands."),
    ("io", "An SDIO card: its functions are below."),
    ("quirk", "What it does otherwise than its standard says."),
];

/// Returns the text of a card's file with a comment above each table.
fn with_comments(text: &str, like: &str) -> String {
    let mut out = format!(
        "# A card: a copy of {like}. Change a value together with its source, which begins with spec, prior,\n\
         # fit, val or measured. `mmcq params --card FILE` shows all of it with units.\n"
    );
    for line in text.lines() {
        let table = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        if let Some((_, what)) = TABLES.iter().find(|(name, _)| Some(*name) == table) {
            let _ = writeln!(out, "# {what}");
        }
        let _ = writeln!(out, "{line}");
    }
    if text.contains("[flash.read]") && !text.contains("[flash.spread]") {
        out += SPREAD;
    }
    out
}

/// Text of the table `[flash.spread]`, which most cards do not have, commented out.
const SPREAD: &str = "
# Requests that take longer than the others, by chance: reads that are repeated, and writes that
# meet garbage collection. `mmcq params spread` says what each key means, and has those of an SLC
# cache.
#[flash.spread]
#source = \"prior\"
#seed = 1
#read_retry_share = 0.01
#read_retry_us = 500
#gc_share = 0.005
#gc_stall_ms = 10
";

/// Text of a new job file, in the style of fio's own examples.
const JOB: &str = "\
; A job, as fio has them: `fio --help` and fio's manual say what each option means.
[global]
; The card's block device; jobs may use parts of it by offset= and size=.
filename=/dev/mmcblk0
direct=1
ioengine=libaio
size=256M
; Two seconds of virtual time.
runtime=2s
time_based

; Random 4 KiB, seven reads to three writes, four requests under way.
[mixed]
rw=randrw
rwmixread=70
bs=4k
iodepth=4
";

/// Parses a percentage below 100, with or without the percent sign: how far a budget is from the
/// present figure.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    number.filter(|n| (0.0..100.0).contains(n)).ok_or_else(|| "expected a share below 100%: 10%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_writes_can_be_read() {
        for like in Platform::names() {
            let text = board_text(like).unwrap();
            let place = tempfile::tempdir().unwrap();
            let file = place.path().join("mine.toml");
            // The file must work as it is, and with every value uncommented.
            let given = |line: &&str| !line.ends_with("# may be left out");
            let bare = |line| match str::strip_prefix(line, "#") {
                Some(value) if !value.starts_with(' ') => value,
                _ => line,
            };
            let all = text.lines().filter(given).map(bare).collect::<Vec<_>>().join("\n");
            for text in [text, all] {
                std::fs::write(&file, text).unwrap();
                Platform::load(file.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
            }
            assert!(write_new(&file, "x").is_err(), "a file that is there stays");
        }
        for like in board::card_names() {
            let place = tempfile::tempdir().unwrap();
            let file = place.path().join("mine.toml");
            let text = with_comments(&board::card_text(like).unwrap(), like);
            assert!(text.matches("\n# ").count() > 5, "{text}");
            let table = SPREAD.replace("\n#", "\n").replace("\n ", "\n# ");
            for text in [text.replace(SPREAD, &table), text] {
                std::fs::write(&file, text).unwrap();
                board::card_profile(file.to_str().unwrap()).unwrap_or_else(|error| panic!("{like}: {error}"));
            }
        }
        let job = mmcq_lab::fio::parse_text("new.fio", JOB.as_bytes(), &mmcq_lab::fio::System).unwrap();
        assert_eq!(job.jobs.len(), 1);
    }
}
