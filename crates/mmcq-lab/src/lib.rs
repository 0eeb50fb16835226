//! The laboratory: fio jobs on simulated boards, reproductions of published tables, reports.

pub mod fio;
pub mod linux;
pub mod system;
