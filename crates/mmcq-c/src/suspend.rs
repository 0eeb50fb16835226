//! Functions that a program calls before and after the machine sleeps.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{open, patiently, wait};
use crate::code::{MMCQ_E_NO_CARD, MMCQ_OK};
use core::future::poll_fn;
use core::task::Poll;
use mmcq::block::BlockDevice;

/// Writes the caches to the medium and suspends the controller; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_suspend(host: u32) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    let device = BlockDevice::new(stack);
    let flushed = patiently(place, stack, platform, || {
        device.flush_blocking(|idle| wait(place, stack, platform, idle)).map(|()| 0)
    });
    // Without a card there is nothing to flush.
    if !matches!(flushed, MMCQ_OK | MMCQ_E_NO_CARD) {
        return flushed;
    }
    // A transfer of an I/O function consists of several requests, and ends before the suspension.
    stack.with(|_| place.waiting.close_io(true));
    let over = poll_fn(|_| match stack.with(|_| place.waiting.is_io_over()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    });
    stack.block_on(over, |idle| wait(place, stack, platform, idle));
    stack.with(|engine| engine.suspend());
    let idle = poll_fn(|_| match stack.with(|engine| engine.is_idle()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    });
    stack.block_on(idle, |idle| wait(place, stack, platform, idle));
    place.events(stack, platform);
    MMCQ_OK
}

/// Resumes the controller after a suspend; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_resume(host: u32) -> i32 {
    match open(host) {
        Ok((place, stack, platform)) => {
            stack.with(|engine| {
                place.waiting.close_io(false);
                engine.resume(platform.now_ns());
            });
            // The timer may have stopped during the sleep, and then its alarm is late.
            stack.poll();
            place.supervisor.go_on(stack);
            place.events(stack, platform);
            MMCQ_OK
        }
        Err(code) => code,
    }
}
