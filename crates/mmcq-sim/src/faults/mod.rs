//! Faults of the models: what goes wrong, and when.
//!
//! A *point* ([`Point`]) is a kind of event in the models that a fault may strike. At each such
//! event the model calls [`Faults::strike`]. This counts the event and returns the fault that
//! strikes it, in most cases none. A [`Plan`] decides what strikes: a fault at the nth event of a
//! point ([`Shot`]), or a random one ([`Plan::chance`], with a seed). All faults that struck are
//! recorded as a list of shots, so that a random execution can be repeated and made shorter.
//! [`catalogue`] lists the known failures, and how each is caused.

pub mod catalogue;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;

/// A kind of event in the models that a fault may strike, such as "the controller sends a command".
/// The events of each kind are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// The controller sends a command; automatic commands do not count.
    Command,
    /// A response arrives at the controller; responses to automatic commands do not count.
    Response,
    /// A block from the card arrives at the controller; tuning blocks do not count.
    ReadBlock,
    /// A written block arrives at the card.
    WriteBlock,
    /// The card begins to be busy (after a write, an R1b or a switch).
    Busy,
    /// The controller samples a tuning block.
    Tuning,
    /// The card gets power.
    PowerUp,
    /// The signalling voltage changes (by CMD11, or by the host's regulator).
    Voltage,
    /// The controller raises its interrupt.
    Interrupt,
    /// The controller's DMA fetches a descriptor, or begins a segment.
    Dma,
    /// A software reset of the controller begins.
    Reset,
    /// The clock of the controller starts.
    Clock,
    /// The controller sends an automatic command.
    AutoCommand,
    /// The card accepts data into its volatile cache.
    Cache,
    /// The card programs, reads or erases its medium.
    Medium,
    /// The host accesses a function of an I/O card.
    Function,
    /// A byte is transferred on an SPI bus while the card is selected.
    Exchange,
    /// The driver rings doorbells of the command queue engine.
    Doorbell,
    /// The last block of a task of the command queue engine begins.
    TaskEnd,
    /// The driver commands the command queue engine to halt.
    Halt,
    /// The driver commands the command queue engine to clear all tasks.
    Clear,
    /// The driver enables the command queue engine.
    Enable,
    /// The command queue engine reports which task an error belongs to.
    Blame,
    /// The card receives a task by CMD44.
    Task,
    /// CMD48 commands the card to discard tasks.
    Discard,
    /// CMD12 reaches the card while its queue is on.
    Stop,
    /// CMD13 asks the card which tasks are ready.
    Ready,
    /// The header of a packed command arrives at the card.
    Pack,
    /// The controller advances to the next entry of an ADMA3 list.
    List,
}

impl Point {
    /// Number of kinds of events that faults may strike.
    pub const COUNT: usize = 29;

    /// Returns whether events of this kind occur only with a controller that executes tasks (a
    /// command queue engine) or lists (ADMA3).
    #[must_use]
    pub fn is_of_queue_engine(self) -> bool {
        matches!(
            self,
            Point::Doorbell
                | Point::TaskEnd
                | Point::Halt
                | Point::Clear
                | Point::Enable
                | Point::Blame
                | Point::List
        )
    }

    /// Returns whether events of this kind occur only on an SPI bus.
    #[must_use]
    pub fn is_of_spi(self) -> bool {
        self == Point::Exchange
    }

    /// Returns whether events of this kind occur only with a command queue, packed commands or
    /// lists of transfers (ADMA3).
    #[must_use]
    pub fn is_of_queue(self) -> bool {
        self >= Point::Doorbell
    }
}

/// A fault. It has an effect only at certain kinds of events ([`Point`]), and none at others. The
/// ids in parentheses are those of entries in the [`catalogue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Strike {
    /// Something does not arrive or does not happen:
    ///
    /// - a command at the card (A2), a response at the host (A3), an interrupt at the CPU (E1);
    /// - the automatic command is not sent (E8), the medium does not do what it should (D5);
    /// - doorbells have no effect (H4), no task is named for an error (H5), CMD44 gets no response
    ///   (H7);
    /// - the card's queue is empty after CMD12 (H11), or when the host polls it for ready tasks;
    /// - the card receives none of a byte's clocks (I3);
    /// - the entries of a list after this one are not executed (H17).
    Lost,
    /// A wrong CRC of a response (A1), a read block (A6), or a written block (A7: the card sends
    /// the CRC status 101).
    Crc,
    /// A wrong end bit of a response (A4) or of a block (A8).
    EndBit,
    /// A response with a wrong index (A4).
    Index,
    /// Wrong status bits, or another wrong value. (The numbers are those of the table of failures.)
    ///
    /// - bits that are set in the response that arrives (A5, G4), or in the status that an
    ///   interrupt brings (E2), or that stay set after a reset (E9);
    /// - the pause between two polls of the card's queue, which becomes this value (H14);
    /// - tasks that the card reports as ready although they are not, one bit each.
    Status(u32),
    /// A task is reported complete too early (H2).
    Early,
    /// A written block without a CRC status (A7).
    NoStatus,
    /// A delay in ns of one of these events:
    ///
    /// - a read block (A9), or the end of busy (B1);
    /// - an interrupt, or only the interrupt of a response or of a DMA stop (E4);
    /// - the end of a reset, or a halt of the queue engine (H3);
    /// - the time at which a task is ready (H12).
    Late(u64),
    /// Something never ends, or never comes. Numbers like B2 name the fault in the catalogue.
    ///
    /// - Never ends: busy (B2), a reset (E9), power-up (G4), the start of the clock (E11), a DMA
    ///   access.
    /// - Never comes: a halt (H3), readiness of a task (H8), any byte from a card on an SPI bus
    ///   (I6).
    Never,
    /// A busy that the card does not show on DAT0 (B4), or a card that does not pull its lines low
    /// in a voltage switch.
    Hidden,
    /// An operation fails: DMA (E6), tuning (A12), voltage switch (A13), a medium that cannot be
    /// read or programmed (D3, D5), a command that discards tasks (H10), an entry of a packed
    /// command (H15). A CMD13 that asks for the ready tasks gets the card's ordinary status in
    /// place of the ready tasks.
    Fail,
    /// A wrong bit in data with a right CRC (fault D4 of the catalogue); the number is that of the
    /// bit in the block. For a byte on an SPI bus: 0 to 7 in the byte that the card receives, 8 to
    /// 15 in the byte that it sends (faults I1 and I2).
    Flip(u32),
    /// A shift by this number. Data go to a place this many blocks away (D9, H13). An entry of a
    /// packed command fails, and the card reports an index that is wrong by this much (H16). A
    /// function gives this many bytes more, or fewer, than it declared (G6). A card on an SPI bus
    /// receives this many clocks fewer, or more (I4).
    Astray(i32),
    /// Events without a cause, this many times: interrupts, completions of tasks that were cleared,
    /// an error of a complete task, or the ready bit of a task (numbers E2, E3, H1, H6 and H9 of
    /// the [`catalogue`]).
    Spurious(u32),
    /// The card is removed from the slot (C1).
    Remove,
    /// The supply voltage dips: the card is back in `idle`, and the host is not told (C9).
    BrownOut,
    /// All registers of the controller read as ones from now on (E15).
    Gone,
    /// A circuit of the controller stays in use until a reset of the whole controller: the command
    /// circuit after a response, otherwise the data circuit (E10).
    Stuck,
    /// A data line is stuck low from now on; the number is the line. Transfers on it are damaged
    /// (A8), and the card does not release it in a voltage switch (A13). On an SPI bus, DO stays
    /// low (0) or high (1) until power-off (I5).
    Line(u8),
    /// The sampling point that tuning has found stops working, until the next tuning (A11).
    Drift,
    /// A block has a wrong CRC, and the controller reports this error together with Transfer
    /// Complete (E4).
    CrcAndEnd,
}

/// Flips one bit of a block; bit 0 is the first on the wire. The byte number is taken modulo the
/// block's length.
pub(crate) fn flip(block: &mut [u8], bit: u32) {
    if !block.is_empty() {
        let at = bit as usize / 8 % block.len();
        block[at] ^= 0x80 >> (bit % 8);
    }
}

/// A fault that strikes once: at the nth event of one kind ([`Point`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shot {
    /// Kind of event that the fault strikes.
    pub point: Point,
    /// Number of the event among those of its kind, from 1 (the first after the plan was made).
    pub nth: u64,
    /// Kind of fault that strikes this event.
    pub strike: Strike,
}

/// A fault that strikes events of one kind at random.
#[derive(Clone, Copy, Debug)]
struct Chance {
    point: Point,
    strike: Strike,
    /// Probability that the fault strikes at an event, in parts of 2^32.
    share: u32,
}

/// A plan of faults: everything that will go wrong.
#[derive(Debug)]
pub struct Plan {
    counts: [u64; Point::COUNT],
    shots: Vec<Shot>,
    always: Vec<(Point, u64, Strike)>,
    chances: Vec<Chance>,
    random: Xoshiro256PlusPlus,
    struck: Vec<Shot>,
    /// Number of responses with the error bit ERROR that did not reach the host because of a fault.
    unheard: u64,
    /// Whether faults strike. While false, events are only counted.
    armed: bool,
}

impl Plan {
    /// Makes a plan in which no fault ever strikes.
    #[must_use]
    pub fn none() -> Self {
        Self::seeded(0)
    }

    /// Makes a plan that has no faults yet. Faults that are added with a probability use this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Plan {
            counts: [0; Point::COUNT],
            shots: Vec::new(),
            always: Vec::new(),
            chances: Vec::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            struck: Vec::new(),
            unheard: 0,
            armed: true,
        }
    }

    /// Returns the kinds of events that the plan can strike.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        let shots = self.shots.iter().map(|shot| shot.point);
        let always = self.always.iter().map(|(point, ..)| *point);
        shots.chain(always).chain(self.chances.iter().map(|chance| chance.point))
    }

    /// Adds a fault that strikes the nth event of the kind `point`. If two faults have the same
    /// event, the first is used.
    #[must_use]
    pub fn shot(mut self, point: Point, nth: u64, strike: Strike) -> Self {
        self.shots.push(Shot { point, nth, strike });
        self
    }

    /// Adds these faults, each of which strikes once. [`Faults::struck`] returns faults in this
    /// form.
    #[must_use]
    pub fn shots(mut self, shots: &[Shot]) -> Self {
        self.shots.extend_from_slice(shots);
        self
    }

    /// Adds faults for the next events of the kind `point`: the first of `strikes` for the next
    /// event, the second for the one after it, and so on.
    #[must_use]
    pub fn next(self, point: Point, strikes: &[Strike]) -> Self {
        (1..).zip(strikes).fold(self, |plan, (nth, &strike)| plan.shot(point, nth, strike))
    }

    /// Adds a fault that strikes each event of the kind `point`, from the nth on.
    #[must_use]
    pub fn from(mut self, point: Point, nth: u64, strike: Strike) -> Self {
        self.always.push((point, nth, strike));
        self
    }

    /// Adds to the plan a fault that strikes each event of the kind `point` with this probability,
    /// 0 to 1.
    #[must_use]
    pub fn chance(mut self, point: Point, strike: Strike, probability: f64) -> Self {
        let share = (probability.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
        self.chances.push(Chance { point, strike, share });
        self
    }

    fn strike(&mut self, point: Point) -> Option<Strike> {
        let count = &mut self.counts[point as usize];
        *count += 1;
        let nth = *count;
        if !self.armed {
            return None;
        }
        let shot = self.shots.iter().find(|s| s.point == point && s.nth == nth).map(|s| s.strike);
        let always = self.always.iter().find(|a| a.0 == point && a.1 <= nth).map(|a| a.2);
        let mut strike = shot.or(always);
        for chance in self.chances.iter().filter(|c| c.point == point) {
            // The random number is drawn even if another fault strikes, so that one probability
            // more or less does not change the events of the others.
            if self.random.next_u32() < chance.share {
                strike = strike.or(Some(chance.strike));
            }
        }
        if let Some(strike) = strike {
            self.struck.push(Shot { point, nth, strike });
        }
        strike
    }
}

/// A plan of faults that controller, card and campaign share.
#[derive(Clone, Debug, Default)]
pub struct Faults(Option<Rc<RefCell<Plan>>>);

impl Faults {
    /// Makes a handle without a plan of faults: nothing goes wrong, and nothing is counted.
    #[must_use]
    pub fn none() -> Self {
        Faults(None)
    }

    /// Makes a handle of this plan of faults.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Faults(Some(Rc::new(RefCell::new(plan))))
    }

    /// Counts an event of the kind `point`. Returns the fault that strikes this event; `None` if no
    /// fault strikes.
    #[inline]
    #[must_use]
    pub fn strike(&self, point: Point) -> Option<Strike> {
        self.0.as_ref().and_then(|plan| plan.borrow_mut().strike(point))
    }

    /// Returns the number of events of the kind `point` so far.
    #[must_use]
    pub fn events(&self, point: Point) -> u64 {
        self.0.as_ref().map_or(0, |plan| plan.borrow().counts[point as usize])
    }

    /// Counts a response with the bit ERROR that was lost or damaged.
    #[cold]
    pub(crate) fn note_unheard(&self) {
        if let Some(plan) = &self.0 {
            plan.borrow_mut().unheard += 1;
        }
    }

    /// Returns the number of responses with the bit ERROR that were lost or damaged.
    #[must_use]
    pub fn unheard(&self) -> u64 {
        self.0.as_ref().map_or(0, |plan| plan.borrow().unheard)
    }

    /// Returns the number of faults that have struck.
    #[must_use]
    pub fn strikes(&self) -> usize {
        self.0.as_ref().map_or(0, |plan| plan.borrow().struck.len())
    }

    /// Returns the faults that have struck, in order.
    #[must_use]
    pub fn struck(&self) -> Vec<Shot> {
        self.0.as_ref().map_or_else(Vec::new, |plan| plan.borrow().struck.clone())
    }

    /// Switches faults on (as they are at first) or off. While faults are off, events are still
    /// counted.
    pub fn arm(&self, on: bool) {
        if let Some(plan) = &self.0 {
            plan.borrow_mut().armed = on;
        }
    }

    /// Makes a fault strike the next event of the kind `point`, in addition to the plan.
    pub fn aim(&self, point: Point, strike: Strike) {
        if let Some(plan) = &self.0 {
            let mut plan = plan.borrow_mut();
            let nth = plan.counts[point as usize] + 1;
            plan.shots.push(Shot { point, nth, strike });
        }
    }

    /// Makes a fault strike each event of the kind `point` from now on, in addition to the plan.
    pub fn begin(&self, point: Point, strike: Strike) {
        if let Some(plan) = &self.0 {
            let mut plan = plan.borrow_mut();
            let nth = plan.counts[point as usize] + 1;
            plan.always.push((point, nth, strike));
        }
    }

    /// Removes from the plan the lasting faults `strike`, which strike each event of the kind
    /// `point`.
    pub fn end(&self, point: Point, strike: Strike) {
        if let Some(plan) = &self.0 {
            plan.borrow_mut().always.retain(|&(at, _, what)| (at, what) != (point, strike));
        }
    }

    /// Replaces the plan in all handles that share it. Events are counted from 1 again.
    pub fn replace(&self, plan: Plan) {
        if let Some(old) = &self.0 {
            *old.borrow_mut() = plan;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shots_hit_their_event_and_are_recorded() {
        let faults = Faults::new(Plan::none().shot(Point::Response, 2, Strike::Crc));
        assert_eq!(faults.strike(Point::Response), None);
        assert_eq!(faults.strike(Point::Command), None);
        assert_eq!(faults.strike(Point::Response), Some(Strike::Crc));
        assert_eq!(faults.strike(Point::Response), None);
        assert_eq!(faults.struck(), [Shot { point: Point::Response, nth: 2, strike: Strike::Crc }]);
        assert_eq!(faults.events(Point::Response), 3);
    }

    #[test]
    fn a_run_by_chance_can_be_repeated_as_a_list() {
        let by_chance = Faults::new(Plan::seeded(7).chance(Point::ReadBlock, Strike::Crc, 0.1));
        let first: Vec<_> = (0..1000).map(|_| by_chance.strike(Point::ReadBlock)).collect();
        let hits = by_chance.struck();
        assert!((60..140).contains(&hits.len()), "{}", hits.len());
        let listed = Faults::new(Plan::none().shots(&hits));
        let again: Vec<_> = (0..1000).map(|_| listed.strike(Point::ReadBlock)).collect();
        assert_eq!(first, again);
    }

    #[test]
    fn from_a_moment_on_everything() {
        let faults = Faults::new(Plan::none().from(Point::Busy, 3, Strike::Never));
        let hits: Vec<_> = (0..5).map(|_| faults.strike(Point::Busy).is_some()).collect();
        assert_eq!(hits, [false, false, true, true, true]);
        faults.arm(false);
        assert_eq!(faults.strike(Point::Busy), None);
    }
}
