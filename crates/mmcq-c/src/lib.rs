//! The mmcq stack for C, under any RTOS: SDHCI controllers, and by features of this crate NXP's
//! uSDHC, ST's SDMMC and Realtek's card readers (two by default, eight at most), with a card each.
//!
//! A C program includes `include/mmcq.h`, which describes all functions and their contracts;
//! `examples/c/card.c` is an example. Build the library for a target by
//!
//! ```text
//! cargo rustc -p mmcq-c --release --crate-type staticlib --features panic-handler --config 'profile.release.panic="abort"' --target thumbv7em-none-eabihf
//! ```
//!
//! and link it with `-Wl,--gc-sections`.
//!
//! Every pointer is checked for null and every number for its range before use; every error is a
//! code with a name. No panic unwinds into C: the stack cannot reach a panic, and a panic in an
//! `extern "C"` function would abort.
//!
//! # The crates beside it
//! [`mmcq`](https://docs.rs/mmcq) is the stack itself.
//! [`mmcq-embassy`](https://docs.rs/mmcq-embassy) brings it to embassy, and
//! [`mmcq-vfio`](https://docs.rs/mmcq-vfio) to a PCI card reader under Linux.
//! [`mmcq-sim`](https://docs.rs/mmcq-sim) has the models of controllers and cards.
//! [`mmcq-torture`](https://docs.rs/mmcq-torture) has faults and power cuts on the models.
//! [`mmcq-lab`](https://docs.rs/mmcq-lab) has the program `mmcq`, which measures on the models.
#![no_std]
// docs.rs shows for each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
// The types have the names of the C header.
#![allow(non_camel_case_types)]

mod ahead;
mod api;
mod code;
mod controller;
mod dma;
mod events;
mod extended;
mod held;
mod io;
mod partition;
mod platform;
mod registers;
mod room;
#[cfg(feature = "rpmb")]
mod rpmb;
mod sizes;
mod stats;
mod submit;
mod supervisor;
mod suspend;
mod transfer;
mod turns;

pub use api::{
    mmcq_bring_up, mmcq_card, mmcq_error_name, mmcq_flush, mmcq_may_sleep, mmcq_next_deadline_ns,
    mmcq_on_irq, mmcq_poll, mmcq_read, mmcq_write,
};
pub use code::CODES;
pub use controller::mmcq_open;
#[cfg(feature = "rtsx")]
pub use controller::mmcq_open_rtsx;
#[cfg(feature = "stm32-sdmmc")]
pub use controller::{mmcq_open_stm32, mmcq_stm32};
#[cfg(feature = "usdhc")]
pub use controller::{mmcq_open_usdhc, mmcq_usdhc};
pub use events::mmcq_card_present;
pub use extended::{mmcq_close, mmcq_discard, mmcq_erase, mmcq_write_durable};
pub use io::{
    MMCQ_IO_FIFO, MMCQ_IO_INCREMENT, mmcq_io_block_size, mmcq_io_bring_up, mmcq_io_card, mmcq_io_enable,
    mmcq_io_irq_ack, mmcq_io_irq_enable, mmcq_io_irq_wait, mmcq_io_read, mmcq_io_read_byte, mmcq_io_write,
    mmcq_io_write_byte,
};
pub use partition::{
    MMCQ_BOOT_1, MMCQ_BOOT_2, MMCQ_GENERAL_1, MMCQ_GENERAL_4, mmcq_partition_blocks, mmcq_partition_read,
    mmcq_partition_write,
};
pub use platform::{MMCQ_EMMC_18, MMCQ_QUICK_MAP, mmcq_idle, mmcq_platform};
pub use registers::{mmcq_card_registers, mmcq_last_steps, mmcq_registers, mmcq_step, mmcq_step_name};
#[cfg(feature = "rpmb")]
pub use rpmb::{
    MMCQ_RPMB_FOR_EVER, mmcq_rpmb, mmcq_rpmb_counter, mmcq_rpmb_frames, mmcq_rpmb_program_key,
    mmcq_rpmb_read, mmcq_rpmb_relay, mmcq_rpmb_size, mmcq_rpmb_write,
};
pub use stats::{mmcq_statistics, mmcq_stats};
pub use submit::{
    MMCQ_DISCARD, MMCQ_FLUSH, MMCQ_READ, MMCQ_SECURE_ERASE, MMCQ_WRITE, MMCQ_WRITE_DURABLE, MMCQ_ZEROES,
    mmcq_request, mmcq_submit,
};
pub use suspend::{mmcq_resume, mmcq_suspend};
pub use transfer::{mmcq_io_request, mmcq_io_submit};

#[cfg(all(feature = "panic-handler", not(test)))]
#[allow(unsafe_code, reason = "docs/safety.md says why")]
mod panic {
    // SAFETY: the header declares the function without arguments; it never returns, and may be
    // called from anywhere.
    unsafe extern "C" {
        safe fn mmcq_panic() -> !;
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        mmcq_panic()
    }
}
