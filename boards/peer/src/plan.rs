//! Of what the other images do only being alone.

#[path = "../../plan/alone.rs"]
#[allow(dead_code, reason = "the lock is for mmcq's engine")]
pub mod alone;
