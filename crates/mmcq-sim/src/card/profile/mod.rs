//! Card profiles: TOML files from which the models of cards are built.
//!
//! The name of each key has the unit of its value, and each table has a `source` that tells where
//! its numbers come from.

mod error;
mod flash;
mod packed;
mod parse;
mod place;
mod queue;
mod spread;

pub use error::ProfileError;
pub(crate) use place::Place;

use super::emmc::config::EmmcConfig;
use super::flash::Timing;
use super::medium::Medium;
use super::odd::OddCard;
use super::queue::Order as TaskOrder;
use super::quirk::Quirks;
use super::sd::config::SdConfig;
use super::{Card, EmmcCard, SdCard};

/// A card profile, from which the model of a card can be built.
#[derive(Clone, Debug)]
pub struct CardProfile {
    name: String,
    description: String,
    kind: Kind,
    sources: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
enum Kind {
    Sd(SdConfig),
    Emmc(EmmcConfig),
}

impl CardProfile {
    /// Reads a profile from TOML text; `name` is used as the file's name in error messages.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, ProfileError> {
        parse::profile(text, name)
    }

    /// Returns the profile of another card of the same type: its serial number is one higher.
    #[must_use]
    pub fn sibling(&self) -> Self {
        let mut sibling = self.clone();
        let identity = match &mut sibling.kind {
            Kind::Sd(config) => &mut config.identity,
            Kind::Emmc(config) => &mut config.identity,
        };
        identity.serial = identity.serial.wrapping_add(1);
        sibling
    }

    /// Returns the profile with another order in which queued tasks become ready. Without a queue
    /// nothing changes.
    #[must_use]
    pub fn with_task_order(mut self, order: TaskOrder) -> Self {
        let queue = match &mut self.kind {
            Kind::Sd(config) => &mut config.queue,
            Kind::Emmc(config) => &mut config.queue,
        };
        if let Some(queue) = queue {
            queue.order = order;
        }
        self
    }

    /// Returns the profile of a card that reports a failed entry of a packed command by
    /// EXCEPTION_EVENT alone. Without packed commands nothing changes.
    #[must_use]
    pub fn with_exception_alone(mut self) -> Self {
        if let Kind::Emmc(EmmcConfig { packed: Some(packed), .. }) = &mut self.kind {
            packed.exception_alone = true;
        }
        self
    }

    /// Returns the name given to [`CardProfile::from_toml`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description of the card, one line.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns true for an eMMC, false for an SD card.
    #[must_use]
    pub fn is_emmc(&self) -> bool {
        matches!(self.kind, Kind::Emmc(_))
    }

    /// Returns the capacity in bytes that CSD or EXT_CSD shows.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Sd(config) => config.capacity_bytes,
            Kind::Emmc(config) => config.capacity_bytes,
        }
    }

    /// Returns the profile with another capacity; an error if the registers cannot express it.
    pub fn with_capacity_bytes(mut self, bytes: u64) -> Result<Self, ProfileError> {
        match &mut self.kind {
            Kind::Sd(config) => config.capacity_bytes = bytes,
            Kind::Emmc(config) => config.capacity_bytes = bytes,
        }
        parse::check_capacity(&self.kind, &self.name)?;
        Ok(self)
    }

    /// Returns whether the card has a command queue.
    #[must_use]
    pub fn has_queue(&self) -> bool {
        match &self.kind {
            Kind::Sd(config) => config.queue.is_some(),
            Kind::Emmc(config) => config.queue.is_some(),
        }
    }

    /// Returns whether the card supports packed commands.
    #[must_use]
    pub fn takes_packed(&self) -> bool {
        matches!(&self.kind, Kind::Emmc(config) if config.packed.is_some())
    }

    /// Returns the quirks of the card.
    #[must_use]
    pub fn quirks(&self) -> &Quirks {
        match &self.kind {
            Kind::Sd(config) => &config.quirks,
            Kind::Emmc(config) => &config.quirks,
        }
    }

    /// Returns the quirks of the card, which the caller may change before it builds the card.
    pub fn quirks_mut(&mut self) -> &mut Quirks {
        match &mut self.kind {
            Kind::Sd(config) => &mut config.quirks,
            Kind::Emmc(config) => &mut config.quirks,
        }
    }

    /// Returns the times of the flash.
    #[must_use]
    pub fn flash(&self) -> &Timing {
        match &self.kind {
            Kind::Sd(config) => &config.flash,
            Kind::Emmc(config) => &config.flash,
        }
    }

    /// Returns the sources of the numbers in the profile, as pairs of table and source.
    #[must_use]
    pub fn sources(&self) -> &[(String, String)] {
        &self.sources
    }

    /// Builds the card on this medium. If the medium is larger than the card's capacity, the card
    /// does not use the last bytes of the medium.
    pub fn build(&self, medium: Medium) -> Result<Box<dyn Card>, ProfileError> {
        let card: Box<dyn Card> = match &self.kind {
            Kind::Sd(_) => Box::new(self.build_sd(medium)?),
            Kind::Emmc(_) => Box::new(self.build_emmc(medium)?),
        };
        let quirks = self.quirks();
        match quirks.answers.is_empty() && quirks.registers.is_empty() && quirks.deaf_resets == 0 {
            true => Ok(card),
            false => Ok(Box::new(OddCard::new(card, quirks))),
        }
    }

    /// Builds the SD card on this medium; an error if the profile describes an eMMC.
    pub fn build_sd(&self, medium: Medium) -> Result<SdCard, ProfileError> {
        self.check_medium(&medium)?;
        match &self.kind {
            Kind::Sd(config) => Ok(SdCard::new(config.clone(), medium)),
            Kind::Emmc(_) => Err(self.other_kind("an SD card", "an eMMC")),
        }
    }

    /// Builds the eMMC on this medium; an error if the profile describes an SD card.
    pub fn build_emmc(&self, medium: Medium) -> Result<EmmcCard, ProfileError> {
        self.check_medium(&medium)?;
        match &self.kind {
            Kind::Emmc(config) => Ok(EmmcCard::new(config.clone(), medium)?),
            Kind::Sd(_) => Err(self.other_kind("an eMMC", "an SD card")),
        }
    }

    fn other_kind(&self, wanted: &'static str, is: &'static str) -> ProfileError {
        ProfileError::OtherKind { name: self.name.clone(), wanted, is }
    }

    fn check_medium(&self, medium: &Medium) -> Result<(), ProfileError> {
        let (capacity, bytes) = (self.capacity_bytes(), medium.bytes());
        if bytes < capacity {
            return Err(ProfileError::MediumTooSmall { name: self.name.clone(), capacity, bytes });
        }
        Ok(())
    }
}
