//! Records which acknowledged writes were lost, and which connections do not know of the loss.
//!
//! A loss is a power cut of the card, or a lost cache that the engine reports. Clients of the
//! export may use several connections (`NBD_FLAG_CAN_MULTI_CONN`): a flush on any of them covers
//! the writes that were acknowledged on all of them before. So a loss concerns every connection,
//! and the server refuses the next flush of each connection once. By this refusal a connection is
//! told of the loss.
//!
//! A connection may close before it is told. Its client may come back on a new connection, but the
//! protocol does not identify the client. So one new connection is told for each such closed
//! connection; it is called the heir. New connections are also told while an open connection has
//! lost writes and has not been told.
//!
//! A connection counts as told when the refusal has been written to it, and it then sends another
//! request (a disconnect in order is one, too). A loss does not count if all acknowledged writes
//! had been flushed before.
//!
//! This knowledge lasts as long as the server. It is kept when connections close and when the card
//! is initialised again. A server that ends reports how many connections were not told
//! ([`Losses::untold`]), since the next server starts without this knowledge. A server that is
//! killed reports nothing: then writes since a client's last flush may be lost, and no server
//! reports that.

use super::CLIENTS_MAX;
use std::collections::HashMap;

/// A connection of a client.
#[derive(Debug, Default)]
struct Connection {
    /// Number of the newest loss of data for which no flush of this connection has to be refused
    /// any more: the client has read the refusal, or opened the connection after the loss.
    told: u64,
    /// Number of the loss that was reported to this connection by refusing a flush, as long as it
    /// is not known whether the client has read that answer; otherwise `None`.
    refused: Option<u64>,
    /// Whether the refusal of the flush has been written to the client's socket.
    written: bool,
    /// Number of the newest loss of data for which no durable write of this connection has to be
    /// refused any more; losses are numbered in order.
    refused_write: u64,
    /// Number of the connection's newest acknowledged write that no flush has covered; `None`:
    /// flushes have covered all.
    unflushed: Option<u64>,
    /// Whether the card has lost acknowledged writes of this connection, and the client has not
    /// been told that yet.
    lost_writes: bool,
    /// Whether this connection will be told of a loss in place of another one, which closed before
    /// it was told. It is then called the heir of the other one.
    heir: bool,
}

/// Losses of acknowledged writes, and which connections were told of them.
#[derive(Debug, Default)]
pub struct Losses {
    /// Number of the last loss, counted from 1; 0: no loss yet.
    last: u64,
    /// Number of writes of all clients that the server has acknowledged so far.
    acknowledged: u64,
    connections: HashMap<u64, Connection>,
    /// For each closed connection with acknowledged writes that no flush has covered: the number of
    /// the newest of these writes.
    left_unflushed: Vec<u64>,
    /// Number of new connections that must still be told of a loss, each in place of one that
    /// closed before it was told that its writes were lost (such a new connection is an heir). At
    /// most the largest number of clients.
    heirs_to_come: usize,
}

impl Losses {
    /// Records that a client has opened a new connection.
    pub fn came(&mut self, client: u64) {
        let heir = self.heirs_to_come > 0;
        // A flush on this connection would also cover writes of a connected writer that has not
        // been told.
        let untold = heir || self.connections.values().any(|connection| connection.lost_writes);
        let told = if untold { self.last - 1 } else { self.last };
        let connection = Connection { told, refused_write: told, heir, ..Connection::default() };
        self.connections.insert(client, connection);
    }

    /// Records that a client has sent a request. It has then read everything that was written to it
    /// before, also the refusal that reports a loss.
    pub fn asked(&mut self, client: u64) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        if let Some(loss) = connection.refused.filter(|_| connection.written) {
            connection.told = loss;
            (connection.refused, connection.lost_writes) = (None, false);
            if std::mem::take(&mut connection.heir) {
                self.heirs_to_come = self.heirs_to_come.saturating_sub(1);
            }
        }
    }

    /// Records that the answer which refuses a flush, and so reports a loss, has been written to a
    /// client's socket.
    pub fn refusal_written(&mut self, client: u64) {
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.written = connection.refused.is_some();
        }
    }

    /// Records that a connection closed. `in_order`: the client ended it by a disconnect request,
    /// after all answers.
    pub fn left(&mut self, client: u64, in_order: bool) {
        if in_order {
            self.asked(client);
        }
        let Some(connection) = self.connections.remove(&client) else { return };
        if connection.lost_writes {
            self.expect_heirs(1);
        }
        if let Some(write) = connection.unflushed {
            self.left_unflushed.push(write);
            if self.left_unflushed.len() > CLIENTS_MAX {
                // The oldest entry is dropped: no more clients than this can come back.
                self.left_unflushed.remove(0);
            }
        }
    }

    fn expect_heirs(&mut self, more: usize) {
        self.heirs_to_come = (self.heirs_to_come + more).min(CLIENTS_MAX);
    }

    /// Records that a write of this client was acknowledged, and that only a flush makes it
    /// durable.
    pub fn acknowledged(&mut self, client: u64) {
        self.acknowledged += 1;
        if let Some(connection) = self.connections.get_mut(&client) {
            connection.unflushed = Some(self.acknowledged);
        }
    }

    /// Returns the number of acknowledged writes that a flush covers if it begins now; the caller
    /// passes this number to [`flushed`](Self::flushed) at the flush's end.
    pub fn covered(&self) -> u64 {
        self.acknowledged
    }

    /// Records a successful flush that covers the first `covered` acknowledged writes.
    pub fn flushed(&mut self, covered: u64) {
        for connection in self.connections.values_mut() {
            connection.unflushed = connection.unflushed.filter(|&write| write > covered);
        }
        self.left_unflushed.retain(|&write| write > covered);
    }

    /// Records a power cut of the card: writes that no flush has covered may be lost.
    pub fn supply_failed(&mut self) {
        if self.unflushed() {
            self.lost();
        }
    }

    /// Returns the number of connections that lost writes, and to which no refusal that reports
    /// this has been written. A connection may close before it is known to have read its refusal.
    /// Then it still counts, until the next new connection (the heir) gets the refusal in its
    /// place.
    pub fn untold(&self) -> usize {
        let written = |connection: &&Connection| connection.refused == Some(self.last) && connection.written;
        let here = self.connections.values().filter(|connection| connection.lost_writes);
        let heirs = self.connections.values().filter(|connection| connection.heir).filter(written).count();
        here.filter(|connection| !written(connection)).count() + self.heirs_to_come.saturating_sub(heirs)
    }

    /// Returns whether there is an acknowledged write that no flush has covered.
    pub fn unflushed(&self) -> bool {
        let here = self.connections.values().any(|connection| connection.unflushed.is_some());
        here || !self.left_unflushed.is_empty()
    }

    /// Returns how many times the card has lost written data so far. A request that began before
    /// the last loss may have written data that this loss destroyed.
    pub fn count(&self) -> u64 {
        self.last
    }

    /// Records a loss of acknowledged writes, which the engine reports once.
    pub fn lost(&mut self) {
        self.last += 1;
        for connection in self.connections.values_mut() {
            // A refusal that is not known to be read is repeated, with the new loss.
            (connection.refused, connection.written) = (None, false);
            connection.lost_writes |= connection.unflushed.take().is_some();
        }
        self.expect_heirs(self.left_unflushed.len());
        self.left_unflushed.clear();
    }

    /// Returns whether this client's flush must be refused although the card has done it, because
    /// the client was not told yet that data were lost. If so, records that this refusal tells the
    /// client.
    pub fn refuses_flush(&mut self, client: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&client) else { return false };
        let untold = connection.told < self.last && connection.refused != Some(self.last);
        if untold {
            (connection.refused, connection.written) = (Some(self.last), false);
        }
        untold
    }

    /// Returns whether a durable write of this client must be refused, since acknowledged writes
    /// were lost. This happens once for each loss, and not after a flush was refused for the same
    /// loss. The client's next flush is refused as well: the refusal of a write does not tell the
    /// client that earlier writes are lost too.
    pub fn refuses_write(&mut self, client: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&client) else { return false };
        let untold = connection.told < self.last
            && connection.refused != Some(self.last)
            && connection.refused_write < self.last;
        if untold {
            connection.refused_write = self.last;
        }
        untold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets this client flush, and returns whether the flush is refused. If it is refused, the
    /// client gets the refusal and sends another request, so that the refusal counts as received.
    fn told(losses: &mut Losses, client: u64) -> bool {
        losses.asked(client);
        let refused = losses.refuses_flush(client);
        losses.refusal_written(client);
        losses.asked(client);
        refused
    }

    fn with(clients: u64) -> Losses {
        let mut losses = Losses::default();
        (0..clients).for_each(|client| losses.came(client));
        losses
    }

    #[test]
    fn what_was_flushed_is_not_lost_and_what_came_after_the_flush_began_is() {
        let mut losses = with(1);
        losses.acknowledged(0);
        let covered = losses.covered();
        losses.acknowledged(0);
        losses.flushed(covered);
        losses.supply_failed();
        assert!(told(&mut losses, 0) && !told(&mut losses, 0));
        losses.acknowledged(0);
        losses.flushed(losses.covered());
        losses.supply_failed();
        assert!(!told(&mut losses, 0));
    }

    #[test]
    fn a_refusal_that_may_not_have_been_heard_is_for_the_next_client() {
        for (written, spoke, in_order, heard) in [
            (false, false, false, false),
            (false, true, true, false),
            (true, false, false, false),
            (true, false, true, true),
            (true, true, false, true),
        ] {
            let mut losses = with(1);
            losses.acknowledged(0);
            losses.supply_failed();
            assert!(losses.refuses_flush(0));
            if written {
                losses.refusal_written(0);
            }
            if spoke {
                losses.asked(0);
            }
            losses.left(0, in_order);
            losses.came(1);
            assert_eq!(told(&mut losses, 1), !heard, "{written} {spoke} {in_order}");
            losses.came(2);
            assert!(!told(&mut losses, 2));
        }
    }

    #[test]
    fn writers_that_left_before_and_after_the_loss_have_an_heir_each() {
        let mut losses = with(3);
        (0..3).for_each(|client| losses.acknowledged(client));
        losses.left(0, true);
        losses.supply_failed();
        losses.left(1, true);
        // Two heirs are expected. Connection 10 leaves without being told, so two are still
        // expected.
        losses.came(10);
        losses.left(10, true);
        for (client, refused) in [(11, true), (12, true), (13, false)] {
            if client == 13 {
                // The third writer was connected all the time.
                assert!(told(&mut losses, 2));
            }
            losses.came(client);
            assert_eq!(told(&mut losses, client), refused, "{client}");
        }
    }

    /// Checks a connection that is opened after a loss of data, while the connection that wrote the
    /// data is still open and was not told of the loss: the new one is told once. It may be an
    /// additional connection, or one that comes back.
    #[test]
    fn a_connection_that_comes_after_the_loss_is_told_while_a_writer_is_not() {
        let mut losses = with(2);
        losses.acknowledged(0);
        losses.supply_failed();
        losses.left(1, false);
        losses.came(2);
        assert!(told(&mut losses, 2) && !told(&mut losses, 2));
        assert!(told(&mut losses, 0));
        losses.came(3);
        assert!(!told(&mut losses, 3));
    }

    #[test]
    fn what_is_untold_is_known_until_a_refusal_has_been_written() {
        let mut losses = with(3);
        losses.acknowledged(0);
        losses.acknowledged(1);
        losses.left(1, false);
        assert!(losses.unflushed() && losses.untold() == 0);
        losses.supply_failed();
        assert!(!losses.unflushed() && losses.untold() == 2);
        assert!(losses.refuses_flush(0));
        assert_eq!(losses.untold(), 2, "refused, and not written");
        losses.refusal_written(0);
        assert_eq!(losses.untold(), 1);
        // The server does not know whether the client read the refusal.
        losses.left(0, false);
        assert_eq!(losses.untold(), 2);
        for (client, left) in [(10, 1), (11, 0)] {
            losses.came(client);
            assert!(losses.refuses_flush(client));
            losses.refusal_written(client);
            assert_eq!(losses.untold(), left);
        }
    }

    #[test]
    fn a_second_loss_is_told_again() {
        let mut losses = with(2);
        losses.acknowledged(0);
        losses.supply_failed();
        assert!(losses.refuses_flush(0));
        losses.refusal_written(0);
        losses.lost();
        losses.asked(0);
        assert!(told(&mut losses, 0) && told(&mut losses, 1));
        assert!(!told(&mut losses, 0) && !told(&mut losses, 1));
    }

    #[test]
    fn a_durable_write_is_refused_once_and_counts_for_nothing() {
        let mut losses = with(1);
        losses.acknowledged(0);
        losses.supply_failed();
        assert!(losses.refuses_write(0) && !losses.refuses_write(0));
        assert!(told(&mut losses, 0));
        losses.lost();
        assert!(told(&mut losses, 0));
        assert!(!losses.refuses_write(0));
    }

    #[test]
    fn those_who_left_are_remembered_in_bounds() {
        let mut losses = Losses::default();
        for client in 0..10_000 {
            losses.came(client);
            losses.acknowledged(client);
            losses.left(client, false);
        }
        assert!(losses.connections.is_empty() && losses.left_unflushed.len() == CLIENTS_MAX);
        losses.supply_failed();
        assert_eq!(losses.heirs_to_come, CLIENTS_MAX);
    }
}
