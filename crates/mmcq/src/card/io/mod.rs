//! Initialisation of I/O cards from CMD5 to their functions, with or without memory [SDIO 3, 6].
//!
//! The steps in their order:
//! 1. reset, CMD8 and CMD5;
//! 2. for a combo card: bring-up of the memory, at a slow clock and with one data line;
//! 3. for a card that switches to 1.8 V: CMD11;
//! 4. CMD3 and CMD7;
//! 5. CCCR and tuples;
//! 6. width, speed and asynchronous interrupt.
//!
//! Step 5 reads registers and tuples while the bus is still slow. They show the card's
//! [quirks](super::quirk) before the bus becomes fast. A combo card runs at most at high speed.

pub(crate) mod error;

use super::identify::{self, Families, power_cycle};
use super::link::Link;
use super::quirk::{self, Quirks};
use super::session::{Failed, Session};
use super::speed::Bounds;
use super::{Card, Family, Options, sd};
use crate::engine::{Breach, CardParams, Error};
use crate::host::{BusOp, Caps, Timing, Width};
use crate::spec::command::sd::{self as sd_cmd, Group, SwitchFunc};
use crate::spec::command::{self, Command, sdio as cmd};
use crate::spec::response::{Ocr, R4};
use crate::spec::scr::Scr;
use crate::spec::sdio::FUNCTIONS_MAX;
use crate::spec::sdio::cccr::{self, Cccr, reg};
use crate::spec::sdio::cis::{Cis, CisFault, FunctionExtension, Manufacturer, Walker};
use crate::spec::sdio::fbr::{self, Fbr};
use crate::spec::switch::SwitchStatus;
use crate::spec::timing::{sd as sd_limits, sdio as limits};
use error::judge;

/// Time between two CMD5, in nanoseconds.
const POWER_UP_POLL_NS: u64 = 10_000_000;
/// Largest number of CMD5 that only inquire; a card may need one to wake up.
const INQUIRIES: u32 = 3;
/// Longest time to read one chain of tuples in nanoseconds, as in Linux. On the bus a byte takes 4
/// microseconds at 25 MHz and 260 at 400 kHz; a slow host adds its own time.
const TUPLES_NS: u64 = 10_000_000_000;
/// Fastest clock of a low-speed card, in hertz [SDIO 3].
const LOW_SPEED_HZ: u32 = 400_000;
/// Clock in hertz for a card that is slower than it declares ([`Quirks::IO_SLOWER`]).
const SLOWER_HZ: u32 = 150_000_000;
/// Mask of the bus speed (BSS) in CCCR 13h.
const SPEED_MASK: u8 = 7 << 1;

/// A function of an I/O card, with the contents of its registers and tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Number of the function, 1 to 7.
    pub number: u8,
    /// Basic registers (FBR) of the function.
    pub fbr: Fbr,
    /// Manufacturer of the function; the card's manufacturer if the function's tuples have none.
    pub manufacturer: Option<Manufacturer>,
    /// Parameters of the function (CISTPL_FUNCE).
    pub extension: FunctionExtension,
}

/// An I/O card after bring-up: selected, with its functions still disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCard {
    /// Relative address of the card.
    pub rca: u16,
    /// Last response of the card to CMD5.
    pub r4: R4,
    /// Common registers (CCCR), as read before width and speed were set.
    pub cccr: Cccr,
    /// Contents of the common tuples (CIS).
    pub cis: Cis,
    /// The functions of the card; the first element is function 1.
    pub functions: [Option<FunctionInfo>; FUNCTIONS_MAX as usize],
    /// Memory of a combo card, in the state `tran`.
    pub memory: Option<Card>,
    /// Bus timing that bring-up has selected.
    pub timing: Timing,
    /// Number of data lines that bring-up has selected.
    pub width: Width,
    /// SD clock requested from the host, in hertz.
    pub clock_hz: u32,
    /// Whether the card can interrupt without a clock, also on four data lines.
    pub async_interrupt: bool,
    /// Quirks of the I/O part. A combo card's memory has its own.
    pub quirks: Quirks,
}

impl IoCard {
    /// Returns function `number`, 1 to 7; `None` if the card does not have it.
    pub fn function(&self, number: u8) -> Option<&FunctionInfo> {
        self.functions.get(usize::from(number.checked_sub(1)?))?.as_ref()
    }

    /// Returns the number of functions that the card has.
    pub fn count(&self) -> u8 {
        self.functions.iter().flatten().count() as u8
    }

    /// Returns a number that distinguishes the card from others. A combo card has the identity of
    /// its memory part. An I/O card without memory has no serial number, so its number is made of
    /// manufacturer, product and functions.
    pub(crate) fn identity(&self) -> u32 {
        let Some(memory) = &self.memory else {
            let maker = self
                .cis
                .manufacturer
                .map_or(0, |maker| u32::from(maker.vendor) << 16 | u32::from(maker.product));
            return (maker ^ self.r4.0).wrapping_mul(0x0100_0193) | 1;
        };
        memory.identity()
    }

    /// Returns the card's manufacturer and product, if its tuples have them.
    pub fn manufacturer(&self) -> Option<Manufacturer> {
        self.cis.manufacturer
    }
}

/// The slot accepts I/O cards and combo cards.
pub(super) struct OnlyIo;

impl Families for OnlyIo {
    const SD: bool = true;
    const EMMC: bool = false;
    // A card with wrong tuples has them at every speed, so its error ends bring-up without another
    // try.
    type Found = Result<IoCard, error::IoError>;

    fn target(found: &Self::Found) -> Option<CardParams> {
        found.as_ref().ok()?.memory.as_ref().map(|memory| memory.params)
    }

    fn identity(found: &Self::Found) -> u32 {
        found.as_ref().map_or(0, |found| found.identity())
    }

    async fn identify<L: Link>(
        session: &mut Session<L>,
        options: &Options,
        tried: &mut Option<Timing>,
    ) -> Result<Self::Found, Failed> {
        let mut io = Io { session, refusal: None };
        match io.bring_up(options, tried).await {
            Ok(card) => Ok(Ok(card)),
            Err(Failed) => match io.refusal.filter(|_| tried.is_none()) {
                Some(error) => Ok(Err(error)),
                None => Err(Failed),
            },
        }
    }
}

/// A session with an I/O card during bring-up.
struct Io<'s, L: Link> {
    session: &'s mut Session<L>,
    /// Error of a failed step, if it is an [`IoError`](error::IoError) that the session's error
    /// type cannot express.
    refusal: Option<error::IoError>,
}

impl<L: Link> Io<'_, L> {
    async fn bring_up(&mut self, options: &Options, tried: &mut Option<Timing>) -> Result<IoCard, Failed> {
        let mut bounds = Bounds::of(&*self.session, options);
        let v2 = self.wake().await?;
        let inquiry = self.inquire().await?;
        let fast = !inquiry.memory_present() && wants_18(&bounds);
        // Lines that are fixed at 1.8 V need no switch, and a soldered card does not support the
        // switch.
        let mut signal18 = fast && bounds.fixed18;
        let fast = fast && !signal18;
        let mut r4 = self.power_up(inquiry, fast).await?;
        let mut memory = None;
        if inquiry.memory_present()
            && let Some(ocr) = identify::ask_memory(self.session, v2).await?
        {
            // CMD2, CMD3 and CMD7 apply to both parts of a combo card. Width and speed are set
            // later, when it is known what the I/O part supports.
            let slow = Options {
                without: !Caps::timing_bit(Timing::Legacy),
                max_width: Width::W1,
                max_clock_hz: LOW_SPEED_HZ,
                ..*options
            };
            memory = Some(sd::bring_up(self.session, &slow, v2, ocr, &mut None).await?);
        } else {
            let mut may_switch = fast && r4.s18a();
            if may_switch && L::RECOVERS && quirk::of_any_io(Quirks::IO_NO_1V8, options.quirks) {
                self.select().await?;
                may_switch = !self.quirks_by_look(options).await?.has(Quirks::IO_NO_1V8);
                self.wake().await?;
                r4 = self.power_up(inquiry, may_switch).await?;
                may_switch &= r4.s18a();
            }
            if may_switch {
                signal18 = sd::voltage_switch(self.session, true).await.is_ok();
                if !signal18 {
                    // Only a power cycle takes a card out of a failed switch.
                    power_cycle(self.session).await?;
                    self.wake().await?;
                    r4 = self.power_up(inquiry, false).await?;
                }
            }
            self.select().await?;
        }

        let cccr = self.cccr().await?;
        let own_hz = if cccr.low_speed() { LOW_SPEED_HZ } else { sd_limits::max_hz(Timing::Legacy) };
        self.session.bus(BusOp::Clock(bounds.clock(own_hz))).await?;
        let cis = self.tuples(0, cccr.cis).await?;
        let quirks = quirks_of::<L>(&cis, options);
        if quirks.has(Quirks::IO_NO_POLLING) {
            // The reads of the CCCR include one of the pending interrupts; this card needs another
            // read after it.
            self.read(reg::NOTHING).await?;
        }
        if quirks.has(Quirks::IO_SLOWER) {
            bounds.max_hz = bounds.max_hz.min(SLOWER_HZ);
        }
        let mut functions = [None; FUNCTIONS_MAX as usize];
        for (number, place) in (1..=r4.functions()).zip(&mut functions) {
            *place = Some(self.function(number, &cis, quirks).await?);
        }

        let legacy_hz = own_hz.min(cis.card.and_then(|card| card.max_clock_hz).unwrap_or(own_hz));
        let mut clock_hz = bounds.clock(legacy_hz);
        self.session.bus(BusOp::Clock(clock_hz)).await?;
        let width = self.set_width(&bounds, &cccr, quirks, memory.as_ref()).await?;
        let timing = choose(&bounds, &cccr, memory.as_ref(), signal18, width);
        if timing != Timing::Legacy {
            *tried = Some(timing);
            clock_hz = self.switch(&bounds, &cccr, memory.is_some(), timing).await?;
        }
        let async_interrupt = cccr.async_interrupt() && width == Width::W4;
        if async_interrupt {
            let on = cccr.interrupt_extension | cccr::ASYNC_ON;
            self.write(reg::INTERRUPT_EXTENSION, on, cccr::ASYNC_ON).await?;
        }
        if let Some(card) = &mut memory {
            (card.timing, card.width, card.clock_hz) = (timing, width, clock_hz);
        }
        let rca = self.session.rca;
        Ok(IoCard { rca, r4, cccr, cis, functions, memory, timing, width, clock_hz, async_interrupt, quirks })
    }

    fn refuse<T>(&mut self, error: error::IoError) -> Result<T, Failed> {
        self.refusal = Some(error);
        // `identify` returns `refusal` unless the step failed after the switch to a faster timing.
        // In that case the session's error counts, and the next try excludes the timing.
        self.session.refuse(Breach::Access)
    }

    /// Resets the I/O part and the memory part of the card. Returns true if the card responds to
    /// CMD8.
    async fn wake(&mut self) -> Result<bool, Failed> {
        // CMD0 does not reset the I/O part. A card without an I/O part does not respond to this
        // command.
        let reset = cmd::io_write(0, reg::ABORT, cccr::RESET);
        if self.session.command(reset).await.is_err() && !self.session.unanswered() {
            return Err(Failed);
        }
        self.session.command(command::go_idle_state()).await?;
        identify::knows_cmd8(self.session).await
    }

    /// Sends a CMD5 that only inquires: it has no voltage window, so the card returns its OCR and
    /// does not power up [SDIO 3.2].
    async fn inquire(&mut self) -> Result<R4, Failed> {
        for _ in 0..INQUIRIES {
            match self.session.command(cmd::io_send_op_cond(0, false)).await {
                Ok(response) => {
                    let r4 = response.r4();
                    if r4.functions() == 0 {
                        return self.session.refuse(Breach::NoFunctions);
                    }
                    if r4.voltages() & Ocr::V27_36 == 0 {
                        return self.session.refuse(Breach::IoVoltage);
                    }
                    return Ok(r4);
                }
                Err(Failed) if self.session.unanswered() => {}
                Err(Failed) => return Err(Failed),
            }
        }
        self.session.fail(Error::NoCard)
    }

    /// Sends CMD5 with the voltages that host and card share (`inquiry`: the card's response to a
    /// CMD5 without voltages), again and again until the card has powered up. `s18r`: requests 1.8
    /// V on the signal lines. Returns the last response.
    async fn power_up(&mut self, inquiry: R4, s18r: bool) -> Result<R4, Failed> {
        let request = cmd::io_send_op_cond(inquiry.voltages() & Ocr::V27_36, s18r);
        for _ in 0..=limits::INIT_NS / POWER_UP_POLL_NS {
            let r4 = self.session.command(request).await?.r4();
            if r4.ready() {
                if r4.functions() == 0 {
                    return self.session.refuse(Breach::FunctionsLost);
                }
                return Ok(r4);
            }
            self.session.pause(POWER_UP_POLL_NS).await?;
        }
        self.session.refuse(Breach::IoPowerUp)
    }

    /// Gets the card's RCA by CMD3, and selects the card by CMD7.
    async fn select(&mut self) -> Result<(), Failed> {
        for _ in 0..3 {
            self.session.rca = self.session.command(sd_cmd::send_relative_addr()).await?.r6().rca();
            if self.session.rca != 0 {
                // The end of busy is not checked by CMD13, since I/O cards do not support CMD13.
                self.session.status_of(command::select_card(self.session.rca)).await?;
                return Ok(());
            }
        }
        self.session.refuse(Breach::IoAddress)
    }

    async fn direct(&mut self, addr: u32, command: Command) -> Result<u8, Failed> {
        let response = self.session.command(command).await?.r5();
        match judge(0, addr, response) {
            Ok(data) => Ok(data),
            Err(error) => self.refuse(error),
        }
    }

    async fn read(&mut self, addr: u32) -> Result<u8, Failed> {
        self.direct(addr, cmd::io_read(0, addr)).await
    }

    /// Writes `wrote` to the register `addr` of function 0, and checks that the bits of `mask` read
    /// as written.
    async fn write(&mut self, addr: u32, wrote: u8, mask: u8) -> Result<(), Failed> {
        let read = self.direct(addr, cmd::io_write_read(0, addr, wrote)).await?;
        match (read ^ wrote) & mask {
            0 => Ok(()),
            _ => self.refuse(error::IoError::NotTaken { addr, wrote, read }),
        }
    }

    async fn cccr(&mut self) -> Result<Cccr, Failed> {
        let mut bytes = [0; cccr::BYTES];
        for (addr, byte) in (0..).zip(&mut bytes) {
            // Reading the abort register has no meaning, and suspend and resume are not used.
            if addr != reg::ABORT && !(0x0c..reg::BLOCK_SIZE).contains(&addr) {
                *byte = self.read(addr).await?;
            }
        }
        self.session.parsed(Cccr::parse(&bytes))
    }

    /// Reads the tuples of a function (0: the common tuples), from the address `pointer` on.
    async fn tuples(&mut self, function: u8, pointer: u32) -> Result<Cis, Failed> {
        let until_ns = self.session.link.now_ns().saturating_add(TUPLES_NS);
        let mut walker = match Walker::new(function, pointer) {
            Ok(walker) => walker,
            Err(error) => return self.refuse(error::IoError::Cis(error)),
        };
        // The walker requests a bounded number of bytes.
        while let Some(addr) = walker.wants() {
            let byte = self.read(addr).await?;
            let late = self.session.link.now_ns() > until_ns;
            let given = if late { Err(walker.error(CisFault::Time)) } else { walker.give(byte) };
            if let Err(error) = given {
                return self.refuse(error::IoError::Cis(error));
            }
        }
        walker.finish().or_else(|error| self.refuse(error::IoError::Cis(error)))
    }

    /// Returns the quirks of a card before its bring-up, by the registers that can be read at the
    /// identification clock.
    async fn quirks_by_look(&mut self, options: &Options) -> Result<Quirks, Failed> {
        let mut pointer = [0; 4];
        for (addr, byte) in (reg::CIS..).zip(pointer.iter_mut().take(3)) {
            *byte = self.read(addr).await?;
        }
        let cis = self.tuples(0, u32::from_le_bytes(pointer)).await?;
        Ok(quirks_of::<L>(&cis, options))
    }

    async fn function(&mut self, number: u8, card: &Cis, quirks: Quirks) -> Result<FunctionInfo, Failed> {
        let first = if quirks.has(Quirks::IO_NO_STANDARD_INTERFACE) { fbr::reg::POWER } else { 0 };
        let mut bytes = [0; fbr::BYTES];
        for (offset, byte) in (0..).zip(&mut bytes) {
            if offset >= first && matches!(offset, 0..=2 | 9..=0x11) {
                *byte = self.read(fbr::base(number) + offset).await?;
            }
        }
        let fbr = Fbr::parse(&bytes);
        let cis = self.tuples(number, fbr.cis).await?;
        let Some(extension) = cis.function else {
            return self.session.refuse(Breach::NoBlockSize);
        };
        Ok(FunctionInfo { number, fbr, manufacturer: cis.manufacturer.or(card.manufacturer), extension })
    }

    /// Sets four data lines if card and host support them. Then switches off the pull-up on DAT3,
    /// which only serves to detect a card. `memory`: the memory part of a combo card, which must
    /// support four lines too. Returns the width that is set.
    async fn set_width(
        &mut self,
        bounds: &Bounds,
        cccr: &Cccr,
        quirks: Quirks,
        memory: Option<&Card>,
    ) -> Result<Width, Failed> {
        let mut four = cccr.width4()
            && memory.is_none_or(|card| scr(card).is_some_and(|scr| scr.width4))
            && bounds.width(Width::W4) == Width::W4;
        if four && memory.is_some() {
            // A card whose pull-up stays on works nevertheless.
            let _ = self.session.app_command(sd_cmd::set_clr_card_detect(false)).await;
            // If the memory refuses four data lines, both parts stay at one. The command is tried
            // twice, since a single response may get lost.
            four = self.session.app_status_of(sd_cmd::set_bus_width(true)).await.is_ok()
                || self.session.app_status_of(sd_cmd::set_bus_width(true)).await.is_ok();
            if !four {
                let _ = self.session.app_command(sd_cmd::set_bus_width(false)).await;
            }
        }
        let lines = if four { cccr::WIDTH_4 } else { 0 };
        let off = if four || quirks.has(Quirks::IO_DETECT_OFF) { cccr::DETECT_OFF } else { 0 };
        let interface = cccr.interface & !cccr::WIDTH_MASK | off | lines;
        self.write(reg::INTERFACE, interface, cccr::WIDTH_MASK).await?;
        if !four {
            return Ok(Width::W1);
        }
        self.session.bus(BusOp::Width(Width::W4)).await?;
        Ok(Width::W4)
    }

    /// Switches to the faster timing `timing`: card, host, clock, tuning. `combo`: the card has a
    /// memory part too. Returns the clock in hertz.
    async fn switch(
        &mut self,
        bounds: &Bounds,
        cccr: &Cccr,
        combo: bool,
        timing: Timing,
    ) -> Result<u32, Failed> {
        let select = match timing {
            Timing::HighSpeed | Timing::Sdr25 => 1,
            Timing::Sdr50 => 2,
            Timing::Sdr104 => 3,
            Timing::Ddr50 => 4,
            _ => 0,
        };
        self.write(reg::SPEED, cccr.speed & !SPEED_MASK | select << 1, SPEED_MASK).await?;
        if combo {
            let set = SwitchFunc::SET.with(Group::AccessMode, 1);
            self.session.register(sd_cmd::switch_func(set), false, 64).await?;
            if SwitchStatus::parse(self.session.bytes()?).selected(Group::AccessMode) != Some(1) {
                return self.session.refuse(Breach::ComboSpeed);
            }
        }
        self.session.bus(BusOp::Timing(timing)).await?;
        let clock_hz = bounds.clock(sd_limits::max_hz(timing));
        self.session.bus(BusOp::Clock(clock_hz)).await?;
        if sd::tuned(timing, bounds.timings) {
            self.session.tune(sd_cmd::send_tuning_block(), 64, sd_limits::TUNING_BLOCKS).await?;
        }
        // Check that the card still responds. The first response may report tuning blocks that were
        // lost, so it is ignored.
        self.session.command(cmd::io_read(0, reg::REVISION)).await?;
        self.read(reg::REVISION).await?;
        Ok(clock_hz)
    }
}

fn quirks_of<L: Link>(cis: &Cis, options: &Options) -> Quirks {
    match cis.manufacturer {
        Some(who) if L::RECOVERS => quirk::of_io(who.vendor, who.product, options.quirks),
        _ => Quirks::NONE,
    }
}

fn scr(memory: &Card) -> Option<Scr> {
    match &memory.family {
        Family::Sd(sd) => Scr::parse(&sd.scr).ok(),
        Family::Emmc(_) => None,
    }
}

/// Returns whether 1.8 V on the signal lines allows a faster timing.
fn wants_18(bounds: &Bounds) -> bool {
    let uhs = [Timing::Sdr12, Timing::Sdr25, Timing::Sdr50, Timing::Sdr104, Timing::Ddr50];
    bounds.signal18 && bounds.width(Width::W4) == Width::W4 && uhs.iter().any(|&timing| bounds.allow(timing))
}

/// Returns the fastest timing that card, host and options allow. `memory`: the memory part of a
/// combo card. `signal18`: the signal lines have 1.8 V. `width`: number of data lines.
fn choose(bounds: &Bounds, cccr: &Cccr, memory: Option<&Card>, signal18: bool, width: Width) -> Timing {
    let memory_is_fast = memory.is_none_or(|card| match &card.family {
        Family::Sd(sd) => SwitchStatus::parse(&sd.switch).supports(Group::AccessMode, 1),
        Family::Emmc(_) => false,
    });
    let uhs = signal18 && width == Width::W4;
    [
        (Timing::Sdr104, uhs && cccr.sdr104()),
        (Timing::Sdr50, uhs && cccr.sdr50()),
        (Timing::Ddr50, uhs && cccr.ddr50()),
        (Timing::Sdr25, uhs && cccr.high_speed()),
        (Timing::Sdr12, uhs),
        (Timing::HighSpeed, !signal18 && cccr.high_speed() && memory_is_fast),
    ]
    .into_iter()
    .find(|&(timing, offered)| offered && !cccr.low_speed() && bounds.allow(timing))
    .map_or(Timing::Legacy, |(timing, _)| timing)
}
