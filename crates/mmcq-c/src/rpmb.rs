//! The replay-protected area (RPMB) of an eMMC.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{Parts, Place, SLOTS, Stack, alignment, open, patiently, wait};
use crate::code::{Failure, MMCQ_E_ARGUMENT, MMCQ_E_MEMORY, MMCQ_OK};
use crate::platform::mmcq_platform;
use core::ptr::NonNull;
use mmcq::engine::{DmaBuf, Error, Irreversible};
use mmcq::host::Direction;
use mmcq::rpmb::{Key, Relay, Rpmb, RpmbError, UNIT_BYTES};

/// Number that `mmcq_rpmb_program_key` requires as confirmation that the key is set for ever.
pub const MMCQ_RPMB_FOR_EVER: u32 = 0x4b45_5921;

/// Key, nonces and memory of a call, declared in `mmcq.h`.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_rpmb {
    pub key: *const u8,
    pub nonces: [[u8; 16]; 2],
    pub memory: *mut u8,
    pub memory_bytes: u32,
}

type Area = Rpmb<'static, Parts, SLOTS>;
type Open = (&'static Place, &'static Stack, &'static mmcq_platform);

/// The arguments of an RPMB call, after the check that each needed pointer is there.
struct Given {
    key: Key,
    nonces: [[u8; 16]; 2],
    memory: NonNull<u8>,
    bytes: u32,
}

/// Returns the checked arguments of a call that needs a key; `None` if one is missing.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_rpmb` in `mmcq.h`.
unsafe fn given(how: *const mmcq_rpmb) -> Option<Given> {
    // SAFETY: the caller promises the same.
    unsafe { perhaps_keyless(how) }.filter(|(_, is_keyed)| *is_keyed).map(|(given, _)| given)
}

/// Returns the checked arguments of a call that works without a key, and whether there is a key. If
/// the key is null, the arguments have 32 zeros as the key. `None`: a pointer is not valid.
///
/// # Safety The caller fulfils the contract of `mmcq_rpmb` in `mmcq.h`.
unsafe fn perhaps_keyless(how: *const mmcq_rpmb) -> Option<(Given, bool)> {
    if how.is_null() || !how.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned, and the caller promises a complete structure.
    let how = unsafe { how.read() };
    let is_keyed = !how.key.is_null();
    // SAFETY: not null, and the caller promises 32 bytes.
    let key = Key(if is_keyed { unsafe { how.key.cast::<[u8; 32]>().read() } } else { [0; 32] });
    let memory = NonNull::new(how.memory)?;
    Some((Given { key, nonces: how.nonces, memory, bytes: how.memory_bytes }, is_keyed))
}

/// Calls `go_on` with the open controller `host` and the checked arguments. Returns an error code
/// if the controller is not open, or if `given` is `None` (an argument is missing).
fn with_given(host: u32, given: Option<Given>, go_on: impl FnOnce(Open, &Given) -> i32) -> i32 {
    match (open(host), given) {
        (Err(code), _) => code,
        (_, None) => MMCQ_E_ARGUMENT,
        (Ok(open), Some(given)) => go_on(open, &given),
    }
}

/// Opens the area, and makes one call on it. Only the opening is repeated while no slot is free,
/// because a nonce must not be used twice.
fn with_area(
    (place, stack, platform): Open,
    given: &Given,
    call: impl AsyncFnOnce(&mut Area) -> Result<(), RpmbError>,
) -> i32 {
    let mut area = None;
    let code = patiently(place, stack, platform, || {
        alignment(stack, given.memory, Direction::Read)?;
        let card = place.card(stack).ok_or(Error::NoCard)?;
        // SAFETY: the program promises that the library may use the memory until the call returns.
        // A failed try has returned the memory.
        let buf = unsafe { DmaBuf::from_raw(given.memory, given.bytes) };
        let opened = stack.block_on(Rpmb::open(stack, &card, buf), |idle| wait(place, stack, platform, idle));
        area = Some(opened.map_err(|(error, buf)| {
            if buf.len_bytes() != 0 {
                return Failure::Engine(error);
            }
            stack.with(|_| place.ahead.note_kept(None));
            Failure::Code(MMCQ_E_MEMORY)
        })?);
        Ok::<_, Failure>(0)
    });
    let Some(mut area) = area else { return code };
    let result = stack.block_on(call(&mut area), |idle| wait(place, stack, platform, idle));
    // Clears the memory, which held secrets and signatures.
    let is_kept = area.close().is_none_or(|memory| memory.len_bytes() == 0);
    if is_kept {
        stack.with(|_| place.ahead.note_kept(None));
    }
    place.events(stack, platform);
    match result {
        _ if is_kept => MMCQ_E_MEMORY,
        Ok(()) => MMCQ_OK,
        Err(error) => Failure::from(error).code(),
    }
}

/// Returns the size of the RPMB area; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_rpmb_size` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_size(
    host: u32,
    how: *const mmcq_rpmb,
    units: *mut u32,
    write_units: *mut u32,
) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_rpmb_size`.
    let given = unsafe { perhaps_keyless(how) }.map(|(given, _)| given);
    with_given(host, given, |open, given| {
        if units.is_null() || write_units.is_null() || !units.is_aligned() || !write_units.is_aligned() {
            return MMCQ_E_ARGUMENT;
        }
        with_area(open, given, async |area| {
            // SAFETY: not null, aligned, and the caller promises room for the values.
            unsafe {
                units.write(area.units());
                write_units.write(area.write_units_max().into());
            }
            Ok(())
        })
    })
}

/// Programs the authentication key; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_rpmb_program_key` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_program_key(host: u32, how: *const mmcq_rpmb, for_ever: u32) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_rpmb_program_key`.
    with_given(host, unsafe { given(how) }, |open, given| {
        if for_ever != MMCQ_RPMB_FOR_EVER {
            return MMCQ_E_ARGUMENT;
        }
        let leave = Irreversible::i_know_that_this_cannot_be_undone();
        with_area(open, given, async |area| area.program_key(&given.key, leave).await)
    })
}

/// Reads the write counter; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_rpmb_counter` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_counter(host: u32, how: *const mmcq_rpmb, counter: *mut u32) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_rpmb_counter`.
    with_given(host, unsafe { given(how) }, |open, given| {
        if counter.is_null() || !counter.is_aligned() {
            return MMCQ_E_ARGUMENT;
        }
        with_area(open, given, async |area| {
            let now = area.counter(&given.key, given.nonces[0]).await?;
            // SAFETY: not null, aligned, and the caller promises room for the value.
            unsafe { counter.write(now) };
            Ok(())
        })
    })
}

/// Returns the size of `units` units in bytes; `None` if that is 0 or too large.
fn bytes_of(units: u32, data: *const u8) -> Option<usize> {
    let bytes = usize::from(u16::try_from(units).ok()?) * UNIT_BYTES;
    (bytes > 0 && !data.is_null() && data.addr().checked_add(bytes).is_some()).then_some(bytes)
}

/// Reads authenticated data; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_rpmb_read` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_read(
    host: u32,
    how: *const mmcq_rpmb,
    address: u16,
    units: u32,
    data: *mut u8,
) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_rpmb_read`.
    with_given(host, unsafe { given(how) }, |open, given| {
        let Some(bytes) = bytes_of(units, data) else { return MMCQ_E_ARGUMENT };
        // SAFETY: checked as far as possible, and the caller promises that only this call uses the
        // memory. Its old content is never read as a value.
        let data = unsafe { core::slice::from_raw_parts_mut(data, bytes) };
        with_area(open, given, async |area| area.read(&given.key, given.nonces[0], address, data).await)
    })
}

/// Writes authenticated data; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_rpmb_write` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_write(
    host: u32,
    how: *const mmcq_rpmb,
    address: u16,
    units: u32,
    data: *const u8,
) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_rpmb_write`.
    with_given(host, unsafe { given(how) }, |open, given| {
        let Some(bytes) = bytes_of(units, data) else { return MMCQ_E_ARGUMENT };
        // SAFETY: checked as far as possible, and the caller promises that the memory does not
        // change until this call returns.
        let data = unsafe { core::slice::from_raw_parts(data, bytes) };
        with_area(open, given, async |area| area.write(&given.key, given.nonces, address, data).await)
    })
}

/// Numbers of frames in a relayed exchange, declared in `mmcq.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_rpmb_frames {
    pub out: u16,
    pub back: u16,
    pub reliable: u8,
    pub ask: u8,
}

/// Transfers frames that the program makes and checks itself; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_rpmb_relay` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_relay(
    host: u32,
    how: *const mmcq_rpmb,
    counts: *const mmcq_rpmb_frames,
    frames: *mut u8,
) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_rpmb_relay`.
    let given = unsafe { perhaps_keyless(how) }.map(|(given, _)| given);
    with_given(host, given, |open, given| {
        if counts.is_null() || !counts.is_aligned() || frames.is_null() {
            return MMCQ_E_ARGUMENT;
        }
        // SAFETY: not null, aligned, and the caller promises a complete structure.
        let mmcq_rpmb_frames { out, back, reliable, ask } = unsafe { counts.read() };
        let relay = Relay { out, reliable: reliable != 0, ask: ask != 0, back };
        if frames.addr().checked_add(relay.bytes()).is_none() {
            return MMCQ_E_ARGUMENT;
        }
        // SAFETY: not null, and the caller promises that only this call uses the memory of so many
        // frames, which it has filled.
        let frames = unsafe { core::slice::from_raw_parts_mut(frames, relay.bytes()) };
        with_area(open, given, async |area| area.relay(relay, frames).await)
    })
}
