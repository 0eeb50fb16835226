//! A heap, and memory that the controller can access: the other stack allocates.

use crate::board::interrupts_off;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use dma_api::{DmaAllocHandle, DmaConstraints, DmaDirection, DmaError, DmaMapHandle, DmaOp};
use linked_list_allocator::Heap;

const HEAP_BYTES: usize = 4 << 20;

#[repr(C, align(4096))]
struct Space(UnsafeCell<[u8; HEAP_BYTES]>);

// SAFETY: only the heap gives out parts of the space.
unsafe impl Sync for Space {}

static SPACE: Space = Space(UnsafeCell::new([0; _]));

struct Allocator(UnsafeCell<Heap>);

// SAFETY: one core, and every access is with interrupts off.
unsafe impl Sync for Allocator {}

#[global_allocator]
static HEAP: Allocator = Allocator(UnsafeCell::new(Heap::empty()));

// SAFETY: what the heap gives out belongs to the caller alone until it is returned.
unsafe impl GlobalAlloc for Allocator {
    // SAFETY: required by the trait: the heap returns memory for the layout, or null.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        interrupts_off(|| {
            // SAFETY: the only reference, since interrupts are off.
            let heap = unsafe { &mut *self.0.get() };
            heap.allocate_first_fit(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr)
        })
    }

    // SAFETY: required by the trait: memory is returned to the heap that gave it, with its layout.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let Some(at) = NonNull::new(at) else { return };
        // SAFETY: the only reference, since interrupts are off; the caller returns what `alloc`
        // gave.
        interrupts_off(|| unsafe { (*self.0.get()).deallocate(at, layout) });
    }
}

/// Initialises the heap; must be called once, before the first allocation.
pub fn start() {
    // SAFETY: nothing has been allocated, and no other code knows the space.
    interrupts_off(|| unsafe { (*HEAP.0.get()).init(SPACE.0.get().cast(), HEAP_BYTES) });
}

/// DMA interface of a machine whose CPU and controllers use the same addresses for memory.
pub struct Identity;

impl DmaOp for Identity {
    fn page_size(&self) -> usize {
        4096
    }

    // SAFETY: required by the trait: the memory lives until it is returned, at the same address for
    // CPU and controller.
    unsafe fn alloc_contiguous(&self, constraints: DmaConstraints, layout: Layout) -> Option<DmaAllocHandle> {
        let layout = layout.align_to(constraints.align).ok()?;
        // SAFETY: `dma-api` never passes an empty layout.
        let at = NonNull::new(unsafe { HEAP.alloc(layout) })?;
        // SAFETY: a live allocation of this layout, at the same address for the controller.
        Some(unsafe { DmaAllocHandle::new(at, at, (at.as_ptr() as u64).into(), layout) })
    }

    // SAFETY: required by the trait: the handle comes from `alloc_contiguous`.
    unsafe fn dealloc_contiguous(&self, handle: DmaAllocHandle) {
        // SAFETY: memory from `alloc_contiguous`, with its layout.
        unsafe { HEAP.dealloc(handle.allocation_ptr().as_ptr(), handle.layout()) };
    }

    unsafe fn alloc_coherent(&self, constraints: DmaConstraints, layout: Layout) -> Option<DmaAllocHandle> {
        // SAFETY: as the caller promises.
        unsafe { self.alloc_contiguous(constraints, layout) }
    }

    unsafe fn dealloc_coherent(&self, handle: DmaAllocHandle) -> Result<(), DmaError> {
        // SAFETY: as the caller promises.
        unsafe { self.dealloc_contiguous(handle) };
        Ok(())
    }

    // SAFETY: required by the trait: the caller keeps the memory until it is unmapped.
    unsafe fn map_streaming(
        &self,
        _: DmaConstraints,
        at: NonNull<u8>,
        bytes: NonZeroUsize,
        _: DmaDirection,
    ) -> Result<DmaMapHandle, DmaError> {
        let layout = Layout::from_size_align(bytes.get(), 1)?;
        // SAFETY: CPU and controller use the same memory; nothing is copied.
        Ok(unsafe { DmaMapHandle::new(at, (at.as_ptr() as u64).into(), layout, None) })
    }

    // SAFETY: required by the trait: mapping made nothing that has to be freed.
    unsafe fn unmap_streaming(&self, _: DmaMapHandle) {}
}
