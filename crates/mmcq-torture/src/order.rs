//! Judges what a flush promises to the requests of several clients: no request ends before a flush
//! that its own client has submitted earlier, and only a client that has flushed itself writes
//! before the flush of another.

use super::case::SLOTS;
use super::clients::Client;
use mmcq::task::Platform;
use mmcq_sim::checker::{Answer, Asked, Fault, Violation};

/// The requests that have ended lately, and which clients have flushed: enough to check that
/// requests end in an allowed order around flushes.
#[derive(Debug)]
pub(super) struct Ends {
    /// Requests that ended without an error and came after the last check of a flush: number,
    /// client, kind. The next flush is compared with them.
    news: Vec<(u32, u8, Asked)>,
    /// For each client: whether it has had a flush that ended, or has given up waiting for one.
    has_flushed: [bool; 256],
}

impl Default for Ends {
    fn default() -> Self {
        Ends { news: Vec::new(), has_flushed: [false; 256] }
    }
}

impl Ends {
    /// Records the answer to request `number` of a client, for the next check of the order.
    pub fn note(&mut self, number: u32, client: u8, asked: Asked, answer: Answer) {
        if asked == Asked::Flush {
            // A flush that reports an earlier loss has flushed all the same.
            self.news.push((0, client, asked));
        }
        if answer == Answer::Done {
            self.news.push((number, client, asked));
        }
    }

    /// Notes that a client has dropped the future of its request; the request itself may still be
    /// executed.
    pub fn note_left(&mut self, client: u8, asked: Asked) {
        self.has_flushed[usize::from(client)] |= asked == Asked::Flush;
    }

    /// Checks that no request has ended before a flush that must end first: an earlier flush of the
    /// same client, or, for a change by a client that has never flushed, any earlier flush. The
    /// caller has polled all clients whose requests have ended.
    pub fn judge<B: Platform>(&mut self, clients: &[Option<Client<'_, B>>; SLOTS]) -> Result<(), Violation> {
        let waiting = clients.iter().flatten().filter(|client| client.asked() == Asked::Flush);
        for client in waiting {
            let (flush, of) = (client.number(), client.origin());
            let overtakes = |&&(number, ended, asked): &&(u32, u8, Asked)| {
                let own = ended == of;
                let changes = !matches!(asked, Asked::Read | Asked::Flush);
                number > flush && (own || changes && !self.has_flushed[usize::from(ended)])
            };
            if let Some((number, ended, _)) = self.news.iter().find(overtakes) {
                let text =
                    format!("request {number} of client {ended} ended before flush {flush} of client {of}");
                return Err(Violation::new(Fault::Misordered, text));
            }
        }
        for (_, client, asked) in self.news.drain(..) {
            self.has_flushed[usize::from(client)] |= asked == Asked::Flush;
        }
        Ok(())
    }
}
