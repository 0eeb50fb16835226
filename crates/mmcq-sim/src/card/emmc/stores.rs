//! The partitions of an eMMC, each with a medium of its own.

use super::super::cut::Media;
use super::super::medium::{Medium, MediumError};
use super::config::EmmcConfig;
use std::ops::Range;

/// A partition that PARTITION_CONFIG can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// The user area.
    User,
    /// Boot partition 1 or 2; the value is 0 or 1.
    Boot(u8),
    /// Replay protected memory block.
    Rpmb,
    /// General purpose partition 1 to 4; the value is 0 to 3.
    Gp(u8),
}

impl Partition {
    /// Returns the number of the partition in the field PARTITION_ACCESS.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::User => 0,
            Self::Boot(number) => number + 1,
            Self::Rpmb => 3,
            Self::Gp(number) => number + 4,
        }
    }

    /// Returns the partition that has this number in the field PARTITION_ACCESS.
    pub(super) fn from_number(number: u8) -> Self {
        match number & 7 {
            0 => Self::User,
            number @ (1 | 2) => Self::Boot(number - 1),
            3 => Self::Rpmb,
            number => Self::Gp(number - 4),
        }
    }
}

/// Media of all partitions except RPMB, which has no block commands.
#[derive(Debug)]
pub(super) struct Stores {
    pub(super) user: Medium,
    boot: Vec<Medium>,
    gp: [Option<Medium>; 4],
}

impl Stores {
    pub(super) fn new(config: &EmmcConfig, mut user: Medium) -> Result<Self, MediumError> {
        user.shorten(config.capacity_bytes);
        let fill = user.fill();
        let medium =
            |bytes, partition: Partition| Medium::sparse(bytes, fill.of_partition(partition.number()));
        let mut boot = Vec::new();
        if config.boot_bytes > 0 {
            boot.push(medium(config.boot_bytes, Partition::Boot(0))?);
            boot.push(medium(config.boot_bytes, Partition::Boot(1))?);
        }
        let mut gp = [None, None, None, None];
        for ((place, bytes), number) in gp.iter_mut().zip(config.gp_bytes).zip(0..) {
            if bytes > 0 {
                *place = Some(medium(bytes, Partition::Gp(number))?);
            }
        }
        Ok(Stores { user, boot, gp })
    }

    pub(super) fn get(&self, partition: Partition) -> Option<&Medium> {
        match partition {
            Partition::User => Some(&self.user),
            Partition::Boot(number) => self.boot.get(usize::from(number)),
            Partition::Gp(number) => self.gp.get(usize::from(number))?.as_ref(),
            Partition::Rpmb => None,
        }
    }

    pub(super) fn get_mut(&mut self, partition: Partition) -> Option<&mut Medium> {
        match partition {
            Partition::User => Some(&mut self.user),
            Partition::Boot(number) => self.boot.get_mut(usize::from(number)),
            Partition::Gp(number) => self.gp.get_mut(usize::from(number))?.as_mut(),
            Partition::Rpmb => None,
        }
    }

    /// Calls `each` with the partition number and the range of all sectors that were ever written
    /// or erased.
    pub(super) fn touched(&self, each: &mut dyn FnMut(u8, Range<u64>)) {
        for partition in (0..8).map(Partition::from_number) {
            if let Some(medium) = self.get(partition) {
                medium.touched(&mut |sectors| each(partition.number(), sectors));
            }
        }
    }

    /// Returns the medium of `partition`. For a partition without a medium, such as the RPMB,
    /// returns the user area's.
    pub(super) fn active(&mut self, partition: Partition) -> &mut Medium {
        match partition {
            Partition::Boot(number) => self.boot.get_mut(usize::from(number)).unwrap_or(&mut self.user),
            Partition::Gp(number) => {
                self.gp.get_mut(usize::from(number)).and_then(Option::as_mut).unwrap_or(&mut self.user)
            }
            Partition::User | Partition::Rpmb => &mut self.user,
        }
    }
}

impl Media for Stores {
    fn of(&mut self, partition: u8) -> Option<&mut Medium> {
        self.get_mut(Partition::from_number(partition))
    }
}
