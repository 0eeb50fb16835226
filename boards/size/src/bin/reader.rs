//! A complete card reader: finds an SD card or an eMMC, brings it to its best speed, reads, writes
//! and flushes.
#![no_std]
#![no_main]

size::reader!(mmcq::card::bring_up);
