//! Model of the SDIO experiment's controller (Samsung's SDI, or a standard SDHCI), and the
//! controller's driver.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::host::Port;
use super::platform::{Board, Kind};
use mmcq::host::s3c_sdi::{self, DmaUse};
use mmcq::host::{Host, sdhci};
use mmcq_sim::card::Card;
use mmcq_sim::memory::ShadowMemory;
use mmcq_sim::s3c_sdi::{S3cSdi, S3cSdiConfig};
use mmcq_sim::sdhci::{Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::stats::{BusEvent, BusStats};
use mmcq_sim::world::Device;
use std::cell::RefCell;
use std::rc::Rc;

/// Number of DMA descriptors of the driver.
const DESCRIPTORS: usize = 17;

/// Model of the controller. All clones share one controller.
#[derive(Clone)]
pub enum Model {
    /// Samsung's SDI controller.
    S3cSdi(Rc<RefCell<S3cSdi>>),
    /// SD host controller of the standard.
    Sdhci(Rc<RefCell<Sdhci>>),
}

/// Calls the same method on the controller model, which is either Samsung's SDI or an SDHCI.
macro_rules! model {
    ($self:ident, $model:ident => $call:expr) => {
        match $self {
            Model::S3cSdi($model) => $call,
            Model::Sdhci($model) => $call,
        }
    };
}

impl Model {
    /// Makes the board's controller, with the card in its slot.
    pub fn new(board: &Board, memory: &ShadowMemory, card: Box<dyn Card>) -> Self {
        match board.controller {
            Kind::S3cSdi => {
                let config = S3cSdiConfig { pclk_hz: board.pclk_hz, ..S3cSdiConfig::S3C2440 };
                let model = Rc::new(RefCell::new(S3cSdi::new(config, memory.clone(), Some(card))));
                crate::trace::attach_sdi(&model);
                Model::S3cSdi(model)
            }
            Kind::Sdhci => {
                let config = SdhciConfig { base_clock_hz: board.pclk_hz, ..SdhciConfig::GENERIC_4_20 };
                Model::Sdhci(Rc::new(RefCell::new(Sdhci::new(config, memory.clone(), Some(card)))))
            }
        }
    }

    /// Advances the model to the time `until_ns`, or only to the moment at which the interrupt line
    /// is asserted. Returns the time in ns that was reached.
    pub fn advance(&self, until_ns: u64) -> u64 {
        model!(self, m => m.borrow_mut().advance(until_ns))
    }

    /// Returns whether the controller's interrupt line is asserted.
    pub fn irq(&self) -> bool {
        model!(self, m => m.borrow().irq())
    }

    /// Returns the time in ns at which the interrupt line was asserted; `None`: it is not asserted.
    pub fn irq_rose_ns(&self) -> Option<u64> {
        model!(self, m => m.borrow().irq_rose_ns())
    }

    /// Returns the time in ns of the controller's next event; `None`: no event is planned.
    pub fn next_event_ns(&self) -> Option<u64> {
        model!(self, m => m.borrow().next_event_ns())
    }

    /// Returns the counters of the bus and resets them to 0.
    pub fn take_stats(&self) -> BusStats {
        model!(self, m => m.borrow_mut().take_stats())
    }

    /// Sets the log that receives all bus events from now on.
    pub fn set_log(&self, log: Box<dyn FnMut(BusEvent)>) {
        model!(self, m => m.borrow_mut().set_log(Some(log)))
    }

    /// Reads `size` bytes (1, 2 or 4) of the controller's registers from `offset` on, at this
    /// virtual time.
    pub fn read(&self, offset: u16, size: u8, now_ns: u64) -> u32 {
        model!(self, m => m.borrow_mut().read(offset, size, now_ns))
    }

    /// Writes `value` to the controller's register at `offset`, with an access of `size` bytes, at
    /// this virtual time.
    pub fn write(&self, offset: u16, size: u8, value: u32, now_ns: u64) {
        model!(self, m => m.borrow_mut().write(offset, size, value, now_ns))
    }

    /// Returns whether the controller has a data FIFO that the CPU may have to empty.
    pub fn has_fifo(&self) -> bool {
        matches!(self, Model::S3cSdi(_))
    }
}

/// This project's driver for the controller that [`Model`] simulates; one variant for each kind of
/// controller.
// The variants differ in size, but each bench has only one of them.
#[allow(clippy::large_enum_variant)]
pub enum Driver {
    /// Driver of Samsung's SDI controller.
    S3cSdi(s3c_sdi::S3cSdi<Port, ShadowMemory>),
    /// Driver of an SD host controller of the standard, which transfers data by ADMA2.
    Sdhci(sdhci::Sdhci<Port, ShadowMemory, DESCRIPTORS>),
}

macro_rules! driver {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            Driver::S3cSdi($driver) => $call,
            Driver::Sdhci($driver) => $call,
        }
    };
}

impl Driver {
    /// Makes the driver of the board's controller on this register port.
    pub fn new(board: &Board, port: Port, memory: ShadowMemory, dma: DmaUse) -> Result<Self, String> {
        let max_clock_hz = board.clock_hz;
        match board.controller {
            Kind::S3cSdi => {
                let config = s3c_sdi::S3cSdiConfig::new(board.pclk_hz).dma(dma).max_clock_hz(max_clock_hz);
                let driver = s3c_sdi::S3cSdi::new(port, memory, config).map_err(|error| error.to_string())?;
                Ok(Driver::S3cSdi(driver))
            }
            Kind::Sdhci => {
                // The table is leaked, some hundred bytes for each bench, so that it outlives the
                // driver.
                let table: &'static mut sdhci::Table<DESCRIPTORS> = Box::leak(Box::new(sdhci::Table::new()));
                let config = sdhci::SdhciConfig::new().max_clock_hz(max_clock_hz);
                let driver =
                    sdhci::Sdhci::new(port, memory, table, config).map_err(|error| error.to_string())?;
                Ok(Driver::Sdhci(driver))
            }
        }
    }
}

// SAFETY: all calls go to one inner driver, in the same order and with unchanged segments.

unsafe impl Host for Driver {
    const CARD_IRQ: bool = true;

    mmcq::forward_host!(driver! => caps goes_on_with is_prompt map unmap start start_fast ack ack_fast
        interrupt_lost command_hangs set_bus isolate dat0_busy dat_levels present retune_ns supply_ma
        write_protected take_waker card_irq);
}
