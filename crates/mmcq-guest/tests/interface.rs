//! Tests of the interface that a C program calls.

use mmcq_guest::*;
use std::ffi::{CString, c_char, c_int, c_void};

/// A DMA function for a guest without memory: it copies nothing.
unsafe extern "C" fn nothing(_: *mut c_void, _: u64, _: *mut c_void, _: usize, _: c_int) -> c_int {
    1
}

fn new(platform: &str, card: &str, log: &str) -> Result<*mut mmcq_sim, String> {
    let [platform, card, log] = [platform, card, log].map(|text| CString::new(text).unwrap());
    let mut error = [0_u8; 80];
    let place = error.as_mut_ptr().cast::<c_char>();
    // SAFETY: the texts end with zero bytes, the room is the array's, and the DMA function touches
    // no memory.
    let sim = unsafe {
        let names = (platform.as_ptr(), card.as_ptr(), log.as_ptr());
        mmcq_sim_new(names.0, names.1, names.2, nothing, std::ptr::null_mut(), place, error.len())
    };
    let end = error.iter().position(|byte| *byte == 0).unwrap();
    if sim.is_null() { Err(String::from_utf8_lossy(&error[..end]).into_owned()) } else { Ok(sim) }
}

/// Switches on bus power and the card's clock (divider 2 x 256), and sends a command. Returns when
/// the command was sent and when its interrupt came, in ns.
///
/// # Safety
/// `sim` is alive, and no other call uses it.
unsafe fn command(sim: *mut mmcq_sim, code: u32, argument: u32) -> (u64, u64) {
    let stable_ns = 10_000_000;
    let begin_ns = 2 * stable_ns;
    // SAFETY: by the caller's contract `sim` is alive, and no other call uses it.
    unsafe {
        let present = mmcq_sim_read(sim, 0x24, 4, 0);
        assert_eq!(present >> 16 & 1, 1, "the card is in: {present:x}");
        mmcq_sim_write(sim, 0x29, 1, 0x0f, 10);
        mmcq_sim_write(sim, 0x2c, 2, 0x0041, 20);
        mmcq_sim_advance(sim, stable_ns);
        assert_eq!(mmcq_sim_read(sim, 0x2c, 2, stable_ns) & 3, 3, "the internal clock is stable");
        mmcq_sim_write(sim, 0x2c, 2, 0x0045, stable_ns);
        mmcq_sim_write(sim, 0x34, 4, 1, stable_ns);
        mmcq_sim_write(sim, 0x38, 4, 1, stable_ns);
        mmcq_sim_write(sim, 0x08, 4, argument, begin_ns);
        mmcq_sim_write(sim, 0x0e, 2, code, begin_ns);
        assert_eq!(mmcq_sim_interrupt(sim), 0);
        let mut at_ns = begin_ns;
        while mmcq_sim_interrupt(sim) == 0 {
            at_ns = mmcq_sim_next_event(sim);
            assert!(at_ns < u64::MAX, "nothing more to come");
            mmcq_sim_advance(sim, at_ns);
        }
        (begin_ns, at_ns)
    }
}

#[test]
fn a_command_takes_the_time_of_its_bits_and_ends_with_an_interrupt() {
    let folder = std::env::temp_dir().join(format!("mmcq-guest-{}", std::process::id()));
    let sim = new("generic", "sdxc-128g-uhs", folder.to_str().unwrap()).unwrap();
    // SAFETY: only this thread calls, and the model is freed last.
    unsafe {
        let (begin_ns, at_ns) = command(sim, 0, 0);
        // A command of 48 bits at 200 MHz / 512.
        assert_eq!(at_ns - begin_ns, 122_880);
        assert_eq!(mmcq_sim_read(sim, 0x30, 4, at_ns) & 1, 1);
        assert_eq!(mmcq_sim_violations(sim), 0);
        assert_eq!(mmcq_sim_free(sim), 0);
    }
    let log = std::fs::read_to_string(&folder).unwrap();
    std::fs::remove_file(&folder).unwrap();
    assert!(log.contains("Command { index: 0"), "{log}");
}

/// Checks an I/O card: CMD5 (response of 48 bits without checksum) reports one function and no
/// memory.
#[test]
fn a_card_may_have_functions_instead_of_blocks() {
    let sim = new("generic", "bt-type-a", "").unwrap();
    // SAFETY: only this thread calls, and the model is freed last.
    unsafe {
        let (_, at_ns) = command(sim, 5 << 8 | 2, 0);
        assert_eq!(mmcq_sim_read(sim, 0x10, 4, at_ns) >> 27 & 0xf, 1 << 1);
        assert_eq!(mmcq_sim_free(sim), 0);
    }
}

#[test]
fn a_schedule_begins_when_it_is_told_to_and_is_an_event_like_others() {
    let file = std::env::temp_dir().join(format!("mmcq-guest-list-{}", std::process::id()));
    let name = CString::new(file.to_str().unwrap()).unwrap();
    let mut error = [0_u8; 200];
    let place = error.as_mut_ptr().cast::<c_char>();
    let sim = new("generic", "sdxc-128g-uhs", "").unwrap();
    // SAFETY: only this thread calls, the texts end with zero bytes, the room is the array's, and
    // the model is freed last.
    unsafe {
        std::fs::write(&file, "5 out\n").unwrap();
        assert_eq!(mmcq_sim_schedule(sim, name.as_ptr(), place, 200), 1);
        std::fs::write(&file, "5 out 500\n").unwrap();
        assert_eq!(mmcq_sim_schedule(sim, name.as_ptr(), place, 200), 0);
        assert_eq!(mmcq_sim_next_event(sim), u64::MAX);
        mmcq_sim_begin(sim, 1_000_000);
        assert_eq!(mmcq_sim_next_event(sim), 6_000_000);
        assert_eq!(mmcq_sim_read(sim, 0x24, 4, 400_000_000) >> 16 & 1, 0, "out");
        mmcq_sim_advance(sim, 900_000_000);
        assert_eq!(mmcq_sim_read(sim, 0x24, 4, 900_000_000) >> 16 & 1, 1, "in again");
        assert_eq!(mmcq_sim_free(sim), 0);
    }
    std::fs::remove_file(&file).unwrap();
    let end = error.iter().position(|byte| *byte == 0).unwrap();
    assert!(String::from_utf8_lossy(&error[..end]).contains("line 1: out: expected how long"));
}

/// Checks that lines of a schedule can be executed at once: faults, a loss of the card's supply,
/// and a removal of the card.
#[test]
fn what_a_line_says_may_happen_at_once() {
    let sim = new("generic", "sdxc-128g-uhs", "").unwrap();
    let mut error = [0_u8; 200];
    let place = error.as_mut_ptr().cast::<c_char>();
    let happen = |what: &str, now_ns: u64| {
        let what = CString::new(what).unwrap();
        // SAFETY: only this thread calls, the text ends with a zero byte, and the room is the
        // array's.
        unsafe { mmcq_sim_happen(sim, what.as_ptr(), now_ns, place, 200) }
    };
    let inserted = |now_ns| {
        // SAFETY: only this thread calls.
        unsafe { mmcq_sim_read(sim, 0x24, 4, now_ns) >> 16 & 1 }
    };
    let second_ns = 1_000_000_000;
    assert_eq!(happen("out 500", second_ns), 0);
    assert_eq!(inserted(second_ns + 300_000_000), 0);
    assert_eq!(happen("cut 100", second_ns + 300_000_000), 1, "the card is out");
    assert_eq!(inserted(2 * second_ns), 1);
    assert_eq!([happen("cut 100", 2 * second_ns), happen("resp_lost", 3 * second_ns)], [0, 0]);
    assert_eq!(happen("out", 3 * second_ns), 1, "for how long");
    // SAFETY: only this thread calls, and the model is freed last.
    unsafe { assert_eq!(mmcq_sim_free(sim), 0) };
    let end = error.iter().position(|byte| *byte == 0).unwrap();
    assert!(String::from_utf8_lossy(&error[..end]).contains("out: expected how long"));
}

#[test]
fn realteks_reader_answers_by_its_own_registers() {
    let sim = new("stream-rtsx", "", "").unwrap();
    let (pending, access) = (0x14, 0x10);
    // SAFETY: only this thread calls, and the model is freed last.
    unsafe {
        assert_eq!(mmcq_sim_read(sim, pending, 4, 0), 1 << 16, "a card is in the slot");
        // The driver writes FDA9h, and reads it back.
        mmcq_sim_write(sim, access, 4, 0xfda9_ff5a, 10);
        assert_eq!(mmcq_sim_read(sim, access, 4, 1_000_010) & 0x8000_00ff, 0x5a);
        mmcq_sim_write(sim, access, 4, 0xbda9_0000, 1_000_020);
        assert_eq!(mmcq_sim_read(sim, access, 4, 2_000_020) & 0x8000_00ff, 0x5a);
        assert_eq!((mmcq_sim_interrupt(sim), mmcq_sim_violations(sim)), (0, 0));
        assert_eq!(mmcq_sim_free(sim), 0);
    }
}

#[test]
fn what_cannot_be_built_is_said_in_one_line_that_fits() {
    for (platform, card, log, word) in [
        ("generix", "", "", "generix"),
        ("stm32h7-sdmmc", "", "", "stm32h7-sdmmc"),
        ("generic", "no-card", "", "no-card"),
        ("generic", "", "/nowhere/log", "/nowhere/log"),
    ] {
        let error = new(platform, card, log).unwrap_err();
        assert!(error.contains(word) && error.len() < 80 && error.lines().count() == 1, "{error}");
    }
    // SAFETY: a null pointer is allowed, and nothing is freed.
    assert_eq!(unsafe { mmcq_sim_free(std::ptr::null_mut()) }, 0);
}
