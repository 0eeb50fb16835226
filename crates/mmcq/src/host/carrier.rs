//! Writes of an open transfer as the data of a CMD13 (a *carrier*), for drivers that keep transfers
//! open.
//!
//! Only the card keeps the transfer open; for the controller, each phase is a complete write. The
//! first phase sends CMD25 and its data. By the standard CMD13 has no data, but each later phase
//! tells the controller to send a CMD13 with the next blocks as its data. The card answers the
//! CMD13, and takes these blocks as the next data of the open CMD25.

use super::{Auto, Cause, Done, Fault, Phase, Stage};
use crate::spec::command::{Command, Resp};
use crate::spec::response::{R1, State};

const GO_IDLE_STATE: u8 = 0;
const SELECT_CARD: u8 = 7;
const SEND_STATUS: u8 = 13;

/// State of a driver that sends writes as the data of a CMD13 (carriers; the module describes
/// them).
#[derive(Debug)]
pub(super) struct Carrier {
    /// Argument of the CMD7 that selected the card; 0 if no card is selected.
    selected: u32,
    /// Error bits in the responses to the CMD13 of carriers. The engine does not see these
    /// responses, so [`tell`](Self::tell) adds the bits to a later response that the engine gets.
    told: u32,
}

impl Carrier {
    pub const fn new() -> Self {
        Carrier { selected: 0, told: 0 }
    }

    /// Returns whether the driver can send a carrier (a CMD13 with data): a card is selected, so
    /// its address is known.
    pub fn is_ready(&self) -> bool {
        self.selected != 0
    }

    /// Returns whether errors of carriers are to be added to a later response.
    pub fn owes(&self) -> bool {
        self.told != 0
    }

    /// Records a command that was sent. The argument of a CMD7 becomes the card's address in
    /// carriers.
    pub fn note(&mut self, command: &Command) {
        match command.index {
            SELECT_CARD => self.selected = command.arg,
            GO_IDLE_STATE => self.told = 0,
            _ => {}
        }
    }

    /// Returns the command that continues the card's open write: a CMD13 to the selected card. In
    /// this driver the CMD13, which normally has no data, carries the data of `phase`.
    pub fn phase(&self, phase: &Phase) -> Phase {
        let command = Command::new(SEND_STATUS, self.selected, Resp::R1);
        Phase { command, auto: Auto::None, ..*phase }
    }

    /// Returns whether the R1 of a carrier (data sent with a CMD13) says that the card takes the
    /// data.
    #[inline(always)]
    fn is_taken(status: u32) -> bool {
        status & R1::OWN == 0 && matches!(R1(status).current_state(), State::Rcv | State::Prg)
    }

    /// Returns whether the R1 of a carrier says that the card takes the data, and shows no error.
    /// Then [`end`](Self::end) has nothing to do.
    #[inline(always)]
    pub fn is_well(status: u32) -> bool {
        status & R1::DEFERRED == 0 && Self::is_taken(status)
    }

    /// Converts the driver's result of a carrier (data sent with a CMD13) to the result that the
    /// engine gets. For the engine, such a phase has data and no command, so its result has no
    /// response. An error in the R1 of the CMD13 becomes a fault of the data. If no R1 was received,
    /// the fault is one of the command: this tells the engine that a status may be lost.
    pub fn end(&mut self, end: Result<Done, Fault>) -> Result<Done, Fault> {
        let end = end.map_err(|fault| {
            // The card shows an error of an earlier write once, so perhaps in this response.
            self.told |= fault.response.map_or(0, |response| response.words[0] & R1::DEFERRED);
            let stage = if fault.response.is_none() { Stage::Command } else { fault.stage };
            Fault { stage, response: None, ..fault }
        })?;
        let status = end.response.words[0];
        self.told |= status & R1::DEFERRED;
        if !Self::is_taken(status) {
            return Err(Fault { cause: Cause::Other, stage: Stage::Data, response: None });
        }
        Ok(Done::default())
    }

    /// Ends a carrier that the driver drops because the controller reports no end of it. `status`:
    /// the R1 of its CMD13, if that has come. If not, the R1 may have shown an error of an earlier
    /// write. Then a later response reports an error, since the engine does not learn otherwise that
    /// a response is lost.
    #[cold]
    pub fn drop_phase(&mut self, status: Option<u32>) {
        self.told |= status.map_or(R1::ERROR, |status| status & R1::DEFERRED);
    }

    /// Reports errors that the card signalled in the CMD13 of earlier carriers (CMD13 that carry
    /// write data), which the engine did not see. Adds their error bits to the response in `done`,
    /// and clears the collected bits. `done` is the result of a CMD12 or CMD13 that the engine
    /// sent.
    pub fn tell(&mut self, done: &mut Done) {
        done.response.words[0] |= core::mem::take(&mut self.told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::response::Response;

    fn told(carrier: &mut Carrier) -> u32 {
        let mut done = Done::default();
        carrier.tell(&mut done);
        done.response.words[0]
    }

    #[test]
    fn an_error_in_a_carrier_that_fails_is_told_later() {
        let mut carrier = Carrier::new();
        let r1 = Response { words: [0xd00 | R1::WP_VIOLATION, 0, 0, 0] };
        // Without a response the engine gets a fault of the command.
        for (response, stage, later) in [(Some(r1), Stage::Data, R1::WP_VIOLATION), (None, Stage::Command, 0)]
        {
            let fault = Fault { cause: Cause::Timeout, stage: Stage::Data, response };
            assert_eq!(carrier.end(Err(fault)), Err(Fault { stage, response: None, ..fault }));
            assert_eq!((told(&mut carrier), told(&mut carrier)), (later, 0));
        }
        for (status, later) in [(Some(r1.words[0]), R1::WP_VIOLATION), (Some(0xd00), 0), (None, R1::ERROR)] {
            carrier.drop_phase(status);
            assert_eq!((told(&mut carrier), told(&mut carrier)), (later, 0));
        }
        // After a reset the card has no status any more.
        carrier.told = R1::ERROR;
        carrier.note(&Command::new(GO_IDLE_STATE, 0, Resp::None));
        assert_eq!(told(&mut carrier), 0);
    }
}
