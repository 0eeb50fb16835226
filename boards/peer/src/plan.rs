//! The modules of `boards/plan` that this image uses: only `alone`.

#[path = "../../plan/alone.rs"]
#[allow(dead_code, reason = "the lock is for mmcq's engine")]
pub mod alone;
