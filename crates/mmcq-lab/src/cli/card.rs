//! `mmcq card` brings a card up and shows its registers, or shows the registers in a file. `mmcq
//! platforms` lists the boards and cards to choose from.

use super::Error;
use super::form::{self, Form};
use clap::Args;
use mmcq_lab::board::{self, Board, Price};
use mmcq_lab::platform::{Platform, drivers};
use mmcq_lab::registers::file::{FILE_BYTES_MAX, Registers, is_register_file};
use mmcq_lab::registers::{self, Field};
use mmcq_lab::sdio::{self, platform::Board as SdioBoard};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bring a card up on a board and print its decoded registers, or decode a file of registers
#[derive(Debug, Args)]
pub struct Card {
    /// A file of a card's registers, or an image file. Files of registers come from the kernel
    /// module (/sys/kernel/debug/mmcq/0.card); the folder zoo has some. An image file has the
    /// card's content and is opened read-only: the board's own card takes its size; a card named by
    /// --card must fit into it (the rest of the image is not used)
    #[arg(value_name = "FILE")]
    image: Option<PathBuf>,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = mmcq_lab::scene::PLATFORM)]
    platform: String,
    /// Changes one value of the board or the card, as in `mmcq run`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    form: Form,
}

impl Card {
    pub fn run(self) -> Result<ExitCode, Error> {
        if let Some(text) = self.image.as_deref().and_then(register_file) {
            let fields = Registers::parse(&text).and_then(|registers| registers.decode());
            let fields = fields.map_err(|why| {
                let file = self.image.as_deref().unwrap_or(Path::new("")).display();
                Error::Input(format!("{file}: {why}"))
            })?;
            self.form.print(|| as_table(&fields), || as_json(&fields))?;
            return Ok(ExitCode::SUCCESS);
        }
        let platform = Platform::load_with(&self.platform, &self.set).map_err(Error::input)?;
        let image = self.image.as_deref().map(|path| super::image(path, false)).transpose()?;
        let (medium, _lock) = image.unzip();
        let board =
            Board::<8>::new(&platform, self.card.as_deref(), medium, Price::Nothing).map_err(Error::input)?;
        let fields = registers::decode(&board.card, board.ext_csd.as_deref())
            .map_err(|e| Error::Run(e.to_string()))?;
        self.form.print(|| as_table(&fields), || as_json(&fields))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the text of a file of registers; `None`: the file is an image, or cannot be read.
fn register_file(path: &Path) -> Option<String> {
    // A pipe would wait for its other end. What the kernel prints has no length before it is read.
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut file = std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX);
    let mut start = [0; 7];
    file.read_exact(&mut start).ok().filter(|()| is_register_file(&start))?;
    let mut text = String::from_utf8(start.to_vec()).ok()?;
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

pub(super) fn as_json(fields: &[Field]) -> String {
    fields.iter().filter_map(|field| serde_json::to_string(field).ok()).map(|line| line + "\n").collect()
}

/// Largest number of characters of a raw register that a line shows.
const RAW: usize = 64;

pub(super) fn as_table(fields: &[Field]) -> String {
    let width = |text: fn(&Field) -> &str| fields.iter().map(|f| text(f).len()).max().unwrap_or(0);
    let (register_width, field_width) = (width(|f| f.register), width(|f| &f.field));
    let mut last = "";
    let mut out = String::new();
    for Field { register, field, value } in fields {
        let shown = if *register == last { "" } else { register };
        if !shown.is_empty() && !out.is_empty() {
            out.push('\n');
        }
        last = register;
        // A raw register has no spaces at which it could be wrapped, so it is cut.
        let digits: Vec<char> = value.chars().collect();
        let mut parts = digits.chunks(RAW).map(|part| part.iter().collect::<String>());
        let value = if value.contains(' ') { value.clone() } else { parts.next().unwrap_or_default() };
        out += format!("{shown:register_width$}  {field:field_width$}  {value}").trim_end();
        out.push('\n');
        if !value.contains(' ') {
            for part in parts {
                out += &format!("{:register_width$}  {:field_width$}  {part}\n", "", "");
            }
        }
    }
    out
}

/// Text about further cards and boards in the source tree.
const BESIDES: &str = "Which board for a controller under Linux: its driver says it (mmcq platforms dwcmshc)\n\
     In the source tree besides, in crates/mmcq-sim: cards/quirks, cards that misbehave (--card\n\
     takes the files of those with blocks), and controllers, with a quirk for the simulator's tests\n";

/// List the boards and cards that come with the program
#[derive(Debug, Args)]
pub struct Platforms {
    /// Text to search for. Lists only boards and cards with this text in name or description, and
    /// drivers of Linux with this text in their name, each with the board to begin with. `mmcq
    /// params --platform NAME` lists a board's values
    #[arg(value_name = "TEXT")]
    only: Option<String>,
    #[command(flatten)]
    form: Form,
}

impl Platforms {
    pub fn run(self) -> Result<ExitCode, Error> {
        let mut rows = Vec::new();
        for name in Platform::names() {
            let platform = Platform::load(name).map_err(Error::input)?;
            rows.push(("platform", name.to_owned(), platform.description));
        }
        for name in SdioBoard::names() {
            let board = SdioBoard::load(name).map_err(Error::input)?;
            rows.push(("platform", name.to_owned(), format!("{} (reproduce sdio)", board.description)));
        }
        for name in board::card_names() {
            let profile = board::card_profile(name).map_err(Error::input)?;
            rows.push(("card", name.to_owned(), profile.description().to_owned()));
        }
        let card = sdio::card().map_err(Error::input)?;
        rows.push(("card", card.name().to_owned(), format!("{} (reproduce sdio)", card.description())));
        if let Some(only) = &self.only {
            rows.retain(|(_, name, description)| name.contains(only.as_str()) || description.contains(only));
            rows.extend(drivers::named(only).map(|driver| {
                let begin = driver.board.map_or(String::new(), |board| format!("begin with {board}: "));
                ("driver", driver.name.to_owned(), format!("{begin}{}", driver.note))
            }));
            if rows.is_empty() {
                return Err(Error::Input(format!(
                    "{only}: no board, card or driver of Linux has it in its name; `mmcq platforms` lists all"
                )));
            }
        }
        let width = rows.iter().map(|(_, name, _)| name.len()).max().unwrap_or(0);
        let text = || {
            let indent = 8 + 2 + width + 2;
            let rows = rows.iter().map(|(kind, name, description)| {
                let lines = form::folded(description, indent).join(&format!("\n{:indent$}", ""));
                format!("{kind:8}  {name:width$}  {lines}\n")
            });
            rows.chain(self.only.is_none().then(|| BESIDES.to_owned())).collect()
        };
        let lines = || {
            let rows = rows.iter().map(|(kind, name, description)| {
                let row = serde_json::json!({ "kind": kind, "name": name, "description": description });
                format!("{row}\n")
            });
            rows.collect()
        };
        self.form.print(text, lines)?;
        Ok(ExitCode::SUCCESS)
    }
}
