//! The oscilloscope: a window of a run, with every bit on the bus, the activity of the CPU cores,
//! and the requests.
//!
//! [`record`] runs something and attaches probes to the board that it builds. The run is the same
//! with and without probes, since boards, stacks and costs do not know of them. The [`Capture`] is
//! written as a waveform ([`Dump`]), a picture ([`picture`]), slices for a trace viewer
//! ([`perfetto`]) or a list ([`steps::list`]).
//!
//! A capture stores its window in memory. A waveform can do without: [`survey`] runs once to find
//! the names of its lines, and [`Dump::draw`] runs again and writes during the run.

mod capture;
mod crc;
#[cfg(feature = "fst")]
mod fst;
mod grid;
mod lines;
pub mod perfetto;
pub mod picture;
mod recorder;
pub mod steps;
mod vcd;
mod wave;
mod window;

pub use capture::{Capture, Event, Request, What};
pub use lines::Clk;
pub use wave::Head;
pub(crate) use window::time;
pub use window::{Start, Window, WindowError, parse_time};

use crate::system::System;
use mmcq_sim::cpu::Cpu;
use mmcq_sim::probe::Probe;
use mmcq_sim::s3c_sdi::S3cSdi;
use recorder::{HandOn, Recorder, SLACK_NS, Told};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use wave::Wave;

type Shared = Rc<RefCell<Recorder>>;

thread_local! {
    /// Recorder that is attached to each board that this thread builds; `None`: nothing is being
    /// recorded.
    static RECORDER: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

/// Recording of a window of a run.
pub struct Recording(Shared);

/// Calls `run` and records the given window of the run, with at most a million records. Returns the
/// result of `run`, and the recording.
pub fn record<R>(window: Window, run: impl FnOnce() -> R) -> (R, Recording) {
    watched(Recorder::new(window, None), run)
}

fn watched<R>(recorder: Recorder, run: impl FnOnce() -> R) -> (R, Recording) {
    let recorder = Rc::new(RefCell::new(recorder));
    RECORDER.with(|r| *r.borrow_mut() = Some(recorder.clone()));
    let result = run();
    RECORDER.with(|r| *r.borrow_mut() = None);
    (result, Recording(recorder))
}

impl Recording {
    /// Returns the recorded window, if the run reached it.
    pub fn capture(self) -> Result<Capture, WindowError> {
        std::mem::take(&mut *self.0.borrow_mut()).capture()
    }

    fn rest(self) -> Result<Told, WindowError> {
        std::mem::take(&mut *self.0.borrow_mut()).rest()
    }
}

/// What a first run has found out about the window, so that a second run can draw its waveform: the
/// header, and how far out of order events were reported.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Header of the waveform that [`Dump::draw`] will write.
    pub head: Head,
    told: Told,
}

impl Survey {
    /// Returns the largest number of records of bus and CPU activity that this first run had in
    /// memory at a time. The number does not grow with the length of the window.
    pub fn most_held(&self) -> usize {
        self.told.most_held
    }
}

/// Executes `run` and collects, in one pass, what the header of its waveform needs. The window's
/// events are not stored. If an event was reported so late that the header may lack it, executes
/// `run` a second time. Returns the result of `run`, and what was collected.
pub fn survey<R>(window: Window, mut run: impl FnMut() -> R) -> (R, Result<Survey, WindowError>) {
    let (result, survey) = survey_once(window, SLACK_NS, &mut run);
    match survey {
        Ok(survey) if survey.told.late_ns > SLACK_NS => survey_once(window, survey.told.late_ns, run),
        survey => (result, survey),
    }
}

fn survey_once<R>(
    window: Window,
    slack_ns: u64,
    run: impl FnOnce() -> R,
) -> (R, Result<Survey, WindowError>) {
    let head = Rc::new(RefCell::new(Head::new()));
    let sink = head.clone();
    let take = Box::new(move |part: &Capture| sink.borrow_mut().add(part));
    let (result, recording) = watched(Recorder::new(window, Some(HandOn { slack_ns, take })), run);
    let survey = recording.rest().map(|told| Survey { head: head.borrow().clone(), told });
    (result, survey)
}

/// File format of a waveform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// Value change dump (VCD): text that all viewers and decoders can read.
    Vcd,
    /// Fast Signal Trace (FST): compressed.
    #[cfg(feature = "fst")]
    Fst,
}

impl Dump {
    /// Returns the largest number of clock cycles whose edges this format can write one by one.
    pub const fn cycles_max(self) -> u64 {
        match self {
            Dump::Vcd => vcd::CYCLES_MAX,
            #[cfg(feature = "fst")]
            Dump::Fst => fst::CYCLES_MAX,
        }
    }

    fn begin(self, head: &Head, clk: Clk, out: impl Out) -> io::Result<Wave> {
        let format: Box<dyn wave::Format> = match self {
            Dump::Vcd => Box::new(vcd::Vcd::new(head, clk, out)?),
            #[cfg(feature = "fst")]
            Dump::Fst => Box::new(fst::Fst::new(head, clk, out)?),
        };
        Ok(Wave::new(head, clk, format))
    }

    /// Writes the waveform of a captured window. Time 0 is the start of the window. The unit of
    /// time is 1 ns if all edges are at whole nanoseconds, otherwise 1 ps.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write(self, capture: &Capture, clk: Clk, out: impl Out) -> io::Result<()> {
        self.begin(&Head::of(capture), clk, out)?.whole(capture)
    }

    /// Calls `run`, which must do the same as in [`survey`], and writes the waveform while it runs.
    ///
    /// # Errors
    /// Errors of `out`, or this run does not reach the window.
    pub fn draw<R>(
        self,
        (window, survey): (Window, &Survey),
        clk: Clk,
        out: impl Out,
        run: impl FnOnce() -> R,
    ) -> io::Result<R> {
        let wave = Rc::new(RefCell::new((self.begin(&survey.head, clk, out)?, Ok(()))));
        let sink = wave.clone();
        let take = Box::new(move |part: &Capture| {
            let (wave, written) = &mut *sink.borrow_mut();
            if written.is_ok() {
                *written = wave.part(part);
            }
        });
        let slack_ns = survey.told.late_ns.max(SLACK_NS);
        let (result, recording) = watched(Recorder::new(window, Some(HandOn { slack_ns, take })), run);
        recording.rest().map_err(io::Error::other)?;
        let (wave, written) = &mut *wave.borrow_mut();
        std::mem::replace(written, Ok(()))?;
        wave.end()?;
        Ok(result)
    }
}

/// Destination of a waveform, such as a file.
pub trait Out: io::Write + io::Seek + 'static {}

impl<T: io::Write + io::Seek + 'static> Out for T {}

/// Attaches the recorder's probe to a board's controller, if this thread is recording. `set` puts
/// the probe into the controller.
pub fn attach(set: impl FnOnce(Probe)) {
    let Some(recorder) = RECORDER.with(|r| r.borrow().clone()) else { return };
    recorder.borrow_mut().attached = true;
    set(Box::new(move |signal| recorder.borrow_mut().signal(signal)));
}

/// Attaches the recorder to a machine with this number of jobs, whose jobs begin now.
pub fn watch(sys: &mut System, jobs: u32) {
    let Some(recorder) = RECORDER.with(|r| r.borrow().clone()) else { return };
    recorder.borrow_mut().work_begins(sys.time.now(), sys.cpu.cores(), jobs);
    let cpu = recorder.clone();
    sys.cpu.set_log(Some(Box::new(move |span| cpu.borrow_mut().span(span))));
    let holds = recorder.clone();
    sys.held_log = Some(Box::new(move |held| holds.borrow_mut().held(held)));
    sys.log = Some(Box::new(move |io, result, now_ns| recorder.borrow_mut().io(io, result, now_ns)));
}

/// Attaches the recorder to the board of the SDIO experiment, whose card also interrupts by DAT1.
pub fn attach_sdi(model: &RefCell<S3cSdi>) {
    let Some(recorder) = RECORDER.with(|r| r.borrow().clone()) else { return };
    attach(|probe| model.borrow_mut().set_probe(Some(probe)));
    let log = move |at_ns, low| recorder.borrow_mut().card_irq(at_ns, low);
    model.borrow_mut().set_dat1_log(Some(Box::new(log)));
}

/// Attaches the recorder to a CPU with threads of these names, which begins its work now.
pub fn watch_cpu<A: Copy>(now_ns: u64, cpu: &mut Cpu<A>, threads: &[&'static str]) {
    let Some(recorder) = RECORDER.with(|r| r.borrow().clone()) else { return };
    recorder.borrow_mut().work_begins(now_ns, cpu.cores(), 0);
    recorder.borrow_mut().threads(threads);
    cpu.set_log(Some(Box::new(move |span| recorder.borrow_mut().span(span))));
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use super::*;
    use mmcq_sim::card::BusState;
    use mmcq_sim::probe::Signal;
    use std::io::{Read, Seek};

    /// Runs a controller that sends a command every 20 us and stops the clock once, for `stop_ns`;
    /// the model reports the stop at its end.
    fn run(stop_ns: u64) {
        attach(|mut probe| {
            let bus = BusState { powered: true, clock_hz: 50_000_000, width: 4, ..BusState::default() };
            probe(&Signal::Bus { at_ns: 0, bus, low: false });
            for n in 1..10_000 {
                let start_ns = n * 20_000;
                probe(&Signal::Command { index: 13, arg: 0, auto: false, start_ns, end_ns: start_ns + 960 });
                if n % 2_500 == 0 {
                    probe(&Signal::ClockStopped { from_ns: start_ns - stop_ns, until_ns: start_ns });
                }
            }
        });
    }

    /// Checks that an event that is reported later than usual is drawn at the time at which it
    /// happened. The waveform is written in parts, so a part must wait for late reports of its
    /// events.
    #[test]
    fn what_is_told_late_is_drawn_in_its_place() {
        let window = Window { start: Start::BringUp, before_ns: 0, for_ns: Some(190_000_000) };
        for stop_ns in [15_000_000, 45_000_000] {
            let bytes = |write: &dyn Fn(std::fs::File)| {
                let mut file = tempfile::tempfile().unwrap();
                write(file.try_clone().unwrap());
                let mut bytes = Vec::new();
                file.rewind().and_then(|()| file.read_to_end(&mut bytes)).unwrap();
                bytes
            };
            let capture = record(window, || run(stop_ns)).1.capture().unwrap();
            let (_, survey) = survey(window, || run(stop_ns));
            let survey = survey.unwrap();
            assert!(survey.told.late_ns >= stop_ns && survey.told.late_ns < stop_ns + 100_000);
            let kept = bytes(&|file| Dump::Vcd.write(&capture, Clk::Gated, file).unwrap());
            let drawn =
                bytes(&|file| Dump::Vcd.draw((window, &survey), Clk::Gated, file, || run(stop_ns)).unwrap());
            assert!(kept == drawn && kept.len() > 100_000, "{stop_ns}");
        }
    }
}
