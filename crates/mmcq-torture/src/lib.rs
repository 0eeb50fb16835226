//! Torture of the whole stack on its models, with power cuts and faults. An independent checker
//! judges the results.
//!
//! A [`Case`](case::Case) is a machine, a list of requests and what goes wrong. [`run`](run::run)
//! executes a case and says which promise was broken, if any. A campaign makes cases:
//!
//! - [`swarm`]: random cases;
//! - [`exhaustive`]: all short sequences of requests, with all power cuts;
//! - [`sweep`]: faults at every event of thirteen [`workloads`];
//! - [`aimed`]: situations that random faults seldom hit;
//! - [`streams`]: controllers that leave transfers open;
//! - [`hosts`]: a mobile storage host, or ST's SDMMC;
//! - [`spi`]: a card in SPI mode;
//! - [`queues`]: a command queue, packed commands or chains;
//! - [`large`]: requests of up to 1 MiB;
//! - [`narrow`]: controllers that take few blocks at a time;
//! - [`corners`]: rare settings;
//! - [`bring_up`]: faults while the card is brought up.
//!
//! `plants` plants bugs in the core and lies in the cards, and measures how soon the campaigns find
//! them.
//!
//! # The crates beside it
//! [`mmcq`](https://docs.rs/mmcq) is the stack itself.
//! [`mmcq-embassy`](https://docs.rs/mmcq-embassy) brings it to embassy,
//! [`mmcq-c`](https://docs.rs/mmcq-c) to C, and [`mmcq-vfio`](https://docs.rs/mmcq-vfio) to a PCI
//! card reader under Linux. [`mmcq-sim`](https://docs.rs/mmcq-sim) has the models of controllers
//! and cards. [`mmcq-lab`](https://docs.rs/mmcq-lab) has the program `mmcq`, which measures on the
//! models.

#![cfg_attr(not(test), deny(unsafe_code))]

pub mod aimed;
mod bench;
pub mod bring_up;
pub mod case;
pub mod catalogue;
mod chosen;
mod clients;
pub mod corners;
pub mod describe;
pub mod exhaustive;
pub mod hosts;
pub mod large;
pub mod machine;
mod machines;
mod meanwhile;
mod meddled;
pub mod narrow;
mod order;
pub mod outcome;
mod places;
#[cfg(planted)]
pub mod plants;
pub mod presence;
pub mod queue_sweep;
pub mod queues;
mod remains;
pub mod run;
pub mod score;
pub mod setup;
pub mod shrink;
pub mod spi;
pub mod spread;
pub mod stopwatch;
pub mod streams;
pub mod summary;
mod supervisor;
pub mod swarm;
pub mod sweep;
pub mod trace;
pub mod usage;
mod wire;
pub mod workloads;
