//! Model of an SPI bus with a card, byte by byte [SD 7].
//!
//! [`SpiSlot`] is the wire: for each byte that the master sends it returns a byte. Each call gives
//! it the time. [`SpiLine`] is the same bus for code whose time is
//! [`Time::now`](crate::time::Time::now): each byte advances that time. [`crate::pl022`] is a
//! controller that drives the bus.
//!
//! The card is any [`Card`] with an SPI mode: all SD cards except SDUC. Its states, its flash and
//! its faults are the same as on the SD bus. Access times and busy are virtual times, so at a
//! faster clock they last for more bytes.
//!
//! Where the standard leaves something open, [`Habits`] say what this card does. For all that they
//! do not cover, the model chooses the strict behaviour:
//! - A card ignores everything before 1 ms of power, and 74 clocks with chip select and DI high. It
//!   is in SD mode until a CMD0 comes with chip select low and a correct CRC7. Only a power cycle
//!   brings it back to SD mode.
//! - A busy card ignores all commands except CMD0, and sends no response. DO stays low, which looks
//!   like an R1 without errors.
//! - While the master sends a block, all its bytes are data. While the card sends a block, it
//!   accepts only CMD12 and CMD0.
//! - When chip select goes high, only an incomplete frame is lost; what the card has not sent yet
//!   waits.
//! - Some mistakes of the master are counted
//!   ([`Controller::protocol_violations`](crate::slot::Controller::protocol_violations)): a frame
//!   that the card ignores, a token that comes too early or is wrong, and a change of chip select
//!   inside a byte.
//!
//! # Examples
//!
//! CMD0 tells a card that it is on an SPI bus, and the card responds that it is idle:
//!
//! ```
//! use mmcq_sim::card::{CardProfile, Fill, Medium};
//! use mmcq_sim::spi::SpiSlot;
//!
//! let text = mmcq_sim::cards::named("sdhc-16g-hs").ok_or("a card")?;
//! let profile = CardProfile::from_toml(text, "sdhc-16g-hs.toml")?;
//! let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(1))?;
//! let mut bus = SpiSlot::new(Some(profile.build(medium)?));
//! bus.set_clock(400_000, 0);
//!
//! // 1 ms of supply, 80 clocks with chip select high, then CMD0 with chip select low.
//! let mut now_ns = bus.transfer(&mut [0xff; 10], 1_000_000);
//! bus.select(true, now_ns);
//! let mut bytes = [0x40, 0, 0, 0, 0, 0x95, 0xff, 0xff];
//! now_ns = bus.transfer(&mut bytes, now_ns);
//! assert_eq!(bytes[7], 0x01);
//! assert_eq!(now_ns, 1_000_000 + 18 * 20_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod crc;
mod frames;
mod line;
#[cfg(test)]
mod tests;

pub use line::SpiLine;

use crate::card::Card;
use crate::card::sd::SdCard;
use crate::faults::{Point, Strike};
use crate::slot::{Core, Slot};
use crate::wire::Beat;
use frames::{Front, Use};

/// Number of clocks with chip select and DI high that a card needs after power-up [SD 6.4.1].
const FIRST_CLOCKS: u32 = 74;

/// Behaviour of a card where the standard leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Number of FFh bytes between a frame and its response: 1 to 8 (N_CR).
    pub response_bytes: u8,
    /// Number of bytes between the stop token of CMD25 and busy: 0 or 1 (N_BR).
    pub stop_bytes: u8,
    /// Byte that the card sends after a CMD12 between two blocks. After a CMD12 inside a block the
    /// card sends the next byte of the block.
    pub stuff: u8,
    /// Whether the card misses a block whose token follows the response without a gap. The standard
    /// requires a gap of at least one byte (N_WR).
    pub needs_gap: bool,
    /// Whether the card ends a transfer of several blocks when chip select goes high.
    pub deselect_ends: bool,
    /// Number of busy bytes (00h) that the card sends after the response to CMD55.
    pub busy_after_prefix: u8,
    /// Whether a high chip select has an effect on the card only when the next clock comes.
    pub deselect_by_clock: bool,
    /// Whether a selected card ignores all commands if the last byte on the bus before its
    /// selection was not FFh, but a byte for another device.
    pub needs_ones: bool,
    /// Whether the card answers its first CMD59 with ILLEGAL_COMMAND.
    pub refuses_first_crc: bool,
}

impl Habits {
    /// The usual card: one byte in each gap, a stuff byte that looks like a response, and transfers
    /// that stay open when chip select goes high.
    pub const USUAL: Habits = Habits {
        response_bytes: 1,
        stop_bytes: 1,
        stuff: 0x7f,
        needs_gap: false,
        deselect_ends: false,
        busy_after_prefix: 0,
        deselect_by_clock: false,
        needs_ones: false,
        refuses_first_crc: false,
    };
}

impl Default for Habits {
    fn default() -> Self {
        Self::USUAL
    }
}

/// Bits of the byte that the card is receiving and sending. If the card has missed clocks, its
/// bytes begin at other clocks than the bytes of the master.
#[derive(Clone, Copy, Debug, Default)]
struct Shift {
    bits: u8,
    input: u8,
    output: Option<u8>,
}

/// Model of an SPI bus, with its slot and card.
pub struct SpiSlot {
    slot: Slot,
    habits: Habits,
    hz: u32,
    selected: bool,
    /// Number of clocks since power-up with chip select and DI high.
    clocks: u32,
    shift: Shift,
    front: Front,
    /// Byte that the card still sends on DO after chip select went high; `None`: it sends nothing
    /// more.
    last: Option<u8>,
    /// Fault: level (0x00 or 0xff) at which DO is stuck; `None`: no fault.
    stuck: Option<u8>,
    /// Fault: whether the card sends nothing until power-off.
    mute: bool,
    /// Whether chip select went high and the card has not reacted to that yet, because it needs a
    /// clock for it.
    unseen: bool,
    /// Whether the last byte that was sent while chip select was high, to another device, was not
    /// FFh.
    foreign: bool,
    /// Whether the card has refused a CMD59.
    refused_crc: bool,
}

impl Core for SpiSlot {
    fn slot(&self) -> &Slot {
        &self.slot
    }

    fn slot_mut(&mut self) -> &mut Slot {
        &mut self.slot
    }

    fn alarm(&mut self, _: usize, now_ns: u64) {
        self.drive_line(true, 0, true, now_ns);
    }

    fn card_came(&mut self, now_ns: u64) {
        self.begin_again(now_ns);
    }

    fn card_went(&mut self, now_ns: u64) {
        self.begin_again(now_ns);
    }

    fn look(&mut self, _: u64) {}
}

impl SpiSlot {
    /// Makes a bus at time 0: the power goes on, the clock is 400 kHz, chip select is high.
    pub fn new(card: Option<Box<dyn Card>>) -> Self {
        let mut bus = SpiSlot {
            slot: Slot::new(card),
            habits: Habits::USUAL,
            hz: 400_000,
            selected: false,
            clocks: 0,
            shift: Shift::default(),
            front: Front::default(),
            last: None,
            stuck: None,
            mute: false,
            unseen: false,
            foreign: false,
            refused_crc: false,
        };
        bus.slot.bus.powered = true;
        bus.slot.tell_bus(0);
        bus
    }

    /// Sets the behaviour of the card where the standard leaves it open.
    pub fn set_habits(&mut self, habits: Habits) {
        self.habits = habits;
    }

    /// Sets the frequency of the bus clock in hertz; 0 counts as 1.
    pub fn set_clock(&mut self, hz: u32, now_ns: u64) {
        let now_ns = self.reach(now_ns);
        self.use_clock(hz, now_ns);
    }

    pub(crate) fn use_clock(&mut self, hz: u32, now_ns: u64) {
        self.hz = hz.max(1);
        if self.clocks > 0 {
            self.slot.bus.clock_hz = self.hz;
            self.slot.tell_bus(now_ns);
        }
    }

    /// Returns the frequency of the bus clock in hertz.
    pub fn clock_hz(&self) -> u32 {
        self.hz
    }

    /// Switches the card's power, as the board does.
    pub fn set_power(&mut self, on: bool, now_ns: u64) {
        let now_ns = self.reach(now_ns);
        self.slot.bus.powered = on;
        self.begin_again(now_ns);
    }

    /// Resets the state of the bus for a card that was inserted or got power: it has got no clock
    /// pulse yet, and nothing is under way.
    fn begin_again(&mut self, now_ns: u64) {
        self.clocks = 0;
        self.slot.bus.clock_hz = 0;
        self.slot.tell_bus(now_ns);
        self.front = Front::default();
        (self.last, self.stuck, self.mute, self.unseen) = (None, None, false, false);
    }

    /// Sets chip select; `low` selects the card.
    pub fn select(&mut self, low: bool, now_ns: u64) {
        let now_ns = self.reach(now_ns);
        self.drive_select(low, now_ns);
    }

    pub(crate) fn drive_select(&mut self, low: bool, now_ns: u64) {
        if std::mem::replace(&mut self.selected, low) == low {
            return;
        }
        if low && std::mem::take(&mut self.unseen) {
            return;
        }
        if self.shift.output.is_some() {
            self.slot.violation();
        }
        if !low && self.habits.deselect_by_clock {
            self.unseen = true;
        } else {
            self.selection_seen(low, now_ns);
        }
    }

    /// Reacts to a change of chip select (now low if `low`) that has reached the card: the card
    /// drops an incomplete byte or frame.
    fn selection_seen(&mut self, low: bool, now_ns: u64) {
        self.shift = Shift::default();
        self.front.forget_frame();
        self.last = None;
        if !low {
            let busy = self.card(now_ns, |card, now_ns| card.in_spi() && card.busy(now_ns));
            self.last = Some(if busy == Some(true) { 0 } else { 0xff });
            if self.habits.deselect_ends {
                self.front.clear();
                self.card(now_ns, |card, now_ns| card.in_spi().then(|| card.spi_deselected(now_ns)));
            }
        }
    }

    /// Returns whether chip select is low.
    pub fn is_selected(&self) -> bool {
        self.selected
    }

    /// Returns whether the card drives DO: while it is selected, and for one more byte after chip
    /// select went high.
    pub fn drives(&self) -> bool {
        self.selected || self.last.is_some()
    }

    /// Moves one byte in each direction from this time on. Returns the received byte, and the time
    /// in ns at which it ended.
    pub fn exchange(&mut self, out: u8, start_ns: u64) -> (u8, u64) {
        let start = Beat::new(self.reach(start_ns), self.hz);
        let end = start.plus(8);
        let back = self.byte(out, start, end);
        (back, self.reach(end.ns()))
    }

    /// Sends these bytes one after the other from the time `start_ns` on, and replaces them by the
    /// received bytes. Returns the end of the last one in ns.
    pub fn transfer(&mut self, bytes: &mut [u8], start_ns: u64) -> u64 {
        let mut at = Beat::new(self.reach(start_ns), self.hz);
        for byte in bytes {
            let end = at.plus(8);
            *byte = self.byte(*byte, at, end);
            at = end;
        }
        self.reach(at.ns())
    }

    /// Sends `bytes` from `start_ns` on like [`transfer`](Self::transfer), for a master with DMA:
    /// an interrupt comes at their end. Returns this end in ns.
    pub fn transfer_and_tell(&mut self, bytes: &mut [u8], start_ns: u64) -> u64 {
        let end_ns = self.transfer(bytes, start_ns);
        self.slot.set_alarm(0, end_ns);
        end_ns
    }

    /// Acknowledges the interrupt of [`transfer_and_tell`](Self::transfer_and_tell).
    pub fn seen(&mut self, now_ns: u64) {
        let now_ns = self.reach(now_ns);
        self.drive_line(false, 0, false, now_ns);
    }

    /// Exchanges a byte with the card between these two clock edges. For a controller model that
    /// counts the clocks itself.
    pub(crate) fn byte(&mut self, out: u8, start: Beat, end: Beat) -> u8 {
        let back = match self.selected {
            true => self.selected_byte(out, start, end),
            false => self.idle_byte(out, start.ns(), end.ns()),
        };
        if self.slot.card().is_some() { self.stuck.unwrap_or(back) } else { 0xff }
    }

    /// Exchanges a byte while chip select is high: sends `out`, from `start_ns` to `end_ns`, and
    /// returns the received byte. A card in SD mode takes DI for its CMD line.
    fn idle_byte(&mut self, out: u8, start_ns: u64, end_ns: u64) -> u8 {
        if std::mem::take(&mut self.unseen) {
            self.selection_seen(false, start_ns);
        }
        self.foreign = out != 0xff;
        if out == 0xff {
            if self.clocks == 0 {
                self.slot.bus.clock_hz = self.hz;
                self.slot.tell_bus(start_ns);
            }
            self.clocks = self.clocks.saturating_add(8);
        }
        if self.card(start_ns, |card, _| card.in_spi()) == Some(false) {
            self.hear(out, end_ns);
        }
        self.last.take().unwrap_or(0xff)
    }

    fn selected_byte(&mut self, out: u8, start: Beat, end: Beat) -> u8 {
        if self.slot.card().is_some_and(|card| card.damages_spi()) {
            let turned = self.card(start.ns(), |card, _| card.next_spi_byte());
            let (to_card, from_card) = turned.unwrap_or_default();
            return self.struck_byte(out ^ to_card, start, end) ^ from_card;
        }
        self.struck_byte(out, start, end)
    }

    fn struck_byte(&mut self, out: u8, start: Beat, end: Beat) -> u8 {
        let strike = self.strike(Point::Exchange, start.ns());
        let (mut out, mut flips, mut lost, mut extra) = (out, 0, 0, 0);
        match strike {
            Some(Strike::Lost) => return 0xff,
            Some(Strike::Flip(bit)) if bit % 16 < 8 => out ^= 0x80 >> (bit % 8),
            Some(Strike::Flip(bit)) => flips = 0x80 >> (bit % 8),
            Some(Strike::Line(level)) => self.stuck = Some(if level == 0 { 0 } else { 0xff }),
            Some(Strike::Never) => self.mute = true,
            Some(Strike::Astray(clocks)) if clocks < 0 => extra = clocks.unsigned_abs().min(7),
            Some(Strike::Astray(clocks)) => lost = clocks.unsigned_abs().min(8),
            _ => {}
        }
        if self.shift.output.is_none() && lost == 0 && extra == 0 {
            let (back, what) = self.speak(start.ns());
            self.count(what, end.ns() - start.ns());
            self.hear(out, end.ns());
            return back ^ flips;
        }
        let mut back = 0;
        for bit in 0..8 {
            let level = out >> (7 - bit) & 1;
            back = back << 1 | self.level(start.plus(bit).ns());
            // A bit whose clock the card does not see is lost.
            if bit >= u64::from(lost) {
                self.bit(level, start.plus(bit + 1).ns());
            }
        }
        for _ in 0..extra {
            self.level(end.ns());
            self.bit(out & 1, end.ns());
        }
        back ^ flips
    }

    /// Returns the level of DO at this time.
    fn level(&mut self, now_ns: u64) -> u8 {
        let output = match self.shift.output {
            Some(output) => output,
            None => self.speak(now_ns).0,
        };
        self.shift.output = Some(output);
        output >> (7 - self.shift.bits) & 1
    }

    /// Gives the card one bit from DI: `level` is 0 or 1.
    fn bit(&mut self, level: u8, now_ns: u64) {
        self.shift.input = self.shift.input << 1 | level;
        self.shift.bits += 1;
        if self.shift.bits == 8 {
            let input = std::mem::take(&mut self.shift).input;
            self.hear(input, now_ns);
        }
    }

    fn count(&mut self, what: Use, ns: u64) {
        let stats = &mut self.slot.stats;
        match what {
            Use::Command => stats.command_ns += ns,
            Use::Data => stats.data_ns += ns,
            Use::Access => stats.access_ns += ns,
            Use::Busy => stats.busy_ns += ns,
        }
    }

    /// Calls `call` with the card and the time in ns, if the card has an SPI mode; returns `None`
    /// otherwise. The time is `now_ns`, or the time of an earlier call if that is later.
    fn card<T>(&mut self, now_ns: u64, call: impl FnOnce(&mut SdCard, u64) -> T) -> Option<T> {
        self.slot.with_card(now_ns, |card, now_ns| card.spi().map(|card| call(card, now_ns))).flatten()
    }
}
