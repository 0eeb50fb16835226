//! Sets of slots.

/// One bit a slot of an engine: 64 of them, or 128 with the feature `slots-128`. Code that works
/// with both asks nothing of the type but what all unsigned integers have.
#[cfg(not(feature = "slots-128"))]
pub type SlotSet = u64;
/// One bit a slot of an engine: 128 of them with the feature `slots-128`, or 64. Code that works
/// with both asks nothing of the type but what all unsigned integers have.
#[cfg(feature = "slots-128")]
pub type SlotSet = u128;

/// As many slots as an engine may have.
pub const SLOTS_MAX: usize = SlotSet::BITS as usize;
