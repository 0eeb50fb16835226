//! Judges what a flush promises to the requests of several clients: no request ends before a flush
//! that its own client has submitted earlier. Only a client that has flushed itself writes before
//! the flush of another, and after that it must flush again before it may do so once more.

use super::case::SLOTS;
use super::clients::Client;
use mmcq::task::Platform;
use mmcq_sim::checker::{Answer, Asked, Fault, Violation};

/// Whether a client's writes may end before an older flush of another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// They may not: the client has had no flush that ended.
    Missing,
    /// They may: since the client's last flush, no write of it was seen to end before the flush of
    /// another client.
    Open,
    /// Writes up to this number may, because they may have been queued when an earlier one went
    /// before a flush. Later ones may not.
    Used(u32),
    /// They may: the client has left a flush, which may end at any time without being seen.
    Unknown,
}

/// The requests that have ended lately, and which clients have flushed: enough to check that
/// requests end in an allowed order around flushes.
#[derive(Debug)]
pub(super) struct Ends {
    /// Requests that ended without an error and came after the last check of a flush: number,
    /// client, kind. The next flush is compared with them.
    news: Vec<(u32, u8, Asked)>,
    /// Whether the writes of each client may end before the flush of another client.
    rights: [Right; 256],
}

impl Default for Ends {
    fn default() -> Self {
        Ends { news: Vec::new(), rights: [Right::Missing; 256] }
    }
}

impl Ends {
    /// Records the answer to request `number` of a client, for the next check of the order.
    pub fn note(&mut self, number: u32, client: u8, asked: Asked, answer: Answer) {
        if asked == Asked::Flush && answer != Answer::Refused {
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
        if asked == Asked::Flush {
            self.rights[usize::from(client)] = Right::Unknown;
        }
    }

    /// Checks that no request has ended before a flush that must end first: an earlier flush of the
    /// same client, or, for a change by a client that has no right to go first, any earlier flush.
    /// The caller has polled all clients whose requests have ended.
    pub fn judge<B: Platform>(&mut self, clients: &[Option<Client<'_, B>>; SLOTS]) -> Result<(), Violation> {
        if self.news.is_empty() {
            return Ok(());
        }
        let clients = clients.iter().flatten();
        let newest = clients.clone().map(Client::number).max().unwrap_or(0);
        let flushes = clients.filter(|client| client.asked() == Asked::Flush);
        self.compare(flushes.map(|client| (client.number(), client.origin())), newest)
    }

    /// Compares the requests that have ended with the flushes that have not: number and client of
    /// each. `newest`: the largest number of a request that has not ended.
    fn compare(&mut self, flushes: impl Iterator<Item = (u32, u8)>, newest: u32) -> Result<(), Violation> {
        let newest = self.news.iter().map(|&(number, ..)| number).fold(newest, u32::max);
        let mut before = self.rights;
        for (flush, of) in flushes {
            for &(number, ended, asked) in self.news.iter().filter(|&&(number, ..)| number > flush) {
                let own = ended == of;
                let changes = !matches!(asked, Asked::Read | Asked::Flush);
                let right = self.rights[usize::from(ended)];
                let may = match right {
                    Right::Missing => false,
                    Right::Open | Right::Unknown => true,
                    Right::Used(last) => number <= last,
                };
                if own || changes && !may {
                    let text = format!(
                        "request {number} of client {ended} ended before flush {flush} of client {of}"
                    );
                    return Err(Violation::new(Fault::Misordered, text));
                }
                if changes && right == Right::Open {
                    before[usize::from(ended)] = Right::Used(newest);
                }
            }
        }
        self.rights = before;
        for (_, client, asked) in self.news.drain(..) {
            let right = &mut self.rights[usize::from(client)];
            if asked == Asked::Flush && *right != Right::Unknown {
                *right = Right::Open;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Asked = Asked::Write { durable: false };

    /// Returns whether requests may end in this order: number, client, kind. `flush` waits.
    fn ends(ends: &mut Ends, ended: (u32, u8, Asked), flush: Option<(u32, u8)>) -> bool {
        let (number, client, asked) = ended;
        ends.note(number, client, asked, Answer::Done);
        ends.compare(flush.into_iter(), number).is_ok()
    }

    #[test]
    fn a_client_that_has_flushed_goes_before_one_flush() {
        let mut all = Ends::default();
        assert!(ends(&mut all, (1, 0, Asked::Flush), None));
        assert!(ends(&mut all, (3, 0, WRITE), Some((2, 1))));
        // Client 1 flushes again. Client 0 writes again, and has not flushed.
        assert!(!ends(&mut all, (5, 0, WRITE), Some((4, 1))));
    }

    #[test]
    fn a_client_that_flushes_again_goes_before_another_flush() {
        let mut all = Ends::default();
        assert!(ends(&mut all, (1, 0, Asked::Flush), None));
        assert!(ends(&mut all, (3, 0, WRITE), Some((2, 1))));
        assert!(ends(&mut all, (4, 0, Asked::Flush), None));
        assert!(ends(&mut all, (6, 0, WRITE), Some((5, 1))));
        // The checker cannot see when a flush whose client has left it ends.
        all.note_left(0, Asked::Flush);
        assert!(ends(&mut all, (8, 0, WRITE), Some((7, 1))));
        assert!(ends(&mut all, (10, 0, WRITE), Some((9, 1))));
    }

    #[test]
    fn writes_that_were_queued_together_go_together() {
        let mut all = Ends::default();
        assert!(ends(&mut all, (1, 0, Asked::Flush), None));
        all.note(3, 0, WRITE, Answer::Done);
        // The write 4 has not ended yet.
        assert!(all.compare([(2, 1)].into_iter(), 4).is_ok());
        assert!(ends(&mut all, (4, 0, WRITE), Some((2, 1))));
        assert!(!ends(&mut all, (5, 0, WRITE), Some((2, 1))));
    }

    #[test]
    fn a_client_that_has_not_flushed_waits_for_the_flush() {
        assert!(!ends(&mut Ends::default(), (2, 0, WRITE), Some((1, 1))));
        assert!(ends(&mut Ends::default(), (1, 0, WRITE), Some((2, 1))));
        assert!(ends(&mut Ends::default(), (2, 0, Asked::Read), Some((1, 1))));
        let mut all = Ends::default();
        assert!(ends(&mut all, (1, 0, Asked::Flush), None));
        assert!(!ends(&mut all, (3, 0, Asked::Read), Some((2, 0))), "its own flush");
    }
}
