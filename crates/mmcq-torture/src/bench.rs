//! The bench of a campaign: what its runs (executions of cases) reuse, such as profiles, memory,
//! wakers and the checker.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::case::{LARGEST, LONGEST, SLOTS};
use super::run::EVERY_CARD;
use mmcq::card::SCRATCH_BYTES;
use mmcq::engine::{BLOCK_BYTES, Claim, DmaBuf, SlotId};
use mmcq_sim::card::{CardProfile, Fill};
use mmcq_sim::cards;
use mmcq_sim::checker::{Checker, Content, Promise};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

struct Flag {
    mask: Arc<AtomicU64>,
    bit: u64,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.mask.fetch_or(self.bit, Ordering::Relaxed);
    }
}

/// Number of memory pieces for requests of up to [`LONGEST`] blocks: twice the number of slots,
/// since the piece of a dropped request comes back late, or only after the next power cut.
const SMALL: usize = 2 * SLOTS;
/// Number of memory blocks of the bench for requests of more than [`LONGEST`] blocks.
const LARGE: usize = 8;

/// What runs of cases reuse: profiles, memory, wakers and the checker.
pub struct Bench {
    pub(super) profiles: Vec<CardProfile>,
    /// Memory of the requests. The engine owns the pieces that are not in `free`.
    pub(super) memory: Vec<Piece>,
    /// Claims by which the engine gives back each piece of memory ([`Claim`]): first for requests
    /// that begin at the piece's first word, then for requests that begin at its second word.
    pub(super) claims: [Vec<Claim>; 2],
    /// Whether every second buffer of `memory` is used only from its second 8-byte word on, so that
    /// its address is aligned only to 8 bytes.
    pub(super) is_shifted: bool,
    pub(super) free: Vec<usize>,
    pub(super) scratch: Piece,
    /// Page of memory that the engine uses for headers of packed commands and for extension
    /// registers of an SD card.
    pub(super) page: Piece,
    pub(super) mask: Arc<AtomicU64>,
    /// Wakers, one for each client, and one for the supervisor.
    pub(super) wakers: Vec<Waker>,
    /// Second waker of each client: a task may poll again with another waker than before.
    pub(super) others: Vec<Waker>,
    pub(super) checker: Checker,
    /// Slot names (`SlotId`) of requests that have ended. They must never name a request again.
    pub(super) stale: Vec<SlotId>,
}

/// A page of memory, aligned to 4096 bytes, the smallest SDMA boundary at which a controller can be
/// made to stop.
#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Page([u64; 512]);

/// A piece of memory for a request, in whole pages.
pub(super) struct Piece(Box<[Page]>);

impl Deref for Piece {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: a page consists of its words without padding.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 512) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: a page consists of its words without padding, and every value of a word is valid.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 512) }
    }
}

fn piece(bytes: usize) -> Piece {
    Piece(vec![Page([0; 512]); bytes.div_ceil(4096)].into_boxed_slice())
}

/// Lends memory as a DMA buffer to the engine.
///
/// # Safety
/// No code may use the memory until the buffer has come back, or the machine that got it is
/// dropped.
pub(super) unsafe fn lend(memory: &mut [u64]) -> DmaBuf {
    let len = size_of_val(memory) as u32;
    let start = std::ptr::NonNull::from(memory).cast();
    // SAFETY: the memory is initialised and has this length; the caller promises the remaining
    // conditions.
    unsafe { DmaBuf::from_raw(start, len) }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    /// Takes a free memory block of the bench that is large enough for a request of `blocks`
    /// blocks; `None` if none is free.
    pub(super) fn take_piece(&mut self, blocks: u32) -> Option<usize> {
        let fits = |&piece: &usize| (piece >= SMALL) == (blocks > LONGEST);
        let at = self.free.iter().rposition(fits)?;
        Some(self.free.remove(at))
    }

    /// Returns the index of the first 8-byte word of the memory `piece` that a request uses: 0, or
    /// 1 so that the address is not aligned.
    pub(super) fn first_word(&self, piece: usize) -> usize {
        if self.is_shifted { piece % 2 } else { 0 }
    }

    /// Makes a bench: the memory, wakers, profiles and checker that the runs of one thread reuse.
    #[must_use]
    pub fn new() -> Self {
        let mask = Arc::new(AtomicU64::new(0));
        let flag = |client: usize| Waker::from(Arc::new(Flag { mask: mask.clone(), bit: 1 << client }));
        let wakers = (0..=SLOTS).map(flag).collect();
        let others = (0..SLOTS).map(flag).collect();
        let profile = |name: &&str| {
            let text = cards::named(name).expect("the campaign's cards come with the simulator");
            CardProfile::from_toml(text, name).expect("the campaign's cards are good")
        };
        let size = |piece: usize| if piece < SMALL { LONGEST } else { LARGEST };
        // One more word, for requests that use the piece from its second word on.
        let mut memory: Vec<_> =
            (0..SMALL + LARGE).map(|at| piece((size(at) * BLOCK_BYTES) as usize + 8)).collect();
        let claims = [0, 1].map(|first| {
            // SAFETY: each buffer is dropped at once.
            memory.iter_mut().map(|piece| unsafe { lend(&mut piece[first..]) }.claim()).collect()
        });
        Bench {
            profiles: EVERY_CARD.iter().map(profile).collect(),
            memory,
            claims,
            is_shifted: false,
            free: Vec::new(),
            scratch: piece(SCRATCH_BYTES as usize),
            page: piece(SCRATCH_BYTES as usize),
            mask,
            wakers,
            others,
            stale: Vec::new(),
            checker: Checker::new(Promise {
                content: Content::new(0, 0, Fill::Pattern(0)),
                write_through: false,
            }),
        }
    }
}
