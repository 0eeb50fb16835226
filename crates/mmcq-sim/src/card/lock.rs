//! Password lock, CMD42 [SD 4.3.7] [eMMC 6.6.21].

const SET_PWD: u8 = 0x01;
const CLR_PWD: u8 = 0x02;
const LOCK: u8 = 0x04;
const ERASE: u8 = 0x08;
const LONGEST: usize = 16;

/// Password and lock of a card. The password survives a power cycle, and a card with a password is
/// locked after power-up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    password: Vec<u8>,
    locked: bool,
}

/// Result of the data block that follows CMD42.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The password or the lock was changed as requested.
    Done,
    /// Forced erase: all data and the password are erased.
    Erase,
    /// The card reports LOCK_UNLOCK_FAILED.
    Failed,
}

impl Lock {
    /// Makes the lock of a card with this password; the card is locked from its next power-up on.
    pub(crate) fn with_password(password: &[u8]) -> Self {
        Lock { password: password.iter().copied().take(LONGEST).collect(), locked: false }
    }

    pub(crate) fn locked(&self) -> bool {
        self.locked
    }

    /// Returns whether the card has a password.
    pub(crate) fn is_set(&self) -> bool {
        !self.password.is_empty()
    }

    /// Handles a power-up: a card with a password becomes locked.
    pub(crate) fn power_up(&mut self) {
        self.locked = !self.password.is_empty();
    }

    /// Executes the data block of CMD42: flags, length of both passwords, the old password and the
    /// new one.
    pub(crate) fn apply(&mut self, block: &[u8]) -> Outcome {
        let flags = block.first().copied().unwrap_or(0);
        if flags & ERASE != 0 {
            if flags != ERASE || !self.locked {
                return Outcome::Failed;
            }
            self.password.clear();
            self.locked = false;
            return Outcome::Erase;
        }
        let len = usize::from(block.get(1).copied().unwrap_or(0));
        let Some(given) = block.get(2..2 + len) else { return Outcome::Failed };
        let set = flags & SET_PWD != 0;
        let Some(rest) = given.strip_prefix(self.password.as_slice()) else { return Outcome::Failed };
        if self.password.is_empty() && !set {
            return Outcome::Failed;
        }
        if set {
            if rest.is_empty() || rest.len() > LONGEST || flags & CLR_PWD != 0 {
                return Outcome::Failed;
            }
            self.password = rest.to_vec();
            self.locked = flags & LOCK != 0;
            return Outcome::Done;
        }
        if !rest.is_empty() {
            return Outcome::Failed;
        }
        if flags & CLR_PWD != 0 {
            self.password.clear();
            self.locked = false;
        } else {
            // The card refuses to lock a locked card, and to unlock an unlocked one.
            let want = flags & LOCK != 0;
            if want == self.locked {
                return Outcome::Failed;
            }
            self.locked = want;
        }
        Outcome::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn life_of_a_password() {
        let mut lock = Lock::default();
        assert_eq!(lock.apply(&[LOCK, 0]), Outcome::Failed);
        assert_eq!(lock.apply(&[SET_PWD, 2, b'a', b'b']), Outcome::Done);
        assert!(!lock.locked());
        lock.power_up();
        assert!(lock.locked());
        assert_eq!(lock.apply(&[0, 2, b'a', b'x']), Outcome::Failed);
        assert_eq!(lock.apply(&[0, 2, b'a', b'b']), Outcome::Done);
        assert_eq!(lock.apply(&[0, 2, b'a', b'b']), Outcome::Failed);
        assert_eq!(lock.apply(&[SET_PWD | LOCK, 3, b'a', b'b', b'c']), Outcome::Done);
        assert!(lock.locked());
        assert_eq!(lock.apply(&[CLR_PWD, 2, b'a', b'b']), Outcome::Failed);
        assert_eq!(lock.apply(&[ERASE, 0]), Outcome::Erase);
        assert!(!lock.locked());
        assert_eq!(lock.apply(&[ERASE, 0]), Outcome::Failed);
        assert_eq!(lock.apply(&[0, 200]), Outcome::Failed);
    }
}
