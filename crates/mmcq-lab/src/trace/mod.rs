//! The oscilloscope: a window of a run, with every bit on the bus, what the cores did, and the
//! requests.
//!
//! [`record`] runs something with probes at whatever board it builds; the boards, stacks and costs
//! know nothing of it, and the run is the same with and without. The [`Capture`] is written as a
//! waveform ([`vcd`]), a picture ([`picture`]), slices for a trace viewer ([`perfetto`]) or a list
//! ([`steps::list`]).

mod crc;
mod grid;
mod lines;
pub mod perfetto;
pub mod picture;
mod recorder;
pub mod steps;
pub mod vcd;
mod window;

pub use lines::Clk;
pub use recorder::{Capture, Event, Request, What};
pub(crate) use window::time;
pub use window::{Start, Window, WindowError, parse_time};

use crate::system::System;
use mmcq_sim::cpu::Cpu;
use mmcq_sim::probe::Probe;
use mmcq_sim::s3c_sdi::S3cSdi;
use recorder::Recorder;
use std::cell::RefCell;
use std::rc::Rc;

type Shared = Rc<RefCell<Recorder>>;

thread_local! {
    /// What records the boards that are built now.
    static RECORDER: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

/// What was recorded of a run.
pub struct Recording(Shared);

/// Runs something, and records this window of it.
pub fn record<R>(window: Window, run: impl FnOnce() -> R) -> (R, Recording) {
    let recorder = Rc::new(RefCell::new(Recorder::new(window)));
    RECORDER.with(|r| *r.borrow_mut() = Some(recorder.clone()));
    let result = run();
    RECORDER.with(|r| *r.borrow_mut() = None);
    (result, Recording(recorder))
}

impl Recording {
    /// The window, if the run had it.
    pub fn capture(self) -> Result<Capture, WindowError> {
        std::mem::take(&mut *self.0.borrow_mut()).capture()
    }
}

/// A board offers its slot: the probe, if anything records, goes to its controller.
pub fn attach(set: impl FnOnce(Probe)) {
    let Some(recorder) = RECORDER.with(|r| r.borrow().clone()) else { return };
    recorder.borrow_mut().attached = true;
    set(Box::new(move |signal| recorder.borrow_mut().signal(signal)));
}

/// A machine with so many jobs begins its work.
pub fn watch(sys: &mut System, jobs: u32) {
    let Some(recorder) = RECORDER.with(|r| r.borrow().clone()) else { return };
    recorder.borrow_mut().work_begins(sys.time.now(), sys.cpu.cores(), jobs);
    let cpu = recorder.clone();
    sys.cpu.set_log(Some(Box::new(move |span| cpu.borrow_mut().span(span))));
    let holds = recorder.clone();
    sys.held_log = Some(Box::new(move |held| holds.borrow_mut().held(held)));
    sys.log = Some(Box::new(move |io, result, now_ns| recorder.borrow_mut().io(io, result, now_ns)));
}

/// The same of the SDIO board, whose card also asks by DAT1.
pub fn attach_sdi(model: &RefCell<S3cSdi>) {
    let Some(recorder) = RECORDER.with(|r| r.borrow().clone()) else { return };
    attach(|probe| model.borrow_mut().set_probe(Some(probe)));
    let log = move |at_ns, low| recorder.borrow_mut().card_irq(at_ns, low);
    model.borrow_mut().set_dat1_log(Some(Box::new(log)));
}

/// A CPU with these threads begins its work.
pub fn watch_cpu<A: Copy>(now_ns: u64, cpu: &mut Cpu<A>, threads: &[&'static str]) {
    let Some(recorder) = RECORDER.with(|r| r.borrow().clone()) else { return };
    recorder.borrow_mut().work_begins(now_ns, cpu.cores(), 0);
    recorder.borrow_mut().threads(threads);
    cpu.set_log(Some(Box::new(move |span| recorder.borrow_mut().span(span))));
}
