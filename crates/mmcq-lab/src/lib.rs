//! The laboratory: fio jobs on simulated boards, reproductions of published tables, reports.

#![cfg_attr(not(test), deny(unsafe_code))]

pub mod alone;
pub mod board;
pub mod budgets;
pub mod buffers;
pub mod buslog;
pub mod compare;
pub mod controller;
#[cfg(target_os = "linux")]
pub mod device;
#[cfg(target_os = "linux")]
pub mod exec;
pub mod finished;
pub mod fio;
pub mod fit;
pub mod guest;
pub mod image;
pub mod linux;
pub mod ours;
pub mod page;
pub mod parallel;
pub mod params;
pub mod platform;
pub mod plot;
pub mod recorded;
pub mod registers;
pub mod reproduce;
pub mod runner;
pub mod scene;
pub mod sdio;
pub mod series;
pub mod serve;
pub mod sweep;
pub mod system;
pub mod table;
pub mod torture;
pub mod trace;
pub mod unix_socket;
pub mod why;

#[cfg(test)]
mod fuzz;
