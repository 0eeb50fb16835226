//! Register ports: each register access of a driver happens at a virtual time and takes virtual
//! time.

use crate::time::Time;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Register interface of a controller model.
pub trait RegisterFile {
    /// Reads `size` bytes at the register offset `offset`, at the virtual time `now_ns`.
    fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32;

    /// Writes `size` bytes at the register offset `offset`, at the virtual time `now_ns`.
    fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64);
}

/// Implements [`RegisterFile`] for a model by its own methods `read` and `write`.
macro_rules! register_file {
    ($model:ty) => {
        impl $crate::port::RegisterFile for $model {
            fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
                <$model>::read(self, offset, size, now_ns)
            }

            fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
                <$model>::write(self, offset, size, value, now_ns);
            }
        }
    };
}
pub(crate) use register_file;

/// Counters of register accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Number of register reads.
    pub reads: u64,
    /// Number of register writes.
    pub writes: u64,
}

/// Access to the registers of a model, for code whose time is [`Time::now`].
///
/// Every access first advances the model to the present time, then acts, and then charges its cost.
/// Clones share model, time and counters.
pub struct Port<M> {
    /// Model of the controller.
    pub model: Rc<RefCell<M>>,
    /// Virtual time of the code that accesses the registers.
    pub time: Time,
    /// Time in ns that a register read takes.
    pub read_cost_ns: u64,
    /// Time in ns that a register write takes.
    pub write_cost_ns: u64,
    counters: Rc<Cell<PortCounters>>,
}

impl<M> Clone for Port<M> {
    fn clone(&self) -> Self {
        Port {
            model: self.model.clone(),
            time: self.time.clone(),
            read_cost_ns: self.read_cost_ns,
            write_cost_ns: self.write_cost_ns,
            counters: self.counters.clone(),
        }
    }
}

impl<M: RegisterFile> Port<M> {
    /// Makes a port to `model`, with counters at 0. Each read and each write of a register advances
    /// `time` by `read_cost_ns` or `write_cost_ns`.
    pub fn new(model: Rc<RefCell<M>>, time: Time, read_cost_ns: u64, write_cost_ns: u64) -> Self {
        Port { model, time, read_cost_ns, write_cost_ns, counters: Rc::default() }
    }

    /// Returns the numbers of register reads and writes so far.
    pub fn counters(&self) -> PortCounters {
        self.counters.get()
    }

    fn read(&self, offset: u16, size: u8) -> u32 {
        let value = self.model.borrow_mut().read(offset, size, self.time.now());
        self.time.charge(self.read_cost_ns);
        let counters = self.counters.get();
        self.counters.set(PortCounters { reads: counters.reads + 1, ..counters });
        value
    }

    fn write(&self, offset: u16, size: u8, value: u32) {
        self.model.borrow_mut().write(offset, size, value, self.time.now());
        self.time.charge(self.write_cost_ns);
        let counters = self.counters.get();
        self.counters.set(PortCounters { writes: counters.writes + 1, ..counters });
    }
}

mmcq::regs_by_width!([M: RegisterFile] Port<M>);
