//! Registers of a card as the card sent them, and the last steps of recovery: what a report of a
//! problem needs.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::{open, patiently, wait};
use crate::code::{Failure, MMCQ_E_ARGUMENT, MMCQ_E_NO_CARD, MMCQ_OK};
use core::ffi::{CStr, c_char};
use mmcq::card::Family;
use mmcq::card::maintain::read_ext_csd;
use mmcq::engine::RecoveryStep;

/// Registers of a card, declared in `mmcq.h`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_registers {
    pub ocr: u32,
    pub scr: [u8; 8],
    pub ssr: [u8; 64],
    pub ext_csd: [u8; 512],
}

/// A step of recovery, declared in `mmcq.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_step {
    pub at_ns: u64,
    pub status: u32,
    pub step: u32,
}

/// Reads the card's registers; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_card_registers` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_card_registers(host: u32, registers: *mut mmcq_registers) -> i32 {
    let (place, stack, platform) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    if registers.is_null() || !registers.is_aligned() {
        return MMCQ_E_ARGUMENT;
    }
    let Some(card) = place.card(stack) else { return MMCQ_E_NO_CARD };
    // SAFETY: not null, aligned, and the caller promises room for the structure, whose bytes may
    // all be 0.
    unsafe { registers.write_bytes(0, 1) };
    // SAFETY: as above, and the structure was written just now.
    let registers = unsafe { &mut *registers };
    registers.ocr = card.ocr;
    if let Family::Sd(sd) = &card.family {
        (registers.scr, registers.ssr) = (sd.scr, sd.ssr);
        return MMCQ_OK;
    }
    patiently(place, stack, platform, || {
        // Another call uses the memory for registers, so this call tries again.
        let scratch = place.take_scratch(stack)?;
        let read = read_ext_csd(stack, &card, scratch);
        let (result, scratch) = stack.block_on(read, |idle| wait(place, stack, platform, idle));
        for (to, from) in registers.ext_csd.iter_mut().zip(scratch.iter()) {
            *to = *from;
        }
        place.return_scratch(stack, scratch);
        result.map(|()| 0).map_err(Failure::from)
    })
}

/// Returns the last steps of recovery; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_last_steps` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_last_steps(host: u32, steps: *mut mmcq_step, most: u32) -> i32 {
    let (_, stack, _) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    if steps.is_null() || !steps.is_aligned() {
        return MMCQ_E_ARGUMENT;
    }
    let mut told = [mmcq_step::default(); STEPS_MAX];
    let count = stack.with(|engine| {
        let all = engine.incidents();
        told.iter_mut()
            .zip(all)
            .map(|(to, event)| {
                *to = mmcq_step { at_ns: event.at_ns, status: event.status, step: event.step as u32 };
            })
            .count()
    });
    // The last ones, if there is not room for all.
    let from = count.saturating_sub(most as usize);
    for (at, step) in told.iter().take(count).skip(from).enumerate() {
        // SAFETY: not null, aligned, and the caller promises room for `most` structures.
        unsafe { steps.add(at).write(*step) };
    }
    i32::try_from(count - from).unwrap_or(0)
}

/// Largest number of steps of recovery that the stack stores.
const STEPS_MAX: usize = 16;

/// Returns the name of a step; `mmcq.h` has the contract.
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_step_name(step: u32) -> *const c_char {
    let step = usize::try_from(step).ok().and_then(|step| RecoveryStep::ALL.get(step));
    step.map_or(c"unknown step", |step| name(*step)).as_ptr()
}

fn name(step: RecoveryStep) -> &'static CStr {
    match step {
        RecoveryStep::Classify => c"classify",
        RecoveryStep::Salvage => c"salvage",
        RecoveryStep::Status => c"status",
        RecoveryStep::Stop => c"stop",
        RecoveryStep::Retry => c"retry",
        RecoveryStep::Retune => c"retune",
        RecoveryStep::Slower => c"slower",
        RecoveryStep::Reset => c"reset",
        RecoveryStep::Reinit => c"reinit",
        RecoveryStep::PowerCycle => c"power cycle",
        RecoveryStep::Dead => c"dead",
    }
}
