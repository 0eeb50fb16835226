//! Write protection by groups, CMD28 to CMD31 [eMMC 6.6.15].

use std::collections::BTreeSet;

use super::config::WP_GROUP_BYTES;

/// Write-protected groups of the user area. CMD28 sets temporary protection, which ends with CMD29,
/// or power-on protection, which ends with a power cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Protection {
    temporary: BTreeSet<u64>,
    until_power_off: BTreeSet<u64>,
}

impl Protection {
    /// Ends power-on protection after a power cycle.
    pub(super) fn power_up(&mut self) {
        self.until_power_off.clear();
    }

    /// Executes CMD28: protects the group at byte address `at`, with `until_power_off` so that
    /// CMD29 cannot remove the protection.
    pub(super) fn set(&mut self, at: u64, until_power_off: bool) {
        let groups = if until_power_off { &mut self.until_power_off } else { &mut self.temporary };
        groups.insert(at / WP_GROUP_BYTES);
    }

    /// Executes CMD29: removes the protection of the group at byte address `at`. Returns false if
    /// it cannot be removed.
    pub(super) fn clear(&mut self, at: u64) -> bool {
        let group = at / WP_GROUP_BYTES;
        if self.until_power_off.contains(&group) {
            return false;
        }
        self.temporary.remove(&group);
        true
    }

    /// Returns whether a group has temporary protection, which a power cycle does not end.
    pub(super) fn is_temporary(&self) -> bool {
        !self.temporary.is_empty()
    }

    /// Returns whether any of the `bytes` bytes from byte address `at` on is write protected.
    #[inline]
    pub(super) fn covers(&self, at: u64, bytes: u64) -> bool {
        if self.temporary.is_empty() && self.until_power_off.is_empty() {
            return false;
        }
        let groups = at / WP_GROUP_BYTES..=(at + bytes.max(1) - 1) / WP_GROUP_BYTES;
        let any = |set: &BTreeSet<u64>| set.range(groups.clone()).next().is_some();
        any(&self.temporary) || any(&self.until_power_off)
    }

    /// Executes CMD30: returns one bit for each of 32 groups from this address on. Bit 0 is for the
    /// first group. A bit that is 1 means write protected.
    pub(super) fn bits(&self, at: u64) -> u32 {
        let first = at / WP_GROUP_BYTES;
        (0..32).fold(0, |bits, n| bits | (u32::from(self.kind(first + n) != 0) << n))
    }

    /// Executes CMD31: returns two bits for each of 32 groups from byte address `at` on: 0 not
    /// protected, 1 temporary, 2 power-on.
    pub(super) fn kinds(&self, at: u64) -> u64 {
        let first = at / WP_GROUP_BYTES;
        (0..32).fold(0, |bits, n| bits | (self.kind(first + n) << (2 * n)))
    }

    fn kind(&self, group: u64) -> u64 {
        if self.until_power_off.contains(&group) { 2 } else { self.temporary.contains(&group).into() }
    }
}
