//! A board's controller and a card, by their names.

use mmcq_lab::board;
use mmcq_lab::controller::ControllerConfig;
use mmcq_lab::platform::Platform;
use mmcq_sim::memory::DeviceMemory;
use mmcq_sim::sdhci::Sdhci;
use mmcq_sim::slot::Controller;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

/// The file with the log of the bus; its last lines may still be in memory.
pub(crate) type LogFile = Rc<RefCell<BufWriter<File>>>;

/// The controller of `platform`, with `card`, or with the platform's own if that is empty. An error
/// is one line.
pub(crate) fn build(
    platform: &str,
    card: &str,
    memory: impl DeviceMemory + 'static,
) -> Result<Sdhci, String> {
    let platform = Platform::load(platform).map_err(|error| error.to_string())?;
    let ControllerConfig::Sdhci(config) = platform.controller else {
        return Err(format!("platform {}: expected one whose controller is an sdhci", platform.name));
    };
    let card = (!card.is_empty()).then_some(card);
    let card = board::slot_card(&platform, card, None).map_err(|error| error.to_string())?;
    Ok(Sdhci::new(config, memory, Some(card)))
}

/// Writes everything on the bus into a file, a line each.
pub(crate) fn log_to(model: &mut Sdhci, path: &Path) -> Result<LogFile, String> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file: LogFile = Rc::new(RefCell::new(BufWriter::new(file)));
    let lines = file.clone();
    model.set_log(Some(Box::new(move |event| {
        // A full disk shows when the file is closed: BufWriter keeps what it could not write.
        drop(writeln!(lines.borrow_mut(), "{event:?}"));
    })));
    Ok(file)
}
