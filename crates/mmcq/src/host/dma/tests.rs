//! DMA memory in one piece and in several pieces, for the tests of drivers and of their lists.

use super::*;

/// DMA memory in one piece, at the address that `map` returns.
pub(crate) struct Plain;

// SAFETY: no controller accesses the mapped memory.
unsafe impl Dma for Plain {
    fn map(&self, ptr: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        Ok(ptr.addr().get() as u64)
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {}
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {}
}

/// DMA memory in several pieces: for each piece its address and its length in bytes, from the
/// beginning of the mapping on.
pub(crate) struct Scattered<'a>(pub &'a [(u64, u32)]);

// SAFETY: no controller accesses the mapped memory.
unsafe impl Dma for Scattered<'_> {
    const IN_PIECES: bool = true;

    fn map(&self, _: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        Ok(0)
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {}
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {}
    fn piece(&self, bus: u64, len: u32) -> (u64, u32) {
        let mut skip = bus;
        for &(at, bytes) in self.0 {
            if skip < bytes.into() {
                return (at + skip, len.min(bytes - skip as u32));
            }
            skip -= u64::from(bytes);
        }
        (0, 0)
    }
}

#[test]
fn a_driver_without_lists_refuses_pieces() {
    let place = NonNull::<u8>::dangling();
    assert_eq!(map_whole(&Plain, place, 1024, Direction::Read), Ok(1));
    let map = |pieces: &[_]| map_whole(&Scattered(pieces), place, 1024, Direction::Read);
    assert_eq!(map(&[(0, 512), (0x9000, 512)]), Err(DmaError::Scattered));
    // The memory is one piece, but not at the address that `map` returned: a driver that adds
    // offsets to that address would miss the memory.
    assert_eq!(map(&[(0x9000, 1024)]), Err(DmaError::Scattered));
    assert_eq!(map(&[(0, 1024)]), Ok(0));
}
