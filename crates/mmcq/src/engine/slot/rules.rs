//! What a write must do besides being written.

/// The rules that make a write special; or a read, which has no other rule than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Rules(u8);

impl Rules {
    /// Like any other.
    pub const NONE: Rules = Rules(0);
    /// Complete only when it is on the medium. Of a read: it ends where the card's last block is,
    /// which must be read alone.
    pub const DURABLE: Rules = Rules(1);
    /// Zeroes: the buffer goes out again and again.
    pub const ZERO: Rules = Rules(1 << 1);
    /// Once settled, it is flushed before it is complete.
    pub const FLUSH_AFTER: Rules = Rules(1 << 2);

    pub const fn of(durable: bool) -> Rules {
        Rules(durable as u8)
    }

    pub const fn has(self, rule: Rules) -> bool {
        self.0 & rule.0 != 0
    }

    pub fn set(&mut self, rule: Rules, on: bool) {
        self.0 = if on { self.0 | rule.0 } else { self.0 & !rule.0 };
    }
}
