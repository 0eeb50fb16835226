//! Counters since the controller was opened.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::open;
use crate::code::{MMCQ_E_ARGUMENT, MMCQ_OK};

/// Counters of a controller for the C program, declared in `mmcq.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_statistics {
    pub requests: u64,
    pub transfers: u64,
    pub merged: u64,
    pub commands: u64,
    pub interrupts: u64,
    pub spurious: u64,
    pub lost_interrupts: u64,
    pub faults: u64,
    pub busy_polls: u64,
    pub status_asked: u64,
    pub durable_flushes: u64,
    pub cache_lost: u64,
    pub erase_pieces: u64,
    pub recovery_steps: u64,
}

/// Returns the counters of a controller; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_stats` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_stats(host: u32, statistics: *mut mmcq_statistics) -> i32 {
    let (_, stack, _) = match open(host) {
        Ok(open) => open,
        Err(code) => return code,
    };
    if statistics.is_null() || !statistics.is_aligned() {
        return MMCQ_E_ARGUMENT;
    }
    let stats = stack.with(|engine| *engine.stats());
    // A counter of the stack has the width of a pointer.
    #[allow(clippy::unnecessary_cast, reason = "not where a pointer has 32 bits")]
    let wide = |count| count as u64;
    let told = mmcq_statistics {
        requests: wide(stats.requests),
        transfers: wide(stats.transfers),
        merged: wide(stats.merged),
        commands: wide(stats.phases),
        interrupts: wide(stats.interrupts),
        spurious: wide(stats.spurious),
        lost_interrupts: wide(stats.lost_interrupts),
        faults: wide(stats.faults),
        busy_polls: wide(stats.busy_polls),
        status_asked: wide(stats.status_asked),
        durable_flushes: wide(stats.durable_flushes),
        cache_lost: wide(stats.cache_lost),
        erase_pieces: wide(stats.erase_pieces),
        recovery_steps: stats.recovery_steps.iter().map(|&count| wide(count)).sum(),
    };
    // SAFETY: not null, aligned, and the caller promises room for the structure.
    unsafe { statistics.write(told) };
    MMCQ_OK
}
