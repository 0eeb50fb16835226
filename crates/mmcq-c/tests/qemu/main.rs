//! Tests of the C library on the uSDHC of QEMU's machines, which this project did not write. The
//! functions of the header drive the controller from outside of the machine, through qtest, as the
//! tests of the core do (`crates/mmcq/tests/qemu`), and the card's image is compared.
//!
//! A machine whose QEMU is not installed is left out, and a line says so. If `CI` is set, the QEMU
//! of the Arm machines must be installed.

#![allow(dead_code, reason = "the tests of the core use the rest of these modules")]

#[path = "../../../mmcq/tests/qemu/image.rs"]
mod image;
#[path = "../../../mmcq/tests/qemu/machine.rs"]
mod machine;
#[path = "../../../mmcq/tests/qemu/memory.rs"]
mod memory;
#[path = "../../../mmcq/tests/qemu/pci.rs"]
mod pci;
#[path = "../../../mmcq/tests/qemu/qtest.rs"]
mod qtest;
#[path = "../../../mmcq/tests/qemu/registers.rs"]
mod registers;
#[path = "../../../mmcq/tests/qemu/socs.rs"]
mod socs;
#[path = "../../../mmcq/tests/support/watchdog.rs"]
mod watchdog;

use image::{BLOCK, Random};
use machine::{Machine, SDHC_BYTES, SDSC_BYTES};
use mmcq::host::{Direction, Dma, Regs};
use mmcq_c::{
    mmcq_bring_up, mmcq_card, mmcq_card_present, mmcq_close, mmcq_error_name, mmcq_flush, mmcq_idle,
    mmcq_on_irq, mmcq_open_usdhc, mmcq_platform, mmcq_poll, mmcq_read, mmcq_stats, mmcq_usdhc, mmcq_write,
};
use socs::{SABRELITE, Soc};
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest sleep of `wait`, in nanoseconds.
const SLEEP_NS: u64 = 1_000_000;
/// Number of blocks of the card that a test writes and reads.
const WINDOW: usize = 2048;

/// The evaluation board of the i.MX 6UL: its first uSDHC has a slot.
const MCIMX6UL: Soc = Soc {
    name: "mcimx6ul-evk",
    registers: 0x0219_0000,
    interrupts: "/machine/soc/a7mpcore",
    line: 22,
    memory: 0x8000_0000,
    own_card: true,
    ..SABRELITE
};

/// What the functions of the platform have as `context`.
struct Board {
    machine: Machine,
    host: u32,
    alarm_ns: AtomicU64,
}

fn board<'a>(context: *mut c_void) -> &'a Board {
    // SAFETY: the context of each platform is a board, which is never freed.
    unsafe { &*context.cast::<Board>() }
}

fn direction(to_card: i32) -> Direction {
    if to_card != 0 { Direction::Write } else { Direction::Read }
}

unsafe extern "C" fn read(context: *mut c_void, offset: u16, bytes: u8) -> u32 {
    assert_eq!(bytes, 4, "read of {offset:#x}");
    board(context).machine.registers().read32(offset)
}

unsafe extern "C" fn write(context: *mut c_void, offset: u16, bytes: u8, value: u32) {
    assert_eq!(bytes, 4, "write to {offset:#x}");
    board(context).machine.registers().write32(offset, value);
}

/// The test has one thread for each controller, and calls `mmcq_on_irq` from that thread.
unsafe extern "C" fn nothing(_: *mut c_void) {}

unsafe extern "C" fn now_ns(context: *mut c_void) -> u64 {
    board(context).machine.now_ns()
}

unsafe extern "C" fn set_alarm(context: *mut c_void, at_ns: u64) {
    board(context).alarm_ns.store(at_ns, Ordering::Relaxed);
}

/// Sleeps until the interrupt or the alarm, and never polls the controller without one.
unsafe extern "C" fn wait(context: *mut c_void, _: *const mmcq_idle) {
    let Board { machine, host, alarm_ns } = board(context);
    let (now, alarm_ns) = (machine.now_ns(), alarm_ns.load(Ordering::Relaxed));
    if machine.wait_irq(alarm_ns.saturating_sub(now).min(SLEEP_NS)) {
        assert_eq!(mmcq_on_irq(*host), 1, "an interrupt without an event");
    } else if machine.now_ns() >= alarm_ns {
        mmcq_poll(*host);
    }
}

unsafe extern "C" fn map(
    context: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
    to_card: i32,
    bus: *mut u64,
) -> i32 {
    let memory = NonNull::new(memory.cast()).unwrap();
    let mapped = board(context).machine.dma().map(memory, bytes, direction(to_card)).unwrap();
    // SAFETY: the library gives a place for the number.
    unsafe { bus.write(mapped) };
    0
}

unsafe extern "C" fn unmap(context: *mut c_void, bus: u64, memory: *mut c_void, bytes: usize, to_card: i32) {
    let memory = NonNull::new(memory.cast()).unwrap();
    board(context).machine.dma().unmap(bus, memory, bytes, direction(to_card));
}

unsafe extern "C" fn sync(context: *mut c_void, bus: u64, memory: *mut c_void, bytes: usize) {
    board(context).machine.dma().sync(bus, NonNull::new(memory.cast()).unwrap(), bytes);
}

fn platform(board: &'static Board, quirks: Option<&'static CStr>) -> mmcq_platform {
    mmcq_platform {
        context: std::ptr::from_ref(board).cast_mut().cast(),
        base: null_mut(),
        read: Some(read),
        write: Some(write),
        lock: Some(nothing),
        unlock: Some(nothing),
        now_ns: Some(now_ns),
        set_alarm: Some(set_alarm),
        wait: Some(wait),
        map: Some(map),
        unmap: Some(unmap),
        sync: Some(sync),
        quirks: quirks.map_or(null(), CStr::as_ptr),
        flags: 0,
        cache_line: 0,
        card_event: None,
        patience_ms: 0,
        piece: None,
        dma: null_mut(),
        dma_bus: 0,
        dma_bytes: 0,
    }
}

/// Checks that a call had this result, such as `MMCQ_OK`.
#[track_caller]
fn is(code: i32, name: &str) {
    // SAFETY: the library returns a static C string.
    let got = unsafe { CStr::from_ptr(mmcq_error_name(code)) };
    assert_eq!(got.to_str().unwrap(), name);
}

/// A board with the usual values, and one with other values.
const USUAL: mmcq_usdhc =
    mmcq_usdhc { root_hz: 198_000_000, max_hz: 0, width: 0, fixed: 0, reserved: [0; 2] };
const OTHER: mmcq_usdhc = mmcq_usdhc { max_hz: 20_000_000, width: 1, fixed: 1, ..USUAL };

/// Starts the machine whose controller is number `host` of the library. Returns `None` if QEMU is
/// not installed and that is no failure.
fn started(soc: &Soc, host: u32, image_bytes: Option<u64>) -> Option<&'static Board> {
    let machine = socs::machine(soc, image_bytes)?;
    Some(Box::leak(Box::new(Board { machine, host, alarm_ns: AtomicU64::new(u64::MAX) })))
}

fn open(soc: &Soc, board: &'static Board, around: &mmcq_usdhc) {
    let platform = platform(board, (soc.name == "sabrelite").then_some(c"no-auto-cmd23"));
    // SAFETY: platform and board are whole structures, and what they name is never freed.
    is(unsafe { mmcq_open_usdhc(board.host, &raw const platform, around) }, "MMCQ_OK");
}

fn close(board: &Board) {
    // SAFETY: no other call is in progress.
    is(unsafe { mmcq_close(board.host) }, "MMCQ_OK");
    assert_eq!(board.machine.dma().live(), 0, "memory is still mapped");
}

/// Writes and reads parts of the window, compares them with what was written, and at the end the
/// image of the card.
fn load(board: &Board, blocks_on_card: u64) {
    let (host, base) = (board.host, blocks_on_card / 2 - WINDOW as u64 / 2);
    let mut model = board.machine.image().read(base as u32, WINDOW as u32);
    let mut random = Random(1);
    for _ in 0..60 {
        let blocks = [1, 256, 1 + random.below(255)][random.below(3) as usize];
        let at = random.below(WINDOW as u32 - blocks + 1);
        let range = at as usize * BLOCK..(at + blocks) as usize * BLOCK;
        let lba = base + u64::from(at);
        if random.below(2) == 0 {
            model[range.clone()].copy_from_slice(&random.bytes(range.len()));
            // SAFETY: the memory has this number of blocks, and nothing changes it.
            is(unsafe { mmcq_write(host, lba, blocks, model[range].as_ptr()) }, "MMCQ_OK");
        } else {
            let mut memory = vec![0xee; range.len()];
            // SAFETY: the memory has this number of blocks, and nothing else uses it.
            is(unsafe { mmcq_read(host, lba, blocks, memory.as_mut_ptr()) }, "MMCQ_OK");
            assert!(memory == model[range], "a read brings something else than was written");
        }
    }
    is(mmcq_flush(host), "MMCQ_OK");
    let image = board.machine.image().read(base as u32, WINDOW as u32);
    assert!(image == model, "the image differs from what was written");
}

/// Tests cards of both sizes, and then the same controller without a card.
fn judge(soc: &Soc, host: u32) {
    for image_bytes in [SDSC_BYTES, SDHC_BYTES] {
        let Some(board) = started(soc, host, Some(image_bytes)) else { return };
        for (around, found) in [(USUAL, (4, 50_000_000)), (OTHER, (1, 20_000_000))] {
            open(soc, board, &around);
            assert_eq!(mmcq_card_present(host), 1);
            let mut card = MaybeUninit::<mmcq_card>::uninit();
            // SAFETY: there is room for the structure, which the library writes if the call succeeds.
            let card = unsafe {
                is(mmcq_bring_up(host, card.as_mut_ptr()), "MMCQ_OK");
                card.assume_init()
            };
            assert_eq!((card.blocks, card.emmc, card.pieces), (image_bytes / 512, 0, 1));
            assert_eq!((card.width, card.clock_hz), found);
            load(board, card.blocks);
            let mut counts = MaybeUninit::uninit();
            // SAFETY: there is room for the structure, which the library writes.
            let counts = unsafe {
                is(mmcq_stats(host, counts.as_mut_ptr()), "MMCQ_OK");
                counts.assume_init()
            };
            assert_eq!((counts.lost_interrupts, counts.faults), (0, 0), "{}", soc.name);
            println!("{}: {} requests, {} interrupts", soc.name, counts.requests, counts.interrupts);
            close(board);
        }
    }
    let Some(board) = started(soc, host, None) else { return };
    for (around, present) in [(USUAL, 0), (OTHER, 1)] {
        open(soc, board, &around);
        assert_eq!(mmcq_card_present(host), present);
        // SAFETY: a null pointer is allowed.
        is(unsafe { mmcq_bring_up(host, null_mut()) }, "MMCQ_E_NO_CARD");
        close(board);
    }
}

#[test]
fn mcimx6ul_evk() {
    judge(&MCIMX6UL, 0);
}

#[test]
fn sabrelite() {
    judge(&SABRELITE, 1);
}
