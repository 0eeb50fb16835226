//! A complete card reader, as `reader`, for SD cards only.
#![no_std]
#![no_main]

size::reader!(mmcq::card::bring_up_sd);
