//! Functions of `mmcq.h` that few programs need. A linker that drops unused functions leaves them
//! out.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{Device, Place, Stack, open, patiently, wait, write};
use crate::code::{self, MMCQ_E_ARGUMENT, MMCQ_E_STATE};
use crate::platform::mmcq_platform;
use crate::supervisor::switched_off;
use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::{DmaBuf, Error, Kind, Request};
use mmcq::host::BusOp;

/// Writes blocks past every cache; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_write_durable` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_write_durable(host: u32, lba: u64, blocks: u32, memory: *const u8) -> i32 {
    // SAFETY: the caller fulfils the contract of `mmcq_write_durable`.
    unsafe {
        write(host, blocks, memory, |device, memory, idle| device.write_durable_blocking(lba, memory, idle))
    }
}

/// Discards blocks; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_discard(host: u32, lba: u64, blocks: u32) -> i32 {
    extended(host, blocks, async |device| device.discard(lba, blocks).await)
}

/// Erases blocks; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_erase(host: u32, lba: u64, blocks: u32) -> i32 {
    extended(host, blocks, async |device| device.erase(lba, blocks).await)
}

/// Makes the call `call` on the card of controller `host`, which needs to know what the card
/// supports in addition to reads and writes. If the engine does not know it yet, reads it from the
/// card first. `blocks` is the number of blocks of the call; 0 is an error.
fn extended(host: u32, blocks: u32, call: impl AsyncFn(Device) -> Result<(), Error>) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    if blocks == 0 {
        return MMCQ_E_ARGUMENT;
    }
    let once = || {
        stack.block_on(call(BlockDevice::new(stack)), |idle| wait(place, stack, platform, idle)).map(|()| 0)
    };
    patiently(place, stack, platform, || match once() {
        Err(Error::Unequipped) => {
            look_at_the_card(place, stack, platform)?;
            once()
        }
        result => result,
    })
}

/// Reads from the card which operations it supports in addition to reads and writes, and enables
/// these operations.
fn look_at_the_card(
    place: &'static Place,
    stack: &'static Stack,
    platform: &mmcq_platform,
) -> Result<(), Error> {
    let card = place.card(stack).ok_or(Error::NoCard)?;
    // Another call, a bring-up or a call like this one, uses the memory. The caller tries again.
    let scratch = place.take_scratch(stack)?;
    let look = card::enable_extended_ops(stack, &card, scratch);
    let (result, scratch) = stack.block_on(look, |idle| wait(place, stack, platform, idle));
    place.return_scratch(stack, scratch);
    result
}

/// Closes a controller; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_close` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_close(host: u32) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let Ok(scratch) = place.take_scratch(stack) else { return MMCQ_E_STATE };
    // Submitted requests may need the supervisor to end, so the controller cannot be closed now.
    if place.waiting.is_any() {
        place.return_scratch(stack, scratch);
        return MMCQ_E_STATE;
    }
    place.dismiss_supervisor(stack, platform);
    // A controller that could not be stopped still uses the memory of a request that has ended.
    if place.ahead.has_kept() || stack.with(|engine| engine.slots_in_use()) != 0 {
        if let Some(card) = place.card(stack) {
            place.supervisor.begin(stack, card, host);
        }
        place.return_scratch(stack, scratch);
        return MMCQ_E_STATE;
    }
    // A suspended engine would refuse the flush. No task waits for an I/O card any more.
    stack.with(|engine| {
        engine.resume(platform.now_ns());
        engine.mask_card_irq();
    });
    let result = match place.card(stack) {
        Some(card) => {
            // SAFETY: the supervisor has left, and this call took the scratch buffer.
            unsafe { place.supervisor.run(stack, switched_off, (stack, scratch, card), platform) }.0
        }
        None => {
            // Nothing can be lost: the card, if there is one, has no memory.
            let mut off = Request::new(Kind::Bus(BusOp::PowerOff), DmaBuf::EMPTY);
            off.urgent = true;
            stack.block_on(stack.request(off), |idle| platform.wait(idle));
            Ok(())
        }
    };
    stack.with(|_| platform.set_alarm(None));
    // SAFETY: the caller promises that no other call is in progress; the supervisor has ended.
    unsafe { place.close(platform) };
    code::of(result)
}
