//! The same for SD cards alone.
#![no_std]
#![no_main]

size::reader!(mmcq::card::bring_up_sd);
