//! Register ports: each access of a driver happens at a virtual time and takes time.

use crate::time::Time;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Register interface of a controller model.
pub trait RegisterFile {
    /// Reads `size` bytes at `offset`, at this time.
    fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32;

    /// Writes `size` bytes at `offset`, at this time.
    fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64);
}

/// Implements [`RegisterFile`] by a model's own `read` and `write`.
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
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// Register access to a model for the code that runs at [`Time::now`].
///
/// Every access first advances the model to now, then acts, then charges its time. Clones share
/// model, time and counters.
pub struct Port<M> {
    /// The controller's model.
    pub model: Rc<RefCell<M>>,
    /// Virtual time of the code that accesses it.
    pub time: Time,
    /// Time of a read in ns.
    pub read_cost_ns: u64,
    /// Time of a write in ns.
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
    /// Makes a port to `model`, with counters at 0.
    pub fn new(model: Rc<RefCell<M>>, time: Time, read_cost_ns: u64, write_cost_ns: u64) -> Self {
        Port { model, time, read_cost_ns, write_cost_ns, counters: Rc::default() }
    }

    /// Returns the number of accesses so far.
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
