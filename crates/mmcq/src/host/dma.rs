//! How a platform makes memory visible to a controller.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::Direction;
use core::ptr::NonNull;

/// Why a buffer cannot be used for DMA.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DmaError {
    /// The address is not aligned as the controller or the cache needs it; use the copying calls.
    Alignment,
    /// The controller cannot reach it (32-bit DMA, memory without a bus address).
    Unreachable,
    /// No mapping is left (IOMMU, bounce memory).
    Exhausted,
    /// It lies in pieces, and the driver writes no lists of them.
    Scattered,
}

impl core::fmt::Display for DmaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            DmaError::Alignment => "the memory is not aligned as the controller or the cache needs it",
            DmaError::Unreachable => "the controller cannot reach the memory",
            DmaError::Exhausted => "no mapping is left",
            DmaError::Scattered => "the memory lies in pieces, and the controller wants it in one",
        })
    }
}

impl core::error::Error for DmaError {}

/// May a mapping for this direction begin or end here, where lines have so many bytes?
#[inline(always)]
pub(crate) fn at_a_line(place: usize, direction: Direction, line_bytes: u32) -> bool {
    direction == Direction::Write || place & (line_bytes as usize).wrapping_sub(1) == 0
}

/// Called around every transfer; never blocks.
///
/// On a machine whose device and CPU see the same memory at the same address, `map` returns the
/// pointer's value after a store barrier, and `unmap` is a load barrier. With caches, `map` cleans
/// (and for reads invalidates), `unmap` of a read invalidates; it must not for a write. With an
/// IOMMU or bounce memory, they map and copy.
///
/// A mapping may lie in pieces: a list of pages, say, that a block layer hands over. Then `map`
/// returns a number of the platform's own, the engine counts on from it as from any address, and
/// the driver that writes descriptors asks [`piece`](Dma::piece) where the memory really is.
///
/// An invalidated cache line takes with it what the CPU has written to the rest of the line. So a
/// platform with such caches says how long a line is ([`line_bytes`](Dma::line_bytes)). Memory that
/// is mapped for a read is then whole lines: `ptr` and `len` are multiples, and there is nothing of
/// others that a mapping could touch.
///
/// # Safety
/// The bus address that `map` returns must lead the controller to exactly the `len` bytes at `ptr`
/// (or a stand-in that is copied by `map`, `sync` and `unmap`) until `unmap`. So must every address
/// that `piece` returns.
pub unsafe trait Dma {
    /// Makes `len` bytes at `ptr` usable by the controller; what the CPU wrote before is visible to
    /// it afterwards.
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError>;

    /// Ends a mapping; what the controller wrote is visible to the CPU afterwards. It must not
    /// panic: a blocking call whose memory it lets go would never return.
    fn unmap(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction);

    /// Makes later CPU writes inside an existing `Write` mapping visible to the controller
    /// (descriptor tables). `bus` and `ptr` point at the changed part.
    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize);

    /// Mappings may lie in pieces, and [`piece`](Dma::piece) says where. A constant, so that a driver
    /// does not ask where there are none.
    const IN_PIECES: bool = false;

    /// Where the controller finds what a mapping has at `bus`, and how many of the `len` bytes from
    /// there on; 0 bytes: not known, and the transfer is refused. The default is a mapping in one
    /// piece.
    ///
    /// Every piece begins at a multiple of 4, and all but a mapping's last have a multiple of 512
    /// bytes. Called for addresses inside an existing mapping, from any context.
    #[inline(always)]
    fn piece(&self, bus: u64, len: u32) -> (u64, u32) {
        (bus, len)
    }

    /// Cuts the controller off from all memory for good: bus mastering off, say, or its IOMMU
    /// domain empty. Called when no reset stops it. True: from now on it surely reads and writes
    /// nothing. The default cannot.
    fn isolate(&self) -> bool {
        false
    }

    /// The bytes that `unmap` of a read invalidates as one, a power of two; 1 where it touches the
    /// mapping alone. Constant, and 512 at most: a block is whole lines, and drivers rely on it.
    #[inline(always)]
    fn line_bytes(&self) -> u32 {
        1
    }
}

/// Maps memory for a driver that writes no lists: [`DmaError::Scattered`] if it lies in pieces.
#[inline(always)]
pub(crate) fn map_whole(
    dma: &impl Dma,
    ptr: NonNull<u8>,
    len: usize,
    direction: Direction,
) -> Result<u64, DmaError> {
    let bus = dma.map(ptr, len, direction)?;
    if is_whole(dma, bus, len as u32) {
        return Ok(bus);
    }
    dma.unmap(bus, ptr, len, direction);
    Err(DmaError::Scattered)
}

/// Does a mapping lie in one piece, where `map` said?
#[inline(always)]
pub(crate) fn is_whole<D: Dma>(dma: &D, bus: u64, len: u32) -> bool {
    !D::IN_PIECES || dma.piece(bus, len) == (bus, len)
}

#[cfg(test)]
pub(crate) mod tests;
