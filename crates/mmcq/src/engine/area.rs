//! Which partition of an eMMC the card's block commands reach [eMMC 6.2].
//!
//! The engine either knows the partition for certain, or marks it as unknown. It is unknown from
//! CMD6 until the card's status shows that the switch was made: the card may then be in either
//! partition. Requests for blocks of the user area start in the user area only. The switch back to
//! the user area belongs to no request. The engine sends that switch before anything else except
//! another partition access, and before recovery's commands to a card that has no fault. After two
//! failures in a row the card is initialised again.

use super::card::Card;
use super::extras::{Memory, Next, Place};
use super::{Error, Kind, PartitionAccess};
use crate::host::Phase;
use crate::sched::Profile;
use crate::spec::command::emmc::SwitchMode;
use crate::spec::command::{Command, emmc};
use crate::spec::ext_csd::index;

/// The access bits of PARTITION_CONFIG [eMMC 7.4.69].
const ACCESS: u8 = 7;
/// Most attempts to switch the card back to its user area, before the card is initialised again.
const TRIES_MAX: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    User,
    /// The card is certainly in the partition with these access bits.
    In(u8),
    /// Not known: a switch to another partition has begun, and no status of the card has shown its
    /// end.
    Unknown,
}

/// The partition that the card's block commands reach.
#[derive(Debug)]
pub(super) struct Area {
    at: At,
    /// PARTITION_CONFIG as the engine last wrote it, without the access bits; `None`: the engine
    /// has not written it.
    config: Option<u8>,
    /// Whether the engine does not know the bits of PARTITION_CONFIG other than the access bits,
    /// because a [`Kind::LongCommand`](super::Kind::LongCommand) may have changed them. While true,
    /// the engine does not write these bits.
    doubt: bool,
    /// The access bits that the switch of the partition under way writes.
    going: u8,
    /// Longest time in ns of a switch between partitions, as the last partition access gave it. No
    /// card declares more than 2.55 s.
    switch_ns: u32,
    /// Whether the engine is switching the card back to its user area although no request waits for
    /// that.
    returning: bool,
    /// Number of attempts to switch back that have failed.
    tries: u8,
}

impl Area {
    pub const USER: Area =
        Area { at: At::User, config: None, doubt: false, going: 0, switch_ns: 0, returning: false, tries: 0 };

    /// Forgets which partition is in use: another card, or no card, may be in the card slot.
    pub fn forget(&mut self) {
        *self = Area::USER;
    }

    /// Notes that the card was initialised, which puts it into its user area.
    pub fn initialised(&mut self) {
        (self.at, self.returning, self.tries) = (At::User, false, 0);
    }

    /// Returns whether block commands certainly reach the user area; false also if the partition is
    /// not known.
    pub fn is_user(&self) -> bool {
        matches!(self.at, At::User)
    }

    /// Returns whether the engine is switching back to the user area, without a request.
    pub fn is_returning(&self) -> bool {
        self.returning
    }

    /// Notes that the switch back to the user area has ended, or was given up.
    pub fn end_return(&mut self) {
        self.returning = false;
    }

    /// Returns whether those bits of PARTITION_CONFIG are unknown that do not select the accessed
    /// partition.
    pub fn is_doubted(&self) -> bool {
        self.doubt
    }

    /// Returns whether block commands certainly reach the partition with the access bits `access`
    /// of PARTITION_CONFIG; false also if the partition is not known.
    pub fn is_in(&self, access: u8) -> bool {
        self.at == At::In(access)
    }

    /// Records that a command that writes PARTITION_CONFIG is sent by a client
    /// ([`Kind::LongCommand`](super::Kind::LongCommand)). The value of that byte is unknown until
    /// the command ends well.
    fn ordered(&mut self) {
        if core::mem::replace(&mut self.doubt, true) {
            self.config = None;
        }
    }

    /// Notes that a request of the kind `LongCommand` (a command with busy) has written `value` to
    /// PARTITION_CONFIG without an error. `mode` is the access mode of its CMD6: 1 sets bits, 2
    /// clears bits, 3 writes the byte.
    fn order_ended(&mut self, mode: u32, value: u8) {
        self.config = match mode {
            1 => self.config.map(|config| config | value),
            2 => self.config.map(|config| config & !value),
            _ => Some(value),
        };
        self.doubt = self.config.is_none();
    }

    /// Records that the next command switches to the partition with the number `access` (access
    /// bits of PARTITION_CONFIG). Until that switch ends, the selected partition is unknown.
    fn leave(&mut self, access: u8) {
        (self.at, self.going) = (At::Unknown, access);
    }

    /// Notes that the switch to another partition has ended: the card's status after it shows no
    /// error.
    pub fn arrive(&mut self) {
        self.at = if self.going == 0 { At::User } else { At::In(self.going) };
        (self.returning, self.tries) = (false, 0);
    }
}

/// Returns the value that this CMD6 without data writes to PARTITION_CONFIG; `None`: the command
/// does not write that byte.
fn partition_config(command: &Command) -> Option<u8> {
    switched(command, index::PARTITION_CONFIG)
}

/// Returns the value that this CMD6 without data writes to the given byte of EXT_CSD; `None`: the
/// command does not write that byte.
fn switched(command: &Command, byte: u8) -> Option<u8> {
    let switch = command.index == 6 && command.arg >> 24 & 3 != SwitchMode::CommandSet as u32;
    let there = (command.arg >> 16) as u8 == byte;
    (switch && there).then_some((command.arg >> 8) as u8)
}

/// Returns whether this request would change, without the engine's knowledge, the partition that
/// the card is in, or whether its cache is on. Only partition accesses may switch the partition (a
/// long command, `Kind::LongCommand`, may write the other bits of PARTITION_CONFIG). Only bring-up
/// may switch the cache: if the engine did not know that the cache is on, a flush would succeed
/// with data still in the cache.
pub(super) fn goes_behind(kind: &Kind) -> bool {
    match kind {
        Kind::Raw { prefix, phase, .. } => changes(phase) || prefix.as_ref().is_some_and(changes_command),
        Kind::Io { phase, .. } => changes(phase),
        Kind::LongCommand { command, .. } => {
            switches_cache(command) || partition_config(command).is_some_and(|value| value & ACCESS != 0)
        }
        _ => false,
    }
}

/// Returns whether the command of this phase writes PARTITION_CONFIG or CACHE_CTRL of an eMMC. CMD6
/// of an SD card has data, and writes neither.
fn changes(phase: &Phase) -> bool {
    phase.data.is_none() && changes_command(&phase.command)
}

fn changes_command(command: &Command) -> bool {
    switches_cache(command) || partition_config(command).is_some()
}

fn switches_cache(command: &Command) -> bool {
    switched(command, index::CACHE_CTRL).is_some()
}

impl Card {
    /// Checks a request that sends a command of its own choice ([`Kind::Raw`]) or a command to an
    /// I/O function, and returns the reason if it cannot be accepted. `urgent`: the request comes
    /// from bring-up.
    #[cold]
    pub fn admit_phase<P: Profile>(&self, kind: &Kind, urgent: bool) -> Result<(), Error> {
        // Without a card, and in urgent requests, the sender is bring-up: it knows which partition
        // the card is in.
        let known = self.target().is_some() && !urgent;
        if P::RECOVERS && known && goes_behind(kind) { Err(Error::Unsupported) } else { Ok(()) }
    }
}

impl Memory {
    /// Handles a failed switch back to the user area, when CMD13 finds the card in `tran`. Returns
    /// true if the card has to be initialised again.
    pub fn return_failed(&mut self) -> bool {
        let area = self.area_mut();
        area.returning = false;
        area.tries = area.tries.saturating_add(1);
        area.tries >= TRIES_MAX
    }
}

impl Area {
    /// Returns the next step of this partition access (`visit`): the CMD6 that switches the card to
    /// the partition.
    pub fn go_to(&mut self, visit: PartitionAccess) -> Next {
        self.switch_ns = u32::try_from(visit.switch_ns).unwrap_or(u32::MAX);
        if self.doubt {
            // The card is in its user area, so these bits are the only ones to set.
            return self.switch_to(Place::Enter, (SwitchMode::SetBits, visit.area()), visit.area());
        }
        // A long command may have changed the other bits since the partition access was planned.
        let config = *self.config.get_or_insert(visit.config & !ACCESS) | visit.area();
        self.switch_to(Place::Enter, (SwitchMode::WriteByte, config), visit.area())
    }

    fn switch_to(&mut self, place: Place, (mode, value): (SwitchMode, u8), access: u8) -> Next {
        self.leave(access);
        let switch = emmc::switch(mode, index::PARTITION_CONFIG, value, 0);
        Next::Order(place, switch, self.switch_ns.into())
    }

    /// Returns the next step: the CMD6 that switches the card back to the user area.
    pub fn return_to_user(&mut self) -> Next {
        self.returning = true;
        let switch = match self.config.filter(|_| !self.doubt) {
            Some(config) => (SwitchMode::WriteByte, config & !ACCESS),
            None => (SwitchMode::ClearBits, ACCESS),
        };
        self.switch_to(Place::Return, switch, 0)
    }

    /// Records what a long command (a [`Kind::LongCommand`](super::Kind::LongCommand)) does to
    /// PARTITION_CONFIG, if it writes that byte. `ended` false: the command begins, and the byte is
    /// unknown. `ended` true: the command has ended without an error.
    pub fn note_order(&mut self, command: &Command, ended: bool) {
        match partition_config(command) {
            Some(value) if ended => self.order_ended(command.arg >> 24 & 3, value),
            Some(_) => self.ordered(),
            None => {}
        }
    }
}
