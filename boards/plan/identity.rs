//! Memory of a machine whose controllers see it at the same addresses as the CPU.

use crate::board;
use core::ptr::NonNull;
use mmcq::host::{Direction, Dma, DmaError};

/// DMA interface without translation: CPU and controllers use the same addresses.
#[derive(Debug)]
pub struct Identity;

// SAFETY: memory is mapped one to one. Devices see it coherently, in the order that the board's
// barrier keeps.
unsafe impl Dma for Identity {
    #[inline]
    fn map(&self, ptr: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        board::barrier();
        Ok(ptr.as_ptr() as u64)
    }

    #[inline]
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        board::barrier();
    }

    #[inline]
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {
        board::barrier();
    }
}
