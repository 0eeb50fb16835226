//! The laboratory: fio jobs on simulated boards, reproductions of published tables, reports.
//!
//! Without the feature `host`, the crate needs no operating system. It then has boards and cards,
//! fio's jobs, the runner with its reports, the analysis `why`, the oscilloscope and the list of
//! parameters.
//!
//! # The crates beside it
//! [`mmcq`](https://docs.rs/mmcq) is the stack itself.
//! [`mmcq-embassy`](https://docs.rs/mmcq-embassy) brings it to embassy,
//! [`mmcq-c`](https://docs.rs/mmcq-c) to C, and [`mmcq-vfio`](https://docs.rs/mmcq-vfio) to a PCI
//! card reader under Linux. [`mmcq-sim`](https://docs.rs/mmcq-sim) has the models of controllers
//! and cards. [`mmcq-torture`](https://docs.rs/mmcq-torture) has faults and power cuts on the
//! models.

// docs.rs then shows for each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), deny(unsafe_code))]

#[cfg(feature = "host")]
pub mod baseline;
pub mod board;
#[cfg(feature = "host")]
pub mod budgets;
pub mod buffers;
pub mod buslog;
#[cfg(feature = "host")]
pub mod compare;
pub mod controller;
#[cfg(all(feature = "outside", target_os = "linux"))]
pub mod device;
pub mod effects;
#[cfg(all(feature = "outside", target_os = "linux"))]
pub mod exec;
pub mod finished;
pub mod fio;
#[cfg(feature = "fit")]
pub mod fit;
#[cfg(feature = "host")]
pub mod functions;
#[cfg(feature = "host")]
pub mod gain;
#[cfg(feature = "host")]
pub mod guest;
#[cfg(feature = "host")]
pub mod image;
pub mod iozone;
mod known;
mod lent;
pub mod linux;
pub mod ours;
pub mod page;
pub mod params;
pub mod platform;
#[cfg(feature = "host")]
pub mod plot;
pub mod rate;
pub mod recorded;
pub mod registers;
#[cfg(feature = "host")]
pub mod reproduce;
pub mod runner;
pub mod scene;
pub mod sdio;
pub mod series;
#[cfg(feature = "outside")]
pub mod serve;
#[cfg(feature = "host")]
pub mod sweep;
pub mod system;
pub mod table;
pub mod trace;
#[cfg(feature = "outside")]
pub mod unix_socket;
pub mod why;

pub use mmcq_sim::parallel;

#[cfg(test)]
mod counted;
#[cfg(test)]
mod fuzz;
#[cfg(all(test, feature = "outside"))]
mod watchdog;
