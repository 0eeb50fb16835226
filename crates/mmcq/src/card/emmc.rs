//! Initialisation of eMMC devices from CMD1 to `tran` [eMMC 6.4, 6.6.2].

use super::emmc_bus::PowerClasses;
use super::link::Link;
use super::quirk::{self, Quirks};
use super::session::{Failed, Session};
use super::speed::Bounds;
use super::upkeep::EVENTS_ENABLED;
use super::{Card, Family, Options, Strength, emmc_bus, protect};
use crate::engine::{Breach, CardParams, Error, FlushBy};
use crate::host::{BusOp, Caps, Timing};
use crate::spec::command::{self, Command, emmc as cmd};
use crate::spec::csd::Csd;
use crate::spec::ext_csd::ExtCsd;
use crate::spec::response::{AddressUnit, Ocr};
use crate::spec::timing::emmc as limits;

/// Time between two CMD1, in nanoseconds.
const POWER_UP_POLL_NS: u64 = 2_000_000;
/// Largest number of CMD1 during power-up: as many as fit into twice the standard's time limit.
const POWER_UP_POLLS: u32 = (2 * limits::INIT_NS / POWER_UP_POLL_NS) as u32;
/// The RCA that bring-up gives to the device, which is the only device on the bus.
const RCA: u16 = 1;
/// Time limit of a flush of the cache, in nanoseconds: the standard has no limit, Linux waits 30 s.
pub(super) const FLUSH_NS: u64 = limits::FLUSH_NS;
/// Time limit of a flush of a card that has failed, in nanoseconds. It is short, because requests
/// wait.
pub(super) const FLUSH_LAST_NS: u64 = 2_000_000_000;
/// Shortest time limit of a write, even if the device declares less, in nanoseconds.
const WRITE_NS_MIN: u64 = 500_000_000;
/// Shortest time limit of a read, even if the device declares less, in nanoseconds.
const READ_NS_MIN: u64 = 100_000_000;
/// Shortest time limit of a read for a device that is known to exceed its declared time, in
/// nanoseconds.
const LONG_READ_NS_MIN: u64 = 600_000_000;

/// EXT_CSD_REV of eMMC version 4.5, the first with exception events.
const REVISION_EXCEPTIONS: u8 = 6;

/// Byte numbers in EXT_CSD that bring-up writes [eMMC 7.4].
mod field {
    pub const FLUSH_CACHE: u8 = 32;
    pub const CACHE_CTRL: u8 = 33;
    pub const ERASE_GROUP_DEF: u8 = 175;
    pub const EXCEPTION_EVENTS_CTRL: u8 = 56;
    pub const PARTITION_CONFIG: u8 = 179;
}

/// Properties that only eMMC devices have. Further properties are in EXT_CSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emmc {
    /// EXT_CSD_REV, byte 192 of EXT_CSD.
    pub revision: u8,
    /// Size of the volatile cache in bytes; 0 if the device has none.
    pub cache_bytes: u64,
    /// Whether the cache is enabled.
    pub cache_on: bool,
    /// Driver strength in all timings except legacy [eMMC 7.4, 185]: the number of a
    /// [`Strength`](super::Strength).
    pub strength: u8,
}

pub(super) async fn bring_up<L: Link>(
    session: &mut Session<L>,
    options: &Options,
    tried: &mut Option<Timing>,
) -> Result<Card, Failed> {
    let bounds = Bounds::of(&*session, options);
    let ocr = power_up(session).await?;
    let cid = session.command(command::all_send_cid()).await?.words;
    session.rca = RCA;
    match session.status_of(cmd::set_relative_addr(RCA)).await {
        // A locked device sets CARD_IS_LOCKED in each response; bring-up unlocks it after its
        // selection.
        Err(Failed) if L::RECOVERS && matches!(session.error, Error::Locked) => {}
        addressed => _ = addressed?,
    }
    let csd_words = session.command(command::send_csd(RCA)).await?.words;
    let csd = session.parsed(Csd::parse_emmc(&csd_words))?;
    match session.busy_command(command::select_card(RCA), limits::SWITCH_NS).await {
        Err(Failed) if L::RECOVERS => protect::open(session, options.unlock).await?,
        selected => selected?,
    }
    let mut clock_hz = bounds.clock(limits::max_hz(Timing::Legacy));
    session.bus(BusOp::Clock(clock_hz)).await?;
    if csd.spec_version < 4 {
        return session.refuse(Breach::TooOld);
    }
    let sector_access = ocr.emmc_access() == Some(AddressUnit::Sector);
    // A device of 2 GB has longer blocks by default. In a DDR timing CMD16 is illegal.
    if !sector_access && csd.read_block_bytes != 512 {
        session.status_of(command::set_blocklen(512)).await?;
    }
    let offered = Offered::read(session).await?;
    let switch_ns = offered.switch_ns;
    if offered.high_capacity_erase {
        optional_switch(session, field::ERASE_GROUP_DEF, switch_ns).await?;
    }
    if offered.partition_config & 7 != 0 {
        switch(session, field::PARTITION_CONFIG, offered.partition_config & !7, switch_ns).await?;
    }

    let (timing, width) = emmc_bus::widen(session, &bounds, &offered).await?;
    *tried = Some(timing);
    let wanted = options.strength as u8;
    let has_it = timing != Timing::Legacy && offered.strengths >> wanted & 1 == 1;
    let strength = if has_it { wanted } else { Strength::Ohm50 as u8 };
    if timing != Timing::Legacy {
        clock_hz = emmc_bus::go_to(session, &bounds, timing, width, strength, switch_ns).await?;
    }

    let mut switched = options.cache && offered.cache_bytes > 0;
    if switched {
        switched = optional_switch(session, field::CACHE_CTRL, switch_ns).await?;
    }
    if L::RECOVERS && options.upkeep.exceptions && offered.revision >= REVISION_EXCEPTIONS {
        // A device that refuses to report exception events works without them.
        let _ = switch(session, field::EXCEPTION_EVENTS_CTRL, EVENTS_ENABLED, switch_ns).await;
    }
    // Read EXT_CSD again after the changes; the caller finds it in the scratch memory.
    let last = Offered::read(session).await?;
    // A refusal is no proof that the cache is off, so use the register's value.
    let cache_on = switched || last.cache_on;
    let small = csd.blocks().unwrap_or(0);
    let sectors = if last.sectors > 0 { last.sectors } else { small };
    let quirks = if L::RECOVERS { quirk::of_emmc(&cid, last.revision, options.quirks) } else { Quirks::NONE };
    let read_ns_min = if quirks.has(Quirks::LONG_READ) { LONG_READ_NS_MIN } else { READ_NS_MIN };
    let target = CardParams {
        rca: RCA,
        // Byte addresses have 32 bits, so they reach 4 GiB.
        sectors: if sector_access { sectors } else { sectors.min(1 << 23) },
        block_addressed: sector_access,
        count: L::RECOVERS && !quirks.has(Quirks::NO_COUNT),
        extended_address: false,
        read_timeout_ns: csd.read_timeout_ns(clock_hz).max(read_ns_min),
        write_timeout_ns: csd.write_timeout_ns(clock_hz).max(WRITE_NS_MIN),
        flush: if cache_on { FlushBy::EmmcCache { timeout_ns: FLUSH_NS } } else { FlushBy::Status },
        protected: csd.perm_write_protect || csd.tmp_write_protect,
        quirks,
        emmc: true,
    };
    let family =
        Family::Emmc(Emmc { revision: last.revision, cache_bytes: last.cache_bytes, cache_on, strength });
    Ok(Card { family, cid, csd: csd_words, ocr: ocr.0, timing, width, clock_hz, params: target })
}

/// The fields of EXT_CSD that bring-up needs, decoded.
pub(super) struct Offered {
    revision: u8,
    sectors: u64,
    cache_bytes: u64,
    cache_on: bool,
    pub switch_ns: u64,
    high_capacity_erase: bool,
    partition_config: u8,
    pub timings: u16,
    pub classes: PowerClasses,
    /// DRIVER_STRENGTH: supported driver types, one bit each.
    strengths: u8,
    /// Checksum of the bytes of EXT_CSD that no command changes: [`emmc_bus::fingerprint`].
    pub fixed: u32,
}

impl Offered {
    pub async fn read<L: Link>(session: &mut Session<L>) -> Result<Self, Failed> {
        session.register(cmd::send_ext_csd(), false, 512).await?;
        let bytes = session.bytes()?;
        let fixed = emmc_bus::fingerprint(bytes);
        let ext = match ExtCsd::parse(bytes) {
            Ok(ext) => ext,
            Err(error) => return session.fail(error.into()),
        };
        if ext.sector_bytes() != 512 {
            return session.refuse(Breach::LargeSectors);
        }
        let mut timings = Caps::timing_bit(Timing::Legacy);
        for (offered, timing) in [
            (ext.hs52(), Timing::HighSpeed),
            (ext.ddr52(), Timing::Ddr52),
            (ext.hs200(), Timing::Hs200),
            (ext.hs400(), Timing::Hs400),
            (ext.hs400() && ext.enhanced_strobe(), Timing::Hs400Es),
        ] {
            if offered {
                timings |= Caps::timing_bit(timing);
            }
        }
        Ok(Offered {
            revision: ext.ext_csd_rev(),
            sectors: ext.capacity_bytes() / 512,
            cache_bytes: ext.cache_bytes(),
            cache_on: ext.cache_ctrl() & 1 != 0,
            switch_ns: ext.generic_cmd6_time_ns().max(limits::SWITCH_NS),
            high_capacity_erase: ext.hc_erase_group_bytes().is_some(),
            partition_config: ext.partition_config(),
            timings,
            classes: PowerClasses::of(&ext),
            strengths: ext.driver_strength(),
            fixed,
        })
    }
}

/// Sends CMD1 until the device has powered up, with no other command in between. A CMD0 during the
/// power-up makes some devices inactive [eMMC 6.4.3]. No CMD1 that only inquires is sent before: an
/// inquiry makes some devices ready, and they then respond to no further CMD1.
async fn power_up<L: Link>(session: &mut Session<L>) -> Result<Ocr, Failed> {
    let request = cmd::send_op_cond(Ocr::V27_36 | Ocr::V170_195, true);
    // No response to the first CMD1 means that no device is present. Later, one lost response is
    // excused.
    let mut lost = true;
    for _ in 0..POWER_UP_POLLS {
        match session.command(request).await {
            Ok(response) if response.ocr().voltages() & Ocr::V27_36 == 0 => {
                return session.refuse(Breach::EmmcVoltage);
            }
            Ok(response) if response.ocr().ready() => return Ok(response.ocr()),
            Ok(_) => lost = false,
            Err(Failed) if session.excuse_loss_once(&mut lost) => {}
            Err(Failed) => return Err(Failed),
        }
        session.pause(POWER_UP_POLL_NS).await?;
    }
    session.refuse(Breach::EmmcPowerUp)
}

/// Writes `value` to byte `index` of EXT_CSD by CMD6, waits for the end of busy for at most
/// `timeout_ns`, and reads the status that shows whether the device has written the byte.
pub(super) async fn switch<L: Link>(
    session: &mut Session<L>,
    index: u8,
    value: u8,
    timeout_ns: u64,
) -> Result<(), Failed> {
    session.busy_command(cmd::switch(cmd::SwitchMode::WriteByte, index, value, 0), timeout_ns).await
}

/// Sets byte `index` of EXT_CSD to 1, with a busy of at most `timeout_ns`, to enable a function
/// that bring-up does not need. Returns false if the device refuses; bring-up then continues
/// without the function.
async fn optional_switch<L: Link>(
    session: &mut Session<L>,
    index: u8,
    timeout_ns: u64,
) -> Result<bool, Failed> {
    match switch(session, index, 1, timeout_ns).await {
        Err(Failed) if matches!(session.error, Error::Card(_)) => Ok(false),
        done => done.map(|()| true),
    }
}

/// Flushes the cache to the medium. Fails if that takes longer than `limit_ns` or the device does
/// not respond.
pub(super) async fn flush<L: Link>(session: &mut Session<L>, limit_ns: u64) -> Result<(), Failed> {
    session.busy_command(flush_command(), limit_ns).await
}

/// Returns the command that flushes the cache to the medium.
pub(crate) const fn flush_command() -> Command {
    cmd::switch(cmd::SwitchMode::WriteByte, field::FLUSH_CACHE, 1, 0)
}
