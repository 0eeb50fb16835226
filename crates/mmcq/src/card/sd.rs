//! Initialisation of SD memory cards from ACMD41 to `tran` [SD 4.2, 4.3.10].

use super::identify::power_cycle;
use super::link::{Link, Registers};
use super::quirk::{self, Quirks};
use super::session::{Failed, Line, OnMoreLines, Session};
use super::speed::Bounds;
use super::{Card, Family, Options, protect, uhs};
use crate::engine::{Breach, CardParams, Error, FlushBy};
use crate::host::{BusOp, Caps, Host, Timing, Width};
use crate::spec::command::{self, sd as cmd};
use crate::spec::csd::Csd;
use crate::spec::response::Ocr;
use crate::spec::scr::{Scr, SdVersion};
use crate::spec::switch::SwitchStatus;
use crate::spec::timing::sd as limits;
use cmd::{Group, OcrRequest, SwitchFunc};

/// Time between two ACMD41, in nanoseconds.
const POWER_UP_POLL_NS: u64 = 10_000_000;
/// Time between the first ACMD41 without voltages (the inquiry of the OCR) and the first ACMD41
/// with voltages, in nanoseconds; some cards never become ready without this pause.
const INQUIRY_NS: u64 = 1_000_000;
/// Largest number of ACMD41 during power-up: as many as fit into five times the standard's time
/// limit, which some cards on the market exceed.
const POWER_UP_POLLS: u32 = (5 * limits::INIT_NS / POWER_UP_POLL_NS) as u32;
/// Number of tries of the switch to 1.8 V, so that a single lost response does not exclude all
/// UHS-I modes.
const VOLTAGE_SWITCHES: u32 = 2;
/// Number of restarts after which bring-up continues without SD status.
pub(super) const WITHOUT_STATUS: u32 = 2;
/// Number of restarts after which bring-up continues without CMD6, and without SD status.
pub(super) const WITHOUT_SWITCH: u32 = 3;
/// CSD command class 10, switch (CMD6).
const CLASS_SWITCH: u8 = 10;

/// Properties that only SD cards have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sd {
    /// SCR, as read from the card.
    pub scr: [u8; 8],
    /// SD status, as read from the card; zeros if the card does not send it.
    pub ssr: [u8; 64],
    /// Status of CMD6 (mode 0) at bring-up, as read from the card; zeros if the card does not
    /// support CMD6.
    pub switch: [u8; 64],
    /// Whether the card responded to CMD8, so it has version 2.00 or later.
    pub version2: bool,
    /// Whether the signal lines have 1.8 V.
    pub signal18: bool,
}

impl Sd {
    /// Returns the number of restarts (see [`WITHOUT_STATUS`] and [`WITHOUT_SWITCH`]) with which a
    /// new bring-up of this card begins. So it does not try again what the card lacks: CMD6, or the
    /// SD status. 0: the card has both.
    pub(super) fn starts(&self) -> u32 {
        match (self.switch == [0; 64], self.ssr == [0; 64]) {
            (true, true) => WITHOUT_SWITCH,
            (false, true) => WITHOUT_STATUS,
            _ => 0,
        }
    }
}

pub(super) async fn bring_up<L: Link>(
    session: &mut Session<L>,
    options: &Options,
    v2: bool,
    inquiry: Ocr,
    tried: &mut Option<Timing>,
) -> Result<Card, Failed> {
    let bounds = Bounds::of(&*session, options);
    if inquiry.voltages() & Ocr::V27_36 == 0 {
        return session.refuse(Breach::SdVoltage);
    }
    let uhs = [Timing::Sdr12, Timing::Sdr25, Timing::Sdr50, Timing::Sdr104, Timing::Ddr50];
    let may_18 = L::TUNES
        && v2
        && bounds.signal18
        && bounds.width(Width::W4) == Width::W4
        && uhs.iter().any(|&timing| bounds.allow(timing));
    let mut switches = if may_18 && !bounds.fixed18 { VOLTAGE_SWITCHES } else { 0 };
    let (ocr, signal18) = loop {
        let ocr = power_up(session, v2, inquiry, switches > 0).await?;
        if switches == 0 || !ocr.s18a() {
            break (ocr, false);
        }
        if OnMoreLines::<L, _>::of(voltage_switch(session, true)).await.is_ok() {
            break (ocr, true);
        }
        // Only a power cycle takes a card out of a failed switch [SD 4.2.4.2]. After the power
        // cycle the switch is tried once more; if it fails again, the card stays at 3.3 V.
        power_cycle(session).await?;
        session.command(command::go_idle_state()).await?;
        session.command(cmd::send_if_cond(1, 0xaa)).await?;
        switches -= 1;
    };

    let cid = session.command(command::all_send_cid()).await?.words;
    // A card may first publish RCA 0, which is not a valid address.
    for _ in 0..3 {
        session.rca = session.command(cmd::send_relative_addr()).await?.r6().rca();
        if session.rca != 0 {
            break;
        }
    }
    if session.rca == 0 {
        return session.refuse(Breach::SdAddress);
    }
    let csd_words = session.command(command::send_csd(session.rca)).await?.words;
    // A variable that lives across an `await` enlarges the future, so keep only what is needed.
    let (sectors, has_switch, is_protected) = {
        let csd = session.parsed(Csd::parse_sd(&csd_words))?;
        (csd.blocks(), csd.classes.has(CLASS_SWITCH), csd.perm_write_protect || csd.tmp_write_protect)
    };
    match session.busy_command(command::select_card(session.rca), limits::WRITE_XC_NS).await {
        Err(Failed) if L::RECOVERS => protect::open(session, options.unlock).await?,
        selected => selected?,
    }
    let mut clock_hz = bounds.clock(limits::max_hz(Timing::Legacy));
    session.bus(BusOp::Clock(clock_hz)).await?;
    session.register(cmd::send_scr(), true, 8).await?;
    let mut kept = L::Registers::NONE;
    let mut signal18 = signal18;
    if let Some(sd) = kept.sd() {
        session.copy(&mut sd.scr)?;
    }
    let (is_wide, has_switch, counts) = {
        let scr = match kept.sd() {
            Some(sd) => Scr::parse(&sd.scr),
            None => Scr::parse(session.bytes()?),
        };
        let scr = session.parsed(scr)?;
        (scr.width4, has_switch && scr.version >= SdVersion::V1_10, scr.cmd23)
    };
    let mut width = Width::W1;
    if is_wide && bounds.width(Width::W4) == Width::W4 {
        // The pull-up on DAT3 is only for card detection, so disconnect it.
        let _ = session.app_command(cmd::set_clr_card_detect(false)).await;
        session.app_command(cmd::set_bus_width(true)).await?;
        session.bus(BusOp::Width(Width::W4)).await?;
        width = Width::W4;
    }
    // The SD status is not required, so it is not read any more after several restarts.
    if L::KEEPS && session.starts < WITHOUT_STATUS {
        session.register(cmd::sd_status(), true, 64).await?;
        if let Some(sd) = kept.sd() {
            session.copy(&mut sd.ssr)?;
        }
    }

    let mut timing = Timing::Legacy;
    if has_switch && session.starts < WITHOUT_SWITCH {
        session.register(cmd::switch_func(SwitchFunc::CHECK), false, 64).await?;
        if let Some(sd) = kept.sd() {
            session.copy(&mut sd.switch)?;
        }
        if L::RECOVERS
            && may_18
            && !signal18
            && kept.sd().is_some_and(|sd| has_uhs(&SwitchStatus::parse(&sd.switch)))
        {
            // The card offered no switch to 1.8 V, but UHS-I modes. Its supply was not switched off
            // since its lines went to 1.8 V, so only the host must switch.
            signal18 = OnMoreLines::<L, _>::of(voltage_switch(session, false)).await.is_ok();
            if !signal18 {
                session.bus(BusOp::Signal18(false)).await?;
            }
        }
        let offered = match kept.sd() {
            Some(sd) => &sd.switch,
            None => session.bytes()?,
        };
        let chosen = choose(&bounds, &SwitchStatus::parse(offered), signal18, width);
        if let Some((best, function)) = chosen {
            *tried = Some(best);
            if L::RECOVERS
                && signal18
                && let Some(sd) = kept.sd()
            {
                let offered = SwitchStatus::parse(&sd.switch);
                let set = uhs::before(options, &offered, best, session.supply_ma());
                session.register(cmd::switch_func(set), false, 64).await?;
            }
            clock_hz = switch(session, &bounds, best, function).await?;
            timing = best;
        }
    }
    if !ocr.ccs() {
        // Cards of 2 GB have longer blocks by default.
        session.status_of(command::set_blocklen(512)).await?;
    }

    let Some(sectors) = sectors else { return session.refuse(Breach::NoSize) };
    // Lean firmware never sends CMD23, so it needs no list of cards that fail with CMD23.
    let quirks = if L::RECOVERS { quirk::of_sd(&cid, options.quirks) } else { Quirks::NONE };
    let protected = is_protected || session.asked(0, |host| host.write_protected().into()) != 0;
    let target = CardParams {
        rca: session.rca,
        sectors: sectors.min(reach(ocr)),
        block_addressed: ocr.ccs(),
        count: L::RECOVERS && counts && !quirks.has(Quirks::NO_COUNT),
        extended_address: ocr.co2t(),
        // No CSD declares a longer time than the standard's own limits.
        read_timeout_ns: options.sd_read_ns.max(limits::READ_NS),
        write_timeout_ns: options.sd_write_ns.max(limits::WRITE_XC_NS),
        flush: FlushBy::Status,
        protected,
        quirks,
        emmc: false,
    };
    Ok(Card {
        family: Family::Sd(kept.into_sd(v2, signal18)),
        cid,
        csd: csd_words,
        ocr: ocr.0,
        timing,
        width,
        clock_hz,
        params: target,
    })
}

/// Returns the number of blocks that commands to this card can address, whatever its CSD declares.
/// Commands with higher addresses would access the blocks from 0 on.
const fn reach(ocr: Ocr) -> u64 {
    match (ocr.co2t(), ocr.ccs()) {
        // CMD22 adds 6 bits to the 32 address bits [SD 4.3.14].
        (true, _) => 1 << 38,
        (false, true) => 1 << 32,
        // Addresses are in bytes.
        (false, false) => 1 << 23,
    }
}

/// Sends ACMD41 until the card has powered up, and returns its OCR. `v2`: the card has responded to
/// CMD8. `inquiry`: the voltages that the card reported before. `s18r`: requests the switch to 1.8
/// V.
async fn power_up<L: Link>(
    session: &mut Session<L>,
    v2: bool,
    inquiry: Ocr,
    s18r: bool,
) -> Result<Ocr, Failed> {
    let voltages = inquiry.voltages() & Ocr::V27_36;
    let xpc = match session.supply_ma() {
        _ if L::Host::ONE_LINE => false,
        // The current is not known; a host for UHS-I is assumed to supply it.
        0 => s18r,
        supply_ma => supply_ma >= uhs::XPC_MA,
    };
    let request = OcrRequest { voltages, hcs: v2, xpc, s18r, ho2t: v2 };
    let mut pause_ns = INQUIRY_NS;
    for _ in 0..POWER_UP_POLLS {
        session.pause(pause_ns).await?;
        pause_ns = POWER_UP_POLL_NS;
        let ocr = session.app_command(cmd::sd_send_op_cond(request)).await?.ocr();
        if ocr.ready() {
            return Ok(ocr);
        }
    }
    session.refuse(Breach::SdPowerUp)
}

/// Switches to 1.8 V by CMD11 [SD 4.2.4.2], [SDHC 3.6.1]. The card holds all lines low before the
/// voltage changes, and has released all of them at the end. Without `asks` only the host switches,
/// since the card already uses 1.8 V. The reason of a failure is not returned: the caller
/// power-cycles the card, and continues at 3.3 V.
pub(super) async fn voltage_switch<L: Link>(session: &mut Session<L>, asks: bool) -> Result<(), Failed> {
    if asks {
        session.status_of(cmd::voltage_switch()).await?;
        session.pause(limits::VOLTAGE_LINES_LOW_NS).await?;
        if !session.lines_are(0) {
            return Err(Failed);
        }
    }
    let hz = limits::IDENTIFY_MAX_HZ.max(session.slowest_hz());
    let steps = [
        Line::Set(BusOp::Clock(0)),
        Line::Set(BusOp::Signal18(true)),
        Line::Pause(2 * limits::VOLTAGE_CLOCK_OFF_NS as u32),
        Line::Set(BusOp::Clock(hz)),
        Line::Pause(limits::VOLTAGE_DAT_HIGH_NS as u32),
    ];
    session.lines(&steps).await?;
    if session.lines_are(0xf) { Ok(()) } else { Err(Failed) }
}

/// Returns whether the card offers an access mode that exists only at 1.8 V.
fn has_uhs(offered: &SwitchStatus) -> bool {
    (2..=4).any(|function| offered.supports(Group::AccessMode, function))
}

/// Returns the fastest access mode (function of group 1) that card, host and options allow, as
/// timing and function number; `None` if they allow none. With `signal18` (1.8 V signalling) the
/// mode is a UHS-I one, otherwise High Speed.
fn choose(bounds: &Bounds, offered: &SwitchStatus, signal18: bool, width: Width) -> Option<(Timing, u8)> {
    const UHS: [(Timing, u8); 5] =
        [(Timing::Sdr104, 3), (Timing::Sdr50, 2), (Timing::Ddr50, 4), (Timing::Sdr25, 1), (Timing::Sdr12, 0)];
    const PLAIN: [(Timing, u8); 1] = [(Timing::HighSpeed, 1)];
    let modes: &[(Timing, u8)] = if signal18 { &UHS } else { &PLAIN };
    modes.iter().copied().find(|&(timing, function)| {
        offered.supports(Group::AccessMode, function)
            && bounds.allow(timing)
            && (!signal18 || width == Width::W4)
    })
}

/// Returns whether this timing needs tuning: SDR104 always, SDR50 only if the controller requires
/// it (a bit of `host_timings`) [SDHC 2.2.25].
pub(super) fn tuned(timing: Timing, host_timings: u16) -> bool {
    timing == Timing::Sdr104 || timing == Timing::Sdr50 && host_timings & Caps::SDR50_TUNED != 0
}

/// Finds a new sampling point in the present access mode.
pub(super) async fn retune<L: Link>(session: &mut Session<L>, timing: Timing) -> Result<(), Failed> {
    let timings = session.asked(0, |host| host.caps().timings.into()) as u16;
    if !tuned(timing, timings) {
        return session.fail(Error::Unsupported);
    }
    session.tune(cmd::send_tuning_block(), 64, limits::TUNING_BLOCKS).await?;
    session.status_of(command::send_status(session.rca)).await?;
    Ok(())
}

/// Switches the card to an access mode (number `function` of CMD6's group 1), then host and clock
/// to the timing `timing`, and tunes if that is needed. Returns the clock in hertz.
async fn switch<L: Link>(
    session: &mut Session<L>,
    bounds: &Bounds,
    timing: Timing,
    function: u8,
) -> Result<u32, Failed> {
    session.register(cmd::switch_func(SwitchFunc::SET.with(Group::AccessMode, function)), false, 64).await?;
    if SwitchStatus::parse(session.bytes()?).selected(Group::AccessMode) != Some(function) {
        return session.refuse(Breach::AccessMode);
    }
    let clock_hz = bounds.clock(limits::max_hz(timing));
    session.lines(&[Line::Set(BusOp::Timing(timing)), Line::Set(BusOp::Clock(clock_hz))]).await?;
    if !L::Host::ONE_LINE && L::TUNES && tuned(timing, bounds.timings) {
        let tuning = session.tune(cmd::send_tuning_block(), 64, limits::TUNING_BLOCKS);
        OnMoreLines::<L, _>::of(tuning).await?;
    }
    session.status_of(command::send_status(session.rca)).await?;
    Ok(clock_hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that the size of a card is limited to the blocks that its commands can address: a CSD
    /// of version 3 may declare 2^38 blocks although its card does not support CMD22.
    #[test]
    fn no_block_is_beyond_what_commands_can_name() {
        let (ccs, co2t) = (1 << 30, 1 << 27);
        for (ocr, last) in [(0, (1 << 23) - 1), (ccs, u64::from(u32::MAX)), (ccs | co2t, (1 << 38) - 1)] {
            assert_eq!(reach(Ocr(ocr)) - 1, last, "{ocr:#x}");
        }
    }
}
