//! The replay-protected area of an eMMC.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{Driver, Place, SLOTS, Stack, alignment, open, patiently, wait};
use crate::code::{Failure, MMCQ_E_ARGUMENT, MMCQ_OK};
use crate::platform::{Its, mmcq_platform};
use core::ptr::NonNull;
use mmcq::engine::{DmaBuf, Error, Irreversible};
use mmcq::host::Direction;
use mmcq::rpmb::{Key, Rpmb, RpmbError, UNIT_BYTES};

/// The number that `mmcq_rpmb_program_key` requires as confirmation.
pub const MMCQ_RPMB_FOR_EVER: u32 = 0x4b45_5921;

/// See the header.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_rpmb {
    pub key: *const u8,
    pub nonces: [[u8; 16]; 2],
    pub memory: *mut u8,
    pub memory_bytes: u32,
}

type Area = Rpmb<'static, (Its, Driver), SLOTS>;
type Open = (&'static Place, &'static Stack, &'static mmcq_platform);

/// The arguments of a call, checked.
struct Given {
    key: Key,
    nonces: [[u8; 16]; 2],
    memory: NonNull<u8>,
    bytes: u32,
}

/// # Safety
/// As the header says of `mmcq_rpmb`.
unsafe fn given(how: *const mmcq_rpmb) -> Option<Given> {
    if how.is_null() || !how.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned, and the caller promised a whole structure.
    let how = unsafe { how.read() };
    if how.key.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller promised 32 bytes.
    let key = Key(unsafe { how.key.cast::<[u8; 32]>().read() });
    Some(Given { key, nonces: how.nonces, memory: NonNull::new(how.memory)?, bytes: how.memory_bytes })
}

/// Calls `go_on` with the open controller and the arguments, if they are complete.
fn with_given(host: u32, given: Option<Given>, go_on: impl FnOnce(Open, &Given) -> i32) -> i32 {
    match (open(host), given) {
        (Err(code), _) => code,
        (_, None) => MMCQ_E_ARGUMENT,
        (Ok(open), Some(given)) => go_on(open, &given),
    }
}

/// Opens the area, and makes one call. Only the opening is repeated if no slot is free: a nonce
/// must not be used twice.
fn with_area(
    (place, stack, platform): Open,
    given: &Given,
    call: impl AsyncFnOnce(&mut Area) -> Result<(), RpmbError>,
) -> i32 {
    let mut area = None;
    let code = patiently(place, stack, platform, || {
        alignment(stack, given.memory, Direction::Read)?;
        let card = place.card(stack).ok_or(Error::NoCard)?;
        // SAFETY: the program promised that it is the library's own until the call returns. A try
        // that failed has given it back.
        let buf = unsafe { DmaBuf::from_raw(given.memory, given.bytes) };
        let opened = stack.block_on(Rpmb::open(stack, &card, buf), |idle| wait(place, stack, platform, idle));
        area = Some(opened.map_err(|(error, _)| error)?);
        Ok::<_, Failure>(0)
    });
    let Some(mut area) = area else { return code };
    let result = stack.block_on(call(&mut area), |idle| wait(place, stack, platform, idle));
    // Clears the memory: there were secrets and signatures in it.
    let _memory = area.close();
    place.events(stack, platform);
    match result {
        Ok(()) => MMCQ_OK,
        Err(error) => Failure::from(error).code(),
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_size(
    host: u32,
    how: *const mmcq_rpmb,
    units: *mut u32,
    write_units: *mut u32,
) -> i32 {
    // SAFETY: as the caller promised.
    with_given(host, unsafe { given(how) }, |open, given| {
        if units.is_null() || write_units.is_null() || !units.is_aligned() || !write_units.is_aligned() {
            return MMCQ_E_ARGUMENT;
        }
        with_area(open, given, async |area| {
            // SAFETY: not null, aligned, and the caller promised room for them.
            unsafe {
                units.write(area.units());
                write_units.write(area.write_units_max().into());
            }
            Ok(())
        })
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_program_key(host: u32, how: *const mmcq_rpmb, for_ever: u32) -> i32 {
    // SAFETY: as the caller promised.
    with_given(host, unsafe { given(how) }, |open, given| {
        if for_ever != MMCQ_RPMB_FOR_EVER {
            return MMCQ_E_ARGUMENT;
        }
        let leave = Irreversible::i_know_that_this_cannot_be_undone();
        with_area(open, given, async |area| area.program_key(&given.key, leave).await)
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_counter(host: u32, how: *const mmcq_rpmb, counter: *mut u32) -> i32 {
    // SAFETY: as the caller promised.
    with_given(host, unsafe { given(how) }, |open, given| {
        if counter.is_null() || !counter.is_aligned() {
            return MMCQ_E_ARGUMENT;
        }
        with_area(open, given, async |area| {
            let now = area.counter(&given.key, given.nonces[0]).await?;
            // SAFETY: not null, aligned, and the caller promised room for it.
            unsafe { counter.write(now) };
            Ok(())
        })
    })
}

/// Returns the bytes of this many units, at least one.
fn bytes_of(units: u32, data: *const u8) -> Option<usize> {
    let bytes = usize::from(u16::try_from(units).ok()?) * UNIT_BYTES;
    (bytes > 0 && !data.is_null() && data.addr().checked_add(bytes).is_some()).then_some(bytes)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_read(
    host: u32,
    how: *const mmcq_rpmb,
    address: u16,
    units: u32,
    data: *mut u8,
) -> i32 {
    // SAFETY: as the caller promised.
    with_given(host, unsafe { given(how) }, |open, given| {
        let Some(bytes) = bytes_of(units, data) else { return MMCQ_E_ARGUMENT };
        // SAFETY: checked as far as can be, and the caller promised that it is the call's own. What is
        // in it is never read as a value.
        let data = unsafe { core::slice::from_raw_parts_mut(data, bytes) };
        with_area(open, given, async |area| area.read(&given.key, given.nonces[0], address, data).await)
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_rpmb_write(
    host: u32,
    how: *const mmcq_rpmb,
    address: u16,
    units: u32,
    data: *const u8,
) -> i32 {
    // SAFETY: as the caller promised.
    with_given(host, unsafe { given(how) }, |open, given| {
        let Some(bytes) = bytes_of(units, data) else { return MMCQ_E_ARGUMENT };
        // SAFETY: checked as far as can be, and the caller promised that it does not change until we
        // return.
        let data = unsafe { core::slice::from_raw_parts(data, bytes) };
        with_area(open, given, async |area| area.write(&given.key, given.nonces, address, data).await)
    })
}
