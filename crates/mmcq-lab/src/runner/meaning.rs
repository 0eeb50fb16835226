//! Descriptions of the settings (which stack serves the jobs), for users of the program.

use super::Setting;

impl Setting {
    /// Returns what this setting (a compared stack) means in words; for Linux, also which version
    /// has it.
    pub fn meaning(self) -> &'static str {
        match self {
            Setting::None => "Linux without a request queue for cards, as 6.1",
            Setting::HsqTag => "Linux's software queue for cards in the order of tags, as 6.1",
            Setting::HsqFifo => "Linux's software queue, first in first out: later than 6.1, its depth 2",
            Setting::LinuxCqe => "Linux's driver of the card's own queue (cqhci), as 6.1",
            Setting::Close => "Linux, each transfer closed, as its driver of the reader does",
            Setting::Patch => "Linux, transfers left open: a patch that no version has",
            Setting::Mmcq => "the mmcq stack, paying what Linux pays for a wake-up or an interrupt",
            Setting::MmcqOwn => "the mmcq stack, paying for its own instructions alone",
            Setting::MmcqEarly | Setting::MmcqEarlyOwn => "mmcq, writes complete with their data",
            Setting::Tasks | Setting::TasksOwn => "mmcq with the card's command queue",
            Setting::Cqe | Setting::CqeOwn => "mmcq with the controller's queue engine",
            Setting::Auto => "mmcq with the card's queue where it pays",
            Setting::AutoOwn => "the same, paying for its own instructions alone",
            Setting::Packed | Setting::PackedOwn => "mmcq with packed commands",
            Setting::Adma3 | Setting::Adma3Own => "mmcq with chains of transfers",
            Setting::Limit => "bus and card alone: software that takes no time",
        }
    }
}
