//! Functions and types that a C program calls.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::model::{self, LogFile, Model};
use ::mmcq_sim::memory::{BusError, DeviceMemory};
use ::mmcq_sim::schedule::Schedule;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::path::Path;
use std::ptr;

/// Copies `count` bytes between `bytes` and guest memory at the address `address`: into the memory
/// if `to_memory` is not 0, otherwise out of it. Returns 0 on success.
pub type mmcq_sim_dma = unsafe extern "C" fn(
    opaque: *mut c_void,
    address: u64,
    bytes: *mut c_void,
    count: usize,
    to_memory: c_int,
) -> c_int;

/// The simulation: a controller model with a card in its slot.
pub struct mmcq_sim {
    model: Box<dyn Model>,
    schedule: Schedule,
    log: Option<LogFile>,
}

/// The guest's memory, which the controller model reads and writes through the caller's
/// `mmcq_sim_dma` function.
struct Memory {
    dma: mmcq_sim_dma,
    opaque: *mut c_void,
}

impl DeviceMemory for Memory {
    fn device_read(&self, bus: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        // SAFETY: the function belongs to `opaque`, and by the header it writes at most `count`
        // bytes, which is the size of the buffer.
        let status = unsafe { (self.dma)(self.opaque, bus, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if status != 0 {
            buffer.fill(0xff);
            return Err(BusError);
        }
        Ok(())
    }

    fn device_write(&self, bus: u64, data: &[u8]) -> Result<(), BusError> {
        // SAFETY: the function belongs to `opaque`; by the header it only reads `count` bytes here,
        // which is the size of the data.
        let status = unsafe { (self.dma)(self.opaque, bus, data.as_ptr().cast_mut().cast(), data.len(), 1) };
        if status == 0 { Ok(()) } else { Err(BusError) }
    }
}

/// Returns a C string as text. Fails if the pointer is null or the bytes are not UTF-8.
///
/// # Safety
/// `name` is null, or points to bytes that end with a zero byte and do not change.
unsafe fn text<'a>(name: *const c_char, what: &str) -> Result<&'a str, String> {
    if name.is_null() {
        return Err(format!("{what}: no text"));
    }
    // SAFETY: the pointer is not null, and the caller promises a zero byte at the end.
    unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| format!("{what}: not UTF-8"))
}

/// Builds a controller with a card. On failure it returns null and writes the reason into `error`,
/// in one line.
///
/// # Safety
/// The caller keeps the header's contract: texts end with a zero byte, `error` has room for
/// `error_bytes`, and `dma` may be called with `opaque` until [`mmcq_sim_free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_new(
    platform: *const c_char,
    card: *const c_char,
    log: *const c_char,
    dma: mmcq_sim_dma,
    opaque: *mut c_void,
    error: *mut c_char,
    error_bytes: usize,
) -> *mut mmcq_sim {
    let built = || {
        // SAFETY: by the caller's contract each of the three texts is null or ends with a zero
        // byte.
        let [platform, card, log] =
            unsafe { [text(platform, "platform")?, text(card, "card")?, text(log, "log")?] };
        let mut model = model::build(platform, card, Memory { dma, opaque })?;
        let log = (!log.is_empty()).then(|| model::log_to(&mut *model, Path::new(log))).transpose()?;
        Ok(Box::new(mmcq_sim { model, schedule: Schedule::default(), log }))
    };
    match built() {
        Ok(sim) => Box::into_raw(sim),
        Err(why) => {
            let why: String = why;
            // SAFETY: by the caller's contract `error` has room for `error_bytes`.
            unsafe { say(&why, error, error_bytes) };
            ptr::null_mut()
        }
    }
}

/// Writes the line `why` and a zero byte into the caller's buffer `error`. Cuts the line off if the
/// buffer is too small.
///
/// # Safety
/// `error` is null or has room for `error_bytes`.
unsafe fn say(why: &str, error: *mut c_char, error_bytes: usize) {
    if error.is_null() || error_bytes == 0 {
        return;
    }
    let count = why.len().min(error_bytes - 1);
    // SAFETY: the pointer is not null, and the buffer has room for `count` bytes and a zero byte.
    unsafe {
        ptr::copy_nonoverlapping(why.as_ptr(), error.cast(), count);
        error.add(count).write(0);
    }
}

/// Reads a schedule of events at the card slot from a file. Returns 0 on success; otherwise it
/// writes the reason into `error`, in one line.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it. Texts end with a
/// zero byte, and `error` has room for `error_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_schedule(
    sim: *mut mmcq_sim,
    file: *const c_char,
    error: *mut c_char,
    error_bytes: usize,
) -> c_int {
    let read = || {
        // SAFETY: by the caller's contract the text ends with a zero byte.
        let file = unsafe { text(file, "schedule")? };
        let list = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        Schedule::parse(&list).map_err(|why| format!("{file}: {why}"))
    };
    match read() {
        Ok(schedule) => {
            // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
            unsafe { whole(sim) }.schedule = schedule;
            0
        }
        Err(why) => {
            // SAFETY: by the caller's contract `error` has room for `error_bytes`.
            unsafe { say(&why, error, error_bytes) };
            1
        }
    }
}

/// Starts the schedule: its time 0 is `now_ns`.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_begin(sim: *mut mmcq_sim, now_ns: u64) {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    let sim = unsafe { whole(sim) };
    sim.reach(now_ns);
    sim.schedule.begin(&mut *sim.model, now_ns);
}

/// Executes one line of a schedule at once. Returns 0 on success; otherwise it writes the reason
/// into `error`, in one line.
///
/// # Safety
/// The contract is that of [`mmcq_sim_schedule`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_happen(
    sim: *mut mmcq_sim,
    what: *const c_char,
    now_ns: u64,
    error: *mut c_char,
    error_bytes: usize,
) -> c_int {
    let begun = || {
        // SAFETY: by the caller's contract the text ends, `sim` is alive, and no other call uses
        // it.
        let (what, sim) = unsafe { (text(what, "what")?, whole(sim)) };
        sim.reach(now_ns);
        if sim.schedule.next_ns().is_some() {
            return Err("the schedule is not over".to_owned());
        }
        let list = Schedule::parse(&format!("0 {what}"))?;
        sim.schedule = list;
        sim.schedule.begin(&mut *sim.model, now_ns);
        sim.reach(now_ns);
        Ok(())
    };
    match begun() {
        Ok(()) => 0,
        Err(why) => {
            // SAFETY: by the caller's contract `error` has room for `error_bytes`.
            unsafe { say(&why, error, error_bytes) };
            1
        }
    }
}

/// Returns the simulation behind the caller's pointer.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
unsafe fn whole<'a>(sim: *mut mmcq_sim) -> &'a mut mmcq_sim {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    unsafe { &mut *sim }
}

impl mmcq_sim {
    /// Advances the model to this time in ns, and executes the events of the user's schedule (such
    /// as faults and removals of the card) that come before it.
    fn reach(&mut self, now_ns: u64) {
        self.schedule.advance(&mut *self.model, now_ns);
    }
}

/// Frees the simulation, and writes the lines of the log that are still in memory. Returns 0 if the
/// log is complete.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it. No call with this
/// `sim` may follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_free(sim: *mut mmcq_sim) -> c_int {
    if sim.is_null() {
        return 0;
    }
    // SAFETY: the pointer was made by `Box::into_raw`, and is not used again.
    let sim = unsafe { Box::from_raw(sim) };
    let whole = sim.log.as_ref().is_none_or(|file| file.borrow_mut().flush().is_ok());
    c_int::from(!whole)
}

/// Reads the register at `offset`, of 1, 2 or 4 bytes, at the time `now_ns`.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_read(sim: *mut mmcq_sim, offset: u16, bytes: u8, now_ns: u64) -> u32 {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    let sim = unsafe { whole(sim) };
    sim.reach(now_ns);
    sim.model.read(offset, bytes, now_ns)
}

/// Writes a register of 1, 2 or 4 bytes at the time `now_ns`.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_write(sim: *mut mmcq_sim, offset: u16, bytes: u8, value: u32, now_ns: u64) {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    let sim = unsafe { whole(sim) };
    sim.reach(now_ns);
    sim.model.write(offset, bytes, value, now_ns);
}

/// Advances the model to the time `now_ns`, and executes the events of the schedule on the way.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_advance(sim: *mut mmcq_sim, now_ns: u64) {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    unsafe { whole(sim) }.reach(now_ns);
}

/// Returns the time in ns of the next event of the model or its schedule, if the program accesses
/// no register before. All ones: there is none.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_next_event(sim: *mut mmcq_sim) -> u64 {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    let sim = unsafe { whole(sim) };
    let [model_ns, list_ns] = [sim.model.next_event_ns(), sim.schedule.next_ns()];
    model_ns.into_iter().chain(list_ns).min().unwrap_or(u64::MAX)
}

/// Returns the level of the controller's interrupt line: 1 (asserted) or 0.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_interrupt(sim: *mut mmcq_sim) -> c_int {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    c_int::from(unsafe { whole(sim) }.model.irq())
}

/// Returns how many times the driver violated the standard.
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_violations(sim: *mut mmcq_sim) -> u64 {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    unsafe { whole(sim) }.model.protocol_violations()
}

/// Returns the number of commands on the bus so far, including those that the controller sends
/// automatically (such as Auto CMD12).
///
/// # Safety
/// `sim` came from [`mmcq_sim_new`], was not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_sim_commands(sim: *mut mmcq_sim) -> u64 {
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    unsafe { whole(sim) }.model.stats().command_count()
}
