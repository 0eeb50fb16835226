//! Rules of a write that differs from an ordinary one, such as a durable write or a write of
//! zeroes.

/// The special rules of a write. A read can only have [`Rules::DURABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Rules(u8);

impl Rules {
    /// The request is handled without any of these rules.
    pub const NONE: Rules = Rules(0);
    /// A write with this rule is complete only when it is on the medium. A read with this rule ends
    /// at the card's last block, which must be read alone, or directly before that block.
    pub const DURABLE: Rules = Rules(1);
    /// A write of zeroes: the same buffer is sent repeatedly.
    pub const ZERO: Rules = Rules(1 << 1);
    /// After the status of the write has come, its data are flushed before it is complete.
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
