//! What may go wrong, and the list of choices that makes a run.
//!
//! A run is a function of its plan: at the choice point with this number, the alternative with
//! this number is taken; everywhere else all is well.

/// A bad answer, or another thing that happens at a bad moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bad {
    /// The card does not see the command; the controller reports a timeout.
    CommandLost,
    /// The card has obeyed; its response is damaged (CRC).
    ResponseDamaged,
    /// A block of the data is damaged (CRC); a write is cut off in the middle.
    DataDamaged,
    /// The data stop in the middle; the controller reports a timeout.
    DataMissing,
    /// The controller reports a DMA error in the middle of the data.
    DmaFault,
    /// The controller never ends the phase; the card has not seen its command.
    Silence,
    /// All is well, but no interrupt comes.
    LostInterrupt,
    /// R1 shows an error of what went before.
    StatusError,
    /// R1 shows that the card refuses the command.
    Refused,
    /// The data arrive and are not programmed; the next R1 shows it.
    ProgramFails,
    /// The card loses its supply for a moment.
    BrownOut,
    /// The card answers nothing until it is switched off and on.
    Mute,
    /// The card stays busy until it is reset.
    Stuck,
    /// At this speed all data are damaged from now on, whatever the sampling point.
    Noise,
    /// The card is taken out.
    Removed,
    /// The card is taken out, and comes back after 100 ms.
    Returned,
    /// Another card is in its place after 100 ms.
    Replaced,
    /// Another card is in its place, and no event tells.
    Swapped,
    /// The controller asks for a new tuning, beside a good answer.
    RetuneAsked,
    /// The controller reads as all ones.
    Gone,
    /// The start is refused once: the lines are in use.
    StartRefused,
    /// A bus operation fails.
    BusFails,
    /// A reset never ends.
    ResetHangs,
    /// A reset ends after 50 ms.
    ResetLate,
    /// There is no room for this mapping.
    MapExhausted,
    /// The supervisor begins after 300 ms.
    SupervisorSlow,
    /// The supervisor begins after 20 s.
    SupervisorTooSlow,
    /// The supervisor's future is dropped.
    SupervisorGone,
    /// The owner of this request cancels it.
    Cancel(u8),
}

impl Bad {
    /// The same thing, whichever request it happens to.
    fn is_a(self, other: Bad) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Evidence that the bus is too fast.
    pub fn damages(self) -> bool {
        matches!(self, Bad::ResponseDamaged | Bad::DataDamaged | Bad::Noise)
    }
}

/// The deviations of a run: choice point and alternative, in the order of the points.
pub type Plan = Vec<(u32, u8)>;

/// Takes the choices of one run, and notes how many there were at each point.
#[derive(Default)]
pub struct Chooser {
    plan: Plan,
    next: usize,
    /// Alternatives at each point so far.
    pub points: Vec<u8>,
    /// Nothing goes wrong any more.
    pub closed: bool,
    /// If it is given, only this may go wrong, in this order.
    only: Option<&'static [Bad]>,
}

impl Chooser {
    pub fn begin(&mut self, plan: &[(u32, u8)], only: Option<&'static [Bad]>) {
        self.plan.clear();
        self.plan.extend_from_slice(plan);
        self.points.clear();
        (self.next, self.closed, self.only) = (0, false, only);
    }

    /// One of these, or nothing goes wrong.
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
