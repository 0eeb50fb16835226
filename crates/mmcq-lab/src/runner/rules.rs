//! Rules by which a younger request may overtake an older one, in each setting.

use super::Setting;
use crate::platform::Platform;
use crate::recorded::passed::Rules;
use mmcq::sched::Any;

impl Setting {
    /// Returns the rules by which a younger request may overtake an older one with this setting on
    /// this board.
    pub fn rules(self, platform: &Platform) -> Rules {
        let linux = "mq-deadline goes upwards by address, in batches";
        // Linux's block layer joins flushes as well, and none of its requests waits for one.
        let flush = (!self.is_linux())
            .then_some("a flush gives way to writes of clients that flush behind them, and serves them all");
        let driver = match self {
            Setting::HsqTag => "the queue takes the next tag, not the oldest request",
            Setting::None | Setting::HsqFifo | Setting::Close | Setting::Patch => {
                "a request that was refused comes back later"
            }
            Setting::LinuxCqe => "the card chooses among its tasks",
            _ => match platform.stack.scheduler {
                Any::Fifo(_) => "what continues a transfer goes in it",
                Any::Deadline(_) => "reads before writes, upwards by address, until one expires",
                Any::Fair(_) => "clients have turns",
                Any::ReadsFirst(_) => "reads before writes, up to twice the blocks of a write",
            },
        };
        Rules { scheduler: linux, driver, flush }
    }
}
