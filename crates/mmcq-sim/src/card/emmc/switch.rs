//! CMD6 (SWITCH) on an eMMC: which bytes of EXT_CSD the host may write, and which values they
//! accept [eMMC 6.6.1, 7.4].

use super::config::{Revision, TYPE_DDR52, TYPE_HS52, TYPE_HS200, TYPE_HS400, byte};
use super::{EmmcCard, Partition};

/// What a CMD6 does apart from the change of a byte in EXT_CSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No further effect: the card is busy for the usual time of a switch.
    Usual,
    /// The cache is flushed, and no byte changes (FLUSH_CACHE).
    Flush,
    /// The cache is flushed and then switched off (CACHE_CTRL), or flushed before power-off or
    /// sleep (POWER_OFF_NOTIFICATION).
    CacheOff,
    /// Background operations start (BKOPS_START).
    Background,
    /// Sanitize: the flash destroys all data that were erased before.
    Sanitize,
    /// PARTITION_CONFIG selects another partition.
    Partition(Partition),
}

impl EmmcCard {
    /// Executes CMD6 with this argument. Returns `None` if the card reports SWITCH_ERROR.
    pub(super) fn switch(&mut self, arg: u32) -> Option<Effect> {
        let index = (arg >> 16) as u8;
        let given = (arg >> 8) as u8;
        let old = self.ext_csd[usize::from(index)];
        let value = match arg >> 24 & 3 {
            // Access mode 0 selects a command set: the device has only the standard one.
            0 => return (arg & 7 == 0).then_some(Effect::Usual),
            1 => old | given,
            2 => old & !given,
            _ => given,
        };
        let effect = self.allowed(index, value)?;
        if !matches!(effect, Effect::Flush | Effect::Background | Effect::Sanitize) {
            self.ext_csd[usize::from(index)] = value;
        }
        Some(effect)
    }

    fn allowed(&self, index: u8, value: u8) -> Option<Effect> {
        if self.config.quirks.refused_switches.contains(&index) {
            return None;
        }
        let since = |revision| self.config.revision >= revision;
        let within = |mask: u8| (value & !mask == 0).then_some(Effect::Usual);
        let has_cache = since(Revision::V4_5) && self.config.cache_size_kib > 0;
        match index {
            byte::CMDQ_MODE_EN if self.config.queue.is_some() && self.queue_may_change() => within(0x01),
            byte::FLUSH_CACHE if has_cache && value == 1 => Some(Effect::Flush),
            // The card writes its cache to the flash before it turns the cache off.
            byte::CACHE_CTRL if has_cache => match value {
                0 => Some(Effect::CacheOff),
                1 => Some(Effect::Usual),
                _ => None,
            },
            byte::POWER_OFF_NOTIFICATION if since(Revision::V4_5) => {
                // POWER_OFF_NOTIFICATION announces power-off or sleep: the card writes out its
                // cache.
                let effect = if value >= 2 { Effect::CacheOff } else { Effect::Usual };
                (value <= if since(Revision::V5_0) { 4 } else { 3 }).then_some(effect)
            }
            byte::EXCEPTION_EVENTS_CTRL_LOW if since(Revision::V4_5) => within(0x1e),
            byte::EXCEPTION_EVENTS_CTRL_HIGH if since(Revision::V4_5) => within(0x00),
            byte::PERIODIC_WAKEUP if since(Revision::V4_5) => Some(Effect::Usual),
            byte::HPI_MGMT => within(self.config.hpi.into()),
            byte::INAND_CMD38 if self.config.quirks.inand_cmd38 => Some(Effect::Usual),
            byte::RST_N_FUNCTION => {
                let once = self.ext_csd[usize::from(index)] & 3;
                (value <= 2 && (once == 0 || value == once)).then_some(Effect::Usual)
            }
            byte::BKOPS_EN => {
                let manual_kept = value & 1 >= self.ext_csd[usize::from(index)] & 1;
                within(if since(Revision::V5_1) { 0x03 } else { 0x01 }).filter(|_| manual_kept)
            }
            byte::BKOPS_START => Some(Effect::Background),
            byte::SANITIZE_START if since(Revision::V4_5) => Some(Effect::Sanitize),
            byte::USER_WP => within(0xdd),
            byte::BOOT_WP => within(0xdf),
            byte::ERASE_GROUP_DEF | byte::CMD_SET => within(if index == byte::CMD_SET { 0 } else { 1 }),
            byte::BOOT_BUS_CONDITIONS => within(0x1f),
            byte::BOOT_CONFIG_PROT => within(0x11),
            byte::PARTITION_CONFIG if self.queue_is_idle() => self.partition_config(value),
            byte::BUS_WIDTH => self.bus_width(value).then_some(Effect::Usual),
            byte::HS_TIMING => self.hs_timing(value).then_some(Effect::Usual),
            byte::POWER_CLASS => within(0x0f),
            _ => None,
        }
    }

    fn partition_config(&self, value: u8) -> Option<Effect> {
        if value & 0x80 != 0 {
            return None;
        }
        let partition = Partition::from_number(value);
        if partition != Partition::Rpmb || self.rpmb.is_none() {
            self.store(partition)?;
        }
        Some(Effect::Partition(partition))
    }

    /// Returns whether HS_TIMING may be set to this value. HS200 needs a bus of four or eight lines
    /// with single data rate. HS400 needs HS with eight lines and double data rate.
    fn hs_timing(&self, value: u8) -> bool {
        let strengths = self.ext_csd[usize::from(byte::DRIVER_STRENGTH)] | 1;
        let strength = value >> 4;
        if strength > 7 || strengths >> strength & 1 == 0 {
            return false;
        }
        let card_type = self.ext_csd[usize::from(byte::CARD_TYPE)];
        let now = self.ext_csd[usize::from(byte::HS_TIMING)] & 0xf;
        let width = self.ext_csd[usize::from(byte::BUS_WIDTH)];
        match value & 0xf {
            0 => width & 0x0f < 5,
            1 => card_type & TYPE_HS52 != 0,
            2 => card_type & TYPE_HS200 != 0 && matches!(width, 1 | 2) && now != 3,
            3 => card_type & TYPE_HS400 != 0 && matches!(width, 0x06 | 0x86) && matches!(now, 1 | 3),
            _ => false,
        }
    }

    /// Returns whether BUS_WIDTH may be set to this value. Double data rate needs the timing HS.
    /// The enhanced strobe needs eight lines and a device that supports it.
    fn bus_width(&self, value: u8) -> bool {
        let card_type = self.ext_csd[usize::from(byte::CARD_TYPE)];
        let timing = self.ext_csd[usize::from(byte::HS_TIMING)] & 0xf;
        let strobe = self.ext_csd[usize::from(byte::STROBE_SUPPORT)] == 1;
        match value {
            // HS200 does not work with one data line.
            0 => matches!(timing, 0 | 1),
            1 | 2 => timing != 3,
            5 => timing == 1 && card_type & TYPE_DDR52 != 0,
            6 => timing == 1 && card_type & (TYPE_DDR52 | TYPE_HS400) != 0,
            0x86 => timing == 1 && strobe,
            _ => false,
        }
    }
}
