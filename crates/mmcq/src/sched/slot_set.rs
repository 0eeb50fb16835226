//! Sets of the engine's request slots: one bit for each slot.

#[cfg(feature = "slots-128")]
type Word = u128;
#[cfg(all(not(feature = "slots-128"), any(feature = "slots-64", target_pointer_width = "64")))]
type Word = u64;
#[cfg(not(any(feature = "slots-128", feature = "slots-64", target_pointer_width = "64")))]
type Word = u32;

/// A set of slots: bit n stands for slot n. The set has as many bits as a pointer, 32 or 64; with
/// the feature `slots-64` it has 64, with `slots-128` 128. Code that uses this type must compile
/// for each of these integers.
pub type SlotSet = Word;

/// Largest number of slots (requests at a time) that an engine can have.
pub const SLOTS_MAX: usize = SlotSet::BITS as usize;
