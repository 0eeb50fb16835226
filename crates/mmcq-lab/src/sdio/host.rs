//! The host driver of the SDIO experiment with its CPU costs: register accesses, and the software
//! that calls the driver.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::model::{Driver, Model};
use super::platform::{Board, Costs};
use mmcq::host::s3c_sdi::{DmaUse, regs};
use mmcq::host::{BusOp, Caps, Direction, DmaError, Events, Host, Phase, Regs, Segment, StartError, Step};
use mmcq_sim::memory::ShadowMemory;
use mmcq_sim::time::Time;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Register port of the controller's model. Each access first advances the model to the present
/// time, and charges its CPU cost.
#[derive(Clone)]
pub struct Port {
    model: Model,
    time: Time,
    costs: Rc<Cell<Costs>>,
}

impl Port {
    fn charge(&self, offset: u16, other_ns: u64) {
        let costs = self.costs.get();
        self.time.charge(match offset {
            regs::DATA if self.model.has_fifo() => costs.fifo_word_ns,
            regs::FSTA if self.model.has_fifo() => costs.fifo_count_ns,
            _ => other_ns,
        });
    }

    // Not inlined: the model does this work, so it must not count as instructions of the driver.
    #[inline(never)]
    fn read(&self, offset: u16, size: u8) -> u32 {
        let value = self.model.read(offset, size, self.time.now());
        self.charge(offset, self.costs.get().register_ns);
        value
    }

    #[inline(never)]
    fn write(&self, offset: u16, size: u8, value: u32) {
        self.model.write(offset, size, value, self.time.now());
        self.charge(offset, self.costs.get().register_write_ns);
    }

    /// Returns the number of bytes in the controller's data FIFO.
    pub fn fifo_bytes(&self) -> u32 {
        self.read32(regs::FSTA) & regs::FSTA_COUNT
    }
}

mmcq::regs_by_width!([] Port);

/// The host driver, shared by the engine that brings the card up and by the code that is measured
/// afterwards. Its calls cost CPU time as in [`Costs`]; before [`set_costs`](Priced::set_costs)
/// they cost nothing.
#[derive(Clone)]
pub struct Priced {
    driver: Rc<RefCell<Driver>>,
    caps: Caps,
    port: Port,
    phase: Rc<Cell<Option<Phase>>>,
    by_dma: Rc<Cell<bool>>,
    phases: Rc<Cell<u64>>,
}

impl Priced {
    /// Makes a driver for the board's controller `model`, whose register accesses and calls cost
    /// CPU time. `dma`: which buffers are transferred by DMA.
    pub fn new(
        board: &Board,
        model: Model,
        memory: ShadowMemory,
        time: Time,
        dma: DmaUse,
    ) -> Result<Self, String> {
        let port = Port { model, time, costs: Rc::default() };
        let driver = Driver::new(board, port.clone(), memory, dma)?;
        let caps = *driver.caps();
        Ok(Priced {
            driver: Rc::new(RefCell::new(driver)),
            caps,
            port,
            phase: Rc::default(),
            by_dma: Rc::default(),
            phases: Rc::default(),
        })
    }

    /// Sets what the driver's calls cost from now on.
    pub fn set_costs(&self, costs: Costs) {
        self.port.costs.set(costs);
    }

    /// Returns what the driver's calls cost at present.
    pub fn costs(&self) -> Costs {
        self.port.costs.get()
    }

    /// Returns the register port, through which the driver accesses the controller.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Returns the command, with its data, that the controller executes; `None`: it executes none.
    pub fn phase(&self) -> Option<Phase> {
        self.phase.get()
    }

    /// Returns whether DMA transfers the data of the command in progress.
    pub fn by_dma(&self) -> bool {
        self.by_dma.get()
    }

    /// Returns the number of commands that the driver has started so far.
    pub fn phases(&self) -> u64 {
        self.phases.get()
    }

    fn charge(&self, ns: u64) {
        self.port.time.charge(ns);
    }
}

// SAFETY: all calls go to the inner driver, in the same order and with unchanged segments.

unsafe impl Host for Priced {
    const CARD_IRQ: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        let mapped = self.driver.borrow_mut().map(segment, direction);
        if segment.bus() != 0 {
            self.charge(self.costs().cache_ns / 2);
        }
        mapped
    }

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        if segment.bus() != 0 {
            self.charge(self.costs().cache_ns / 2);
        }
        self.driver.borrow_mut().unmap(segment, direction);
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.charge(self.costs().issue_ns);
        let started = self.driver.borrow_mut().start(phase, segments, timeout_ns);
        if started.is_ok() {
            self.phase.set(Some(*phase));
            self.by_dma.set(segments.first().is_some_and(|segment| segment.bus() != 0));
            self.phases.set(self.phases.get() + 1);
        }
        started
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let events = self.driver.borrow_mut().ack(segments);
        if events.phase.is_some() || events.card_irq {
            self.charge(self.costs().finalize_ns);
        } else if self.phase.get().is_some_and(|phase| phase.data.is_some()) {
            self.charge(self.costs().fifo_turn_ns);
        }
        if events.phase.is_some() {
            self.phase.set(None);
        }
        events
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.driver.borrow_mut().set_bus(op, first, now_ns)
    }

    fn dat0_busy(&self) -> bool {
        self.driver.borrow().dat0_busy()
    }

    fn dat_levels(&self) -> u8 {
        self.driver.borrow().dat_levels()
    }

    fn supply_ma(&self) -> u16 {
        self.driver.borrow().supply_ma()
    }

    fn present(&self) -> bool {
        self.driver.borrow().present()
    }

    fn card_irq(&mut self, on: bool) {
        self.driver.borrow_mut().card_irq(on);
    }
}
