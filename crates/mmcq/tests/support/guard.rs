//! Memory for a controller. With `--cfg guarded` (tools/sanitizer.sh) the memory lies between two
//! pages that cannot be accessed, and its last byte is directly before the second page.

use std::ptr::NonNull;

pub use room::Guarded;

impl Guarded {
    /// Returns memory of `bytes` bytes that all have the value `fill`.
    pub fn filled(bytes: usize, fill: u8) -> Guarded {
        let room = Guarded::of(bytes);
        // SAFETY: the room has so many bytes, and nothing else knows of them yet.
        unsafe { room.at().write_bytes(fill, bytes) };
        room
    }

    /// Returns memory as [`filled`](Self::filled) does, which is never freed.
    pub fn leaked(bytes: usize, fill: u8) -> NonNull<u8> {
        let room = Guarded::filled(bytes, fill);
        let at = room.at();
        std::mem::forget(room);
        at
    }
}

#[cfg(not(guarded))]
mod room {
    use std::cell::UnsafeCell;
    use std::ptr::NonNull;

    pub struct Guarded(Box<[UnsafeCell<u64>]>);

    impl Guarded {
        pub fn of(bytes: usize) -> Guarded {
            let words = Box::into_raw(vec![0u64; bytes.div_ceil(8)].into_boxed_slice());
            // SAFETY: a cell is laid out as its word is.
            Guarded(unsafe { Box::from_raw(words as *mut [UnsafeCell<u64>]) })
        }

        pub fn at(&self) -> NonNull<u8> {
            NonNull::from(&*self.0).cast()
        }
    }
}

#[cfg(guarded)]
mod room {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const PAGE: usize = 4096;
    /// Largest number of guarded memories: the kernel allows 65,530 mappings in a process, and each
    /// guarded memory takes three. Later memories are heap memory, which the sanitizer guards by 16
    /// bytes.
    const ROOMS_MAX: usize = 16_000;
    static ROOMS: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" {
        fn __asan_poison_memory_region(at: *const u8, bytes: usize);
        fn __asan_unpoison_memory_region(at: *const u8, bytes: usize);
    }

    pub struct Guarded {
        at: NonNull<u8>,
        bytes: usize,
        /// Begin of the mapping with both guard pages; null for heap memory.
        mapped: *mut u8,
    }

    impl Guarded {
        pub fn of(bytes: usize) -> Guarded {
            if ROOMS.fetch_add(1, Relaxed) >= ROOMS_MAX {
                let memory = Box::leak(vec![0u64; bytes.div_ceil(8)].into_boxed_slice());
                return Guarded { at: NonNull::from(memory).cast(), bytes, mapped: std::ptr::null_mut() };
            }
            // As aligned as memory of the heap.
            let inner = bytes.next_multiple_of(PAGE).max(PAGE);
            let before = inner - bytes.next_multiple_of(16);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: new memory; `inner` bytes of it can be used, and all but `bytes` of these are
            // forbidden.
            unsafe {
                let all = libc::mmap(std::ptr::null_mut(), inner + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
                assert!(all != libc::MAP_FAILED, "no memory");
                let mapped = all.cast::<u8>();
                let usable = mapped.add(PAGE);
                let rights = libc::PROT_READ | libc::PROT_WRITE;
                assert_eq!(libc::mprotect(usable.cast(), inner, rights), 0);
                let at = usable.add(before);
                __asan_poison_memory_region(mapped, PAGE + before);
                let end = at.add(bytes);
                __asan_poison_memory_region(end, usable.add(inner).offset_from_unsigned(end) + PAGE);
                Guarded { at: NonNull::new(at).unwrap(), bytes, mapped }
            }
        }

        pub fn at(&self) -> NonNull<u8> {
            self.at
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            ROOMS.fetch_sub(1, Relaxed);
            // SAFETY: made by `of`, and the owner gives it up.
            unsafe {
                if self.mapped.is_null() {
                    let words = self.bytes.div_ceil(8);
                    drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(
                        self.at.as_ptr().cast::<u64>(),
                        words,
                    )));
                    return;
                }
                let bytes = self.bytes.next_multiple_of(PAGE).max(PAGE) + 2 * PAGE;
                __asan_unpoison_memory_region(self.mapped, bytes);
                libc::munmap(self.mapped.cast(), bytes);
            }
        }
    }
}
