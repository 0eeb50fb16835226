//! Sets of slots.

#[cfg(feature = "slots-128")]
type Word = u128;
#[cfg(all(not(feature = "slots-128"), any(feature = "slots-64", target_pointer_width = "64")))]
type Word = u64;
#[cfg(not(any(feature = "slots-128", feature = "slots-64", target_pointer_width = "64")))]
type Word = u32;

/// A set of slots, with a bit for each: as many as a pointer has, 32 or 64; 64 with the feature
/// `slots-64`, 128 with `slots-128`. Code for all of them uses only what all unsigned integers
/// have.
pub type SlotSet = Word;

/// Most slots of an engine.
pub const SLOTS_MAX: usize = SlotSet::BITS as usize;
