//! Builds a controller model and a card by their names.

use mmcq_lab::board;
use mmcq_lab::controller::ControllerConfig;
use mmcq_lab::platform::Platform;
use mmcq_sim::memory::DeviceMemory;
use mmcq_sim::mshc::Mshc;
use mmcq_sim::port::RegisterFile;
use mmcq_sim::rtsx::Rtsx;
use mmcq_sim::sdhci::Sdhci;
use mmcq_sim::slot::Controller;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

/// The file with the log of the bus. Its last lines may still be in the buffer in memory.
pub(crate) type LogFile = Rc<RefCell<BufWriter<File>>>;

/// A controller model whose registers are accessed by offset (SDHCI, DesignWare MSHC or
/// Realtek's card reader).
pub(crate) trait Model: Controller + RegisterFile {}

impl<M: Controller + RegisterFile> Model for M {}

/// Builds the controller of `platform` with `card`, or with the platform's default card if `card`
/// is empty. An error is one line of text.
pub(crate) fn build(
    platform: &str,
    card: &str,
    memory: impl DeviceMemory + 'static,
) -> Result<Box<dyn Model>, String> {
    let platform = Platform::load(platform).map_err(|error| error.to_string())?;
    let card = (!card.is_empty()).then_some(card);
    let slot = || board::slot_card(&platform, card, None).map_err(|error| error.to_string());
    match platform.controller {
        ControllerConfig::Sdhci(config) => Ok(Box::new(Sdhci::new(config, memory, Some(slot()?)))),
        ControllerConfig::Mshc(config) => Ok(Box::new(Mshc::new(config, memory, Some(slot()?)))),
        ControllerConfig::Rtsx(config) => Ok(Box::new(Rtsx::new(config, memory, Some(slot()?)))),
        ControllerConfig::Stm32Sdmmc(_) => Err(format!(
            "platform {}: expected one whose controller is an sdhci, an mshc or an rtsx",
            platform.name
        )),
    }
}

/// Writes each event on the bus into a file, one event in each line.
pub(crate) fn log_to(model: &mut dyn Model, path: &Path) -> Result<LogFile, String> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let file: LogFile = Rc::new(RefCell::new(BufWriter::new(file)));
    let lines = file.clone();
    model.set_log(Some(Box::new(move |event| {
        // A full disk is reported when the file is closed: until then BufWriter keeps what it could
        // not write.
        drop(writeln!(lines.borrow_mut(), "{event:?}"));
    })));
    Ok(file)
}
