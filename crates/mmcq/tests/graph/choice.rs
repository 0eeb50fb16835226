//! The faults that may happen in the graph tests, and the list of choices that decides a run.
//!
//! A run depends only on its plan. The plan names choice points by number, and for each the number
//! of the alternative that is taken; at all other choice points nothing goes wrong.

/// A fault, or another event at a bad moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bad {
    /// The card does not see the command; the controller reports a timeout.
    CommandLost,
    /// The card has executed the command; its response is damaged (CRC).
    ResponseDamaged,
    /// A block of the data is damaged (CRC); a write stops in the middle.
    DataDamaged,
    /// The data stop in the middle; the controller reports a timeout.
    DataMissing,
    /// The controller reports a DMA error in the middle of the data.
    DmaFault,
    /// The controller never ends the phase; the card has not seen its command.
    Silence,
    /// The phase ends without a fault, but its interrupt is lost.
    LostInterrupt,
    /// R1 shows an error of an earlier command or transfer.
    StatusError,
    /// R1 shows that the card refuses the command.
    Refused,
    /// The card receives the data and does not program them; its next R1 shows this.
    ProgramFails,
    /// The card loses its supply for a moment.
    BrownOut,
    /// The card does not respond until its supply is switched off and on.
    Mute,
    /// The card stays busy until it is reset.
    Stuck,
    /// From now on all data are damaged at the present speed of the bus, whatever the sampling
    /// point.
    Noise,
    /// The card is taken out.
    Removed,
    /// The card is taken out, and comes back after 100 ms.
    Returned,
    /// The card is taken out, and another card is inserted after 100 ms.
    Replaced,
    /// The card is exchanged for another one, and no event reports this.
    Swapped,
    /// The controller requests a new tuning, at a phase that ends without a fault.
    RetuneAsked,
    /// The registers of the controller read as all ones.
    Gone,
    /// The start is refused once: the lines are in use.
    StartRefused,
    /// A bus operation fails.
    BusFails,
    /// A reset never ends.
    ResetHangs,
    /// A reset ends after 50 ms.
    ResetLate,
    /// No mapping is free for this memory.
    MapExhausted,
    /// The supervisor begins its help after 300 ms.
    SupervisorSlow,
    /// The supervisor begins its help after 20 s.
    SupervisorTooSlow,
    /// The supervisor's future is dropped.
    SupervisorGone,
    /// The client of the request with this number cancels it.
    Cancel(u8),
}

impl Bad {
    /// Returns whether both are the same kind of fault, whichever request they hit.
    fn is_a(self, other: Bad) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Returns whether this fault may show that the bus is too fast.
    pub fn damages(self) -> bool {
        matches!(self, Bad::ResponseDamaged | Bad::DataDamaged | Bad::Noise)
    }
}

/// The faults of a run: the number of the choice point and of the alternative, in the order of the
/// points.
pub type Plan = Vec<(u32, u8)>;

/// Makes the choices of one run by its plan, and records how many alternatives each point had.
#[derive(Default)]
pub struct Chooser {
    plan: Plan,
    next: usize,
    /// Number of alternatives at each choice point so far.
    pub points: Vec<u8>,
    /// Whether no further fault may happen in this run.
    pub closed: bool,
    /// The only faults that may happen, in this order; `None`: all faults may happen.
    only: Option<&'static [Bad]>,
}

impl Chooser {
    pub fn begin(&mut self, plan: &[(u32, u8)], only: Option<&'static [Bad]>) {
        self.plan.clear();
        self.plan.extend_from_slice(plan);
        self.points.clear();
        (self.next, self.closed, self.only) = (0, false, only);
    }

    /// Returns the fault that happens at this choice point; `None`: nothing goes wrong.
    pub fn choose(&mut self, alternatives: &[Bad]) -> Option<Bad> {
        if self.closed || alternatives.is_empty() {
            return None;
        }
        let mut one = [Bad::Gone];
        let alternatives = match self.only {
            None => alternatives,
            Some(only) => {
                let wanted = only.get(self.next)?;
                one[0] = *alternatives.iter().find(|bad| bad.is_a(*wanted))?;
                &one
            }
        };
        let point = self.points.len() as u32;
        self.points.push(alternatives.len() as u8);
        match self.plan.get(self.next) {
            Some(&(at, alternative)) if at == point => {
                self.next += 1;
                alternatives.get(usize::from(alternative)).copied()
            }
            _ => None,
        }
    }
}
