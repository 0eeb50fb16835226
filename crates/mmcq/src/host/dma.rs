//! How a platform makes memory visible to a controller.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::Direction;
use core::ptr::NonNull;

/// Why memory cannot be used for DMA.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DmaError {
    /// The address does not have the alignment that the controller or the cache needs. Use other
    /// memory, or a wrapper that copies, such as `host::bounce::Bounce` or `block::Bounced`.
    Alignment,
    /// The controller cannot reach the memory (32-bit DMA, memory without a bus address).
    Unreachable,
    /// No mapping is free at the moment (IOMMU, bounce memory).
    Exhausted,
    /// The memory is in several pieces, and the driver writes no descriptor lists.
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

/// Returns whether a mapping for this direction may begin or end at `place`: for a write at any
/// address, for a read only at a multiple of `line_bytes`, the length of a cache line.
#[inline(always)]
pub(crate) fn at_a_line(place: usize, direction: Direction, line_bytes: u32) -> bool {
    direction == Direction::Write || place & (line_bytes as usize).wrapping_sub(1) == 0
}

/// Makes memory usable for a controller. Called before and after every transfer; never blocks. A
/// read moves data from the card to memory, a write from memory to the card.
///
/// [`map`](Dma::map) returns the bus address by which the controller reaches the memory, and
/// [`unmap`](Dma::unmap) ends this mapping. [`sync`](Dma::sync) shows the controller what the CPU
/// has changed while the memory was mapped for a write.
///
/// - On a machine whose device and CPU see the same memory at the same address, `map` returns the
///   pointer's value after a store barrier, and `unmap` is a load barrier.
/// - On a machine with caches, `map` cleans the cache, and for a read also invalidates it. `unmap`
///   invalidates the cache after a read, and must not after a write.
/// - With an IOMMU or bounce memory, `map` and `unmap` also map and copy.
///
/// If [`IN_PIECES`](Dma::IN_PIECES) is true, a mapping may consist of several pieces, for example a
/// list of pages from a block layer. Then `map` may return a number of the platform's choice, which
/// is not an address. The engine adds offsets to that number as to an address. Drivers pass the sum
/// to [`piece`](Dma::piece), which returns the bus address of that place.
///
/// Invalidating a cache line destroys what the CPU has written to the other bytes of the line. So a
/// platform with such caches reports the length of a line ([`line_bytes`](Dma::line_bytes)). Memory
/// that is mapped for a read then consists of whole lines: `ptr` and `len` are multiples of the
/// line length, and the lines contain no other data.
///
/// # Safety
/// Until `unmap`, the bus addresses of a mapping lead the controller to exactly the `len`
/// bytes at `ptr`, or to other memory; `map`, `sync` and `unmap` then copy between the two. The bus
/// address is what `map` has returned, or, for a mapping in several pieces, what `piece` returns.
pub unsafe trait Dma {
    /// Makes `len` bytes at `ptr` usable by the controller, which afterwards sees all that the CPU
    /// wrote before. Returns the bus address (for a mapping in several pieces: see
    /// [`piece`](Dma::piece)).
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError>;

    /// Ends a mapping; the CPU afterwards sees what the controller wrote. Must not panic, because a
    /// blocking call whose memory is being unmapped would never return.
    fn unmap(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction);

    /// Makes later CPU writes inside an existing `Write` mapping visible to the controller
    /// (descriptor tables). The changed part has `len` bytes, at `bus` for the controller and at
    /// `ptr` for the CPU.
    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize);

    /// Whether mappings may consist of several pieces, which [`piece`](Dma::piece) returns. If
    /// false, drivers do not call `piece`, and its code is not linked.
    const IN_PIECES: bool = false;

    /// Returns the bus address of a place inside a mapping, and how many of the `len` bytes from
    /// there on are in one piece. `bus` is what `map` returned, plus the offset of the place. 0
    /// bytes means that the address is not known, so the driver refuses the transfer. The default
    /// is for mappings in one piece.
    ///
    /// Every piece begins at a multiple of 4, and all but a mapping's last piece have a multiple of
    /// 512 bytes. Called for addresses inside an existing mapping, from any context.
    #[inline(always)]
    fn piece(&self, bus: u64, len: u32) -> (u64, u32) {
        (bus, len)
    }

    /// Isolates the controller permanently from all memory, for example by switching bus mastering
    /// off or emptying its IOMMU domain. Called when no reset stops the controller. Returns true if
    /// the controller certainly accesses no memory any more. The default returns false.
    fn isolate(&self) -> bool {
        false
    }

    /// Returns the length in bytes of a cache line that `unmap` of a read invalidates, a power of
    /// two; 1 if `unmap` invalidates no cache line. The value is constant and at most 512, because
    /// drivers rely on a block of 512 bytes consisting of whole lines.
    #[inline(always)]
    fn line_bytes(&self) -> u32 {
        1
    }
}

/// Maps `len` bytes at `ptr` for a driver that writes no descriptor lists, and returns the bus
/// address. Fails with [`DmaError::Scattered`] if the memory is in several pieces.
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

/// Returns whether a mapping is contiguous on the bus, beginning at the address that `map`
/// returned.
#[inline(always)]
pub(crate) fn is_whole<D: Dma>(dma: &D, bus: u64, len: u32) -> bool {
    !D::IN_PIECES || dma.piece(bus, len) == (bus, len)
}

/// Returns the controller's address for `bus`, an address inside a mapping, and how many of the
/// `bytes` bytes lie there in one piece. `None` if a descriptor cannot hold the piece:
///
/// - the piece is empty,
/// - it ends above `end`, where the controller's addresses end,
/// - its address is not a multiple of 4, or its length is not and another piece follows.
#[inline(always)]
pub(crate) fn piece_below<D: Dma>(dma: &D, end: u64, bus: u64, bytes: u32) -> Option<(u64, u32)> {
    let (at, here) = if D::IN_PIECES { dma.piece(bus, bytes) } else { (bus, bytes) };
    if !D::IN_PIECES || (at, here) == (bus, bytes) {
        // `map` has already checked this address.
        return Some((at, here));
    }
    let within = at.checked_add(here.into())? <= end;
    let even = at.is_multiple_of(4) && (here == bytes || here.is_multiple_of(4));
    (here != 0 && here <= bytes && within && even).then_some((at, here))
}

#[cfg(test)]
pub(crate) mod tests;
