//! What goes wrong, and when.
//!
//! Models have *points*: places where nature, or a bad design, may strike. Each time the simulation
//! comes by a point it asks [`Faults::strike`], which counts the event and answers with what
//! happens there, mostly nothing. A [`Plan`] says what strikes: at the nth event of a point
//! ([`Shot`]), or by chance ([`Plan::chance`], seeded). What struck is recorded, as shots: so a run
//! by chance can be repeated, and made shorter, as a list. [`catalogue`] names the failures that
//! are known, and how each is brought about.

pub mod catalogue;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;

/// A place where something may go wrong. Each counts its own events, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// A command token leaves the controller; not one of an automatic command.
    Command,
    /// A response token arrives there; not one to an automatic command.
    Response,
    /// A block read from the card comes to the controller; not one of the tuning procedure.
    ReadBlock,
    /// A written block arrives at the card.
    WriteBlock,
    /// The card begins to be busy (after a write, an R1b, a switch).
    Busy,
    /// A tuning block is sampled.
    Tuning,
    /// The supply of the card comes up.
    PowerUp,
    /// The signalling voltage changes (CMD11 or the host's regulator).
    Voltage,
    /// The controller raises its interrupt line.
    Interrupt,
    /// The controller's DMA fetches a descriptor, or begins a segment.
    Dma,
    /// A software reset of the controller begins.
    Reset,
    /// The controller's clock starts.
    Clock,
    /// The controller sends an automatic command.
    AutoCommand,
    /// The card accepts data into its volatile cache.
    Cache,
    /// The card programs, reads or erases its medium.
    Medium,
    /// A function of an I/O card is spoken to.
    Function,
    /// A byte goes over an SPI bus, and the card is selected.
    Exchange,
    /// The driver rings doorbells of the queue engine.
    Doorbell,
    /// The last block of a task of the queue engine begins.
    TaskEnd,
    /// The queue engine is told to halt.
    Halt,
    /// It is told to clear all its tasks.
    Clear,
    /// It is switched on.
    Enable,
    /// It tells which task an error was of.
    Blame,
    /// The card is told a task, by CMD44.
    Task,
    /// It is told to forget tasks, by CMD48.
    Discard,
    /// CMD12 comes while its queue is on.
    Stop,
    /// It is asked which tasks are ready, by CMD13.
    Ready,
    /// The header of a packed command arrives at the card.
    Pack,
    /// The controller goes to the next entry of an ADMA3 list.
    List,
}

impl Point {
    /// How many points there are.
    pub const COUNT: usize = 29;

    /// Does it come by where there is a controller of queues, of its own or by lists, alone?
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

    /// Does it come by on an SPI bus alone?
    #[must_use]
    pub fn is_of_spi(self) -> bool {
        self == Point::Exchange
    }

    /// Does it come by with a command queue alone?
    #[must_use]
    pub fn is_of_queue(self) -> bool {
        self >= Point::Doorbell
    }
}

/// What goes wrong. Each means something at certain points only; elsewhere it is without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Strike {
    /// The token does not arrive: the card never saw the command (A2), the host never sees the
    /// response (A3), the interrupt never reaches the CPU (E1), the automatic command is not sent
    /// (E8), what the medium was told does not happen (D5). Doorbells do nothing (H4), no task is
    /// blamed (H5), CMD44 has no answer (H7), the card's queue is empty after CMD12 (H11), or when it
    /// is asked what is ready. The card
    /// sees none of a byte's clocks (I3). What is behind this entry of a list is not executed (H17).
    Lost,
    /// Wrong checksum: of a response (A1), a read block (A6), a written block (A7, the card answers
    /// 101).
    Crc,
    /// Wrong end bit (A4, A8).
    EndBit,
    /// A response with another index (A4).
    Index,
    /// These bits are set in the response that arrives (A5, G4), in the status that an interrupt
    /// brings (E2), or stay set of those that a reset wrote (E9). The pause between two looks at the
    /// card's queue becomes this (H14). The card calls these tasks ready too.
    Status(u32),
    /// It is told before it is true: a task is complete (H2).
    Early,
    /// A written block gets no CRC status (A7).
    NoStatus,
    /// It comes so much later, in nanoseconds: a read block (A9), the end of busy (B1), the
    /// interrupt line, the news of a response or of a DMA stop (E4), the end of a reset, a halt (H3),
    /// readiness of a task (H12).
    Late(u64),
    /// It never ends: busy (B2), a reset (E9), power-up (G4), the start of the clock (E11), a DMA
    /// access. It never comes: a halt (H3), readiness of a task (H8). A card on an SPI bus says
    /// nothing more (I6).
    Never,
    /// Busy is not shown on DAT0 although the card is busy (B4).
    Hidden,
    /// It fails outright: DMA (E6), tuning (A11, A12), voltage switch (A13), a medium that cannot
    /// be read or programmed (D3, D5), a command that forgets tasks (H10), an
    /// entry of a packed command (H15). What is ready is answered by an ordinary status.
    Fail,
    /// One bit of the data is wrong, the checksum right: bit number in the block (D4). Of a byte on an
    /// SPI bus: 0 to 7 of what the card hears, 8 to 15 of what it says (I1, I2).
    Flip(u32),
    /// The data go elsewhere: so many blocks away (D9, H13). An entry of a packed command fails, and
    /// the index that is told is so far from its own (H16). A function gives so many bytes more, or
    /// fewer, than it said (G6). A card on an SPI bus sees so many clocks fewer, or more (I4).
    Astray(i32),
    /// The interrupt line rises without a cause, so many times (E2, E3). So do the
    /// completions of tasks that were cleared (H1), the error of a task that is complete (H6), the
    /// ready bit of a task (H9).
    Spurious(u32),
    /// The card is taken out (C1).
    Remove,
    /// The card loses its supply for a moment and is back in `idle`, the host is not told (C9).
    BrownOut,
    /// The controller reads as all ones from now on (E15).
    Gone,
    /// The circuit stays in use until a reset of the whole controller: the command's after a
    /// response, the data's otherwise (E10).
    Stuck,
    /// This data line is stuck low from now on: what uses it is damaged (A8). At a voltage switch:
    /// the card does not let it go (A13). DO of an SPI bus stays low (0) or high (1) until the
    /// supply goes (I5).
    Line(u8),
    /// The sampling point that tuning found no longer fits, until the next tuning (A11).
    Drift,
    /// A wrong checksum of a block, and its error comes together with Transfer Complete (E4).
    CrcAndEnd,
}

/// One bit of a block, counted from the first on the wire (modulo the block's length), becomes the
/// other.
pub(crate) fn flip(block: &mut [u8], bit: u32) {
    if !block.is_empty() {
        let at = bit as usize / 8 % block.len();
        block[at] ^= 0x80 >> (bit % 8);
    }
}

/// Something goes wrong once: at this event of this point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shot {
    /// Where.
    pub point: Point,
    /// At which event, from 1 (the first after the plan was made).
    pub nth: u64,
    /// What.
    pub strike: Strike,
}

/// Something goes wrong by chance.
#[derive(Clone, Copy, Debug)]
struct Chance {
    point: Point,
    strike: Strike,
    /// Of 2^32 events.
    share: u32,
}

/// Everything that will go wrong.
#[derive(Debug)]
pub struct Plan {
    counts: [u64; Point::COUNT],
    shots: Vec<Shot>,
    always: Vec<(Point, u64, Strike)>,
    chances: Vec<Chance>,
    random: Xoshiro256PlusPlus,
    struck: Vec<Shot>,
    /// Answers that told an error, and did not arrive.
    unheard: u64,
    /// Nothing strikes while false; events are counted all the same.
    armed: bool,
}

impl Plan {
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self::seeded(0)
    }

    /// Nothing goes wrong yet; chances take their luck from this seed.
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

    /// Where it may strike.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        let shots = self.shots.iter().map(|shot| shot.point);
        let always = self.always.iter().map(|(point, ..)| *point);
        shots.chain(always).chain(self.chances.iter().map(|chance| chance.point))
    }

    /// Adds a shot; of several at the same event the first is taken.
    #[must_use]
    pub fn shot(mut self, point: Point, nth: u64, strike: Strike) -> Self {
        self.shots.push(Shot { point, nth, strike });
        self
    }

    /// Adds shots, as recorded by [`Faults::struck`].
    #[must_use]
    pub fn shots(mut self, shots: &[Shot]) -> Self {
        self.shots.extend_from_slice(shots);
        self
    }

    /// The next event of a point is struck; the one after it by the next of these, and so on.
    #[must_use]
    pub fn next(self, point: Point, strikes: &[Strike]) -> Self {
        (1..).zip(strikes).fold(self, |plan, (nth, &strike)| plan.shot(point, nth, strike))
    }

    /// From the nth event of a point on, each is struck.
    #[must_use]
    pub fn from(mut self, point: Point, nth: u64, strike: Strike) -> Self {
        self.always.push((point, nth, strike));
        self
    }

    /// Each event of a point is struck with this probability, 0 to 1.
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
            // Drawn also when something else struck: one chance more or less does not change the
            // luck of the others.
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

/// A plan as models share it: controller, card and campaign hold the same one.
#[derive(Clone, Debug, Default)]
pub struct Faults(Option<Rc<RefCell<Plan>>>);

impl Faults {
    /// Nothing ever goes wrong, and nothing is counted.
    #[must_use]
    pub fn none() -> Self {
        Faults(None)
    }

    /// What goes wrong by this plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Faults(Some(Rc::new(RefCell::new(plan))))
    }

    /// An event at this point: what goes wrong there, if anything.
    #[inline]
    #[must_use]
    pub fn strike(&self, point: Point) -> Option<Strike> {
        self.0.as_ref().and_then(|plan| plan.borrow_mut().strike(point))
    }

    /// Events at this point so far.
    #[must_use]
    pub fn events(&self, point: Point) -> u64 {
        self.0.as_ref().map_or(0, |plan| plan.borrow().counts[point as usize])
    }

    /// An answer that told an error was lost or damaged on its way.
    #[cold]
    pub(crate) fn note_unheard(&self) {
        if let Some(plan) = &self.0 {
            plan.borrow_mut().unheard += 1;
        }
    }

    /// How many answers told an error, and were lost or damaged on their way.
    #[must_use]
    pub fn unheard(&self) -> u64 {
        self.0.as_ref().map_or(0, |plan| plan.borrow().unheard)
    }

    /// How many strikes there were so far.
    #[must_use]
    pub fn strikes(&self) -> usize {
        self.0.as_ref().map_or(0, |plan| plan.borrow().struck.len())
    }

    /// What has struck so far, in order.
    #[must_use]
    pub fn struck(&self) -> Vec<Shot> {
        self.0.as_ref().map_or_else(Vec::new, |plan| plan.borrow().struck.clone())
    }

    /// Strikes are on (as at first) or off; off, events are still counted.
    pub fn arm(&self, on: bool) {
        if let Some(plan) = &self.0 {
            plan.borrow_mut().armed = on;
        }
    }

    /// The next event of a point is struck, too.
    pub fn aim(&self, point: Point, strike: Strike) {
        if let Some(plan) = &self.0 {
            let mut plan = plan.borrow_mut();
            let nth = plan.counts[point as usize] + 1;
            plan.shots.push(Shot { point, nth, strike });
        }
    }

    /// Another plan from now on, for all that share this one; events are counted from 1 again.
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
