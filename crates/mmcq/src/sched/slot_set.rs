//! Sets of slots.

/// One bit a slot of an engine: as many as a pointer has, 32 or 64; 64 with the feature `slots-64`,
/// 128 with `slots-128`. Code that works with all asks nothing of the type but what all unsigned
/// integers have.
#[cfg(feature = "slots-128")]
pub type SlotSet = u128;
/// One bit a slot of an engine: as many as a pointer has, 32 or 64; 64 with the feature `slots-64`,
/// 128 with `slots-128`. Code that works with all asks nothing of the type but what all unsigned
/// integers have.
#[cfg(all(not(feature = "slots-128"), any(feature = "slots-64", target_pointer_width = "64")))]
pub type SlotSet = u64;
/// One bit a slot of an engine: as many as a pointer has, 32 or 64; 64 with the feature `slots-64`,
/// 128 with `slots-128`. Code that works with all asks nothing of the type but what all unsigned
/// integers have.
#[cfg(not(any(feature = "slots-128", feature = "slots-64", target_pointer_width = "64")))]
pub type SlotSet = u32;

/// As many slots as an engine may have.
pub const SLOTS_MAX: usize = SlotSet::BITS as usize;
