//! The DAT lines: blocks both ways, busy, block gaps, tuning [SDHC 2.2.9, 2.2.18, 3.7].

use super::bits::{host2, int, mode, present};
use super::command::{Auto, Issue};
use super::dma::Moved;
use super::{BusEvent, Busy, Mishaps, NEVER, Sdhci, Timer};
use crate::card::{Flow, ReadBlock};
use crate::wire::{BLOCK_GAP_CLK, Beat, CRC_STATUS_CLK, block_clk};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Command Inhibit (DAT) is clear in this state only.
    #[default]
    Idle,
    /// A command that will use the lines is on its way.
    Reserved,
    /// The card is asked for a block when the gap is over.
    ReadGap,
    ReadBlock,
    /// No room for the next block, or memory has not taken the last one: the clock stands.
    ReadHeld,
    /// Everything came; the host still has to empty the buffer.
    Drain,
    /// No data for the next block.
    WriteHeld,
    WriteBlock,
    /// CRC status, and busy until the next block can start.
    WriteStatus,
    /// Stopped at a block gap by the host.
    Gap,
    /// Something is due from the card, and will not come.
    Silence,
    /// Automatic CMD12.
    Stop,
    /// An abort command has ended the transfer; its response is still to come.
    Cut,
    Busy,
    /// After an error, until a reset.
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct DatLines {
    state: State,
    pub read: bool,
    /// Bytes in a block, as the host sees it.
    block: usize,
    /// Blocks still to go over the wires; `None` without a block count.
    left: Option<u32>,
    /// The block count is the 32-bit one.
    wide_count: bool,
    counted: bool,
    dma: bool,
    auto_stop: bool,
    tuning: bool,
    rounds: u8,
    /// What the card will do, from its reply.
    flow: Option<Flow>,
    /// The last thing on the lines ended, or ends, here.
    beat: Option<Beat>,
    bytes: Vec<u8>,
    /// Bytes of the block that memory has taken or given.
    pub offset: usize,
    good: bool,
    start_ns: u64,
    held_since: u64,
}

impl DatLines {
    /// Command Inhibit (DAT).
    pub fn active(&self) -> bool {
        self.state != State::Idle
    }

    /// Is a block on the lines?
    pub fn moving(&self) -> bool {
        matches!(self.state, State::ReadBlock | State::WriteBlock)
    }

    /// A block of the tuning procedure?
    pub fn tuning(&self) -> bool {
        self.tuning && self.active()
    }

    pub fn tuning_begins(&mut self) {
        self.rounds = 0;
    }

    /// Bytes of the current block.
    pub fn block_bytes(&mut self) -> &mut [u8] {
        let n = self.block.min(self.bytes.len());
        &mut self.bytes[..n]
    }

    /// Bytes of the current block that memory has not seen yet.
    pub fn rest(&self) -> Option<usize> {
        (self.offset < self.block).then(|| self.block - self.offset)
    }

    /// Will there be another block after the one memory deals with? A write prefetches: its block is still to be counted.
    pub fn more_blocks(&self) -> bool {
        self.left.is_none_or(|left| left > u32::from(!self.read))
    }

    pub fn endless(&self) -> bool {
        self.left.is_none()
    }

    pub fn present_bits(&self) -> u32 {
        let transfer = match (self.state, self.read) {
            (State::Idle | State::Reserved | State::Busy | State::Failed | State::Cut, _) => 0,
            (_, true) => present::READ_ACTIVE,
            (_, false) => present::WRITE_ACTIVE,
        };
        let line = match self.state {
            State::Idle => 0,
            State::Drain | State::Failed | State::Gap => present::DAT_INHIBIT,
            _ => present::DAT_INHIBIT | present::DAT_ACTIVE,
        };
        transfer | line
    }
}

impl Sdhci {
    /// A command that uses the lines was written.
    pub(super) fn reserve_data(&mut self, issue: &Issue) {
        self.dat.state = State::Reserved;
        self.dat.tuning = false;
        if !issue.data {
            self.dat.dma = true;
            return;
        }
        let tuning = self.regs.host2 & host2::EXECUTE_TUNING != 0 && matches!(issue.index, 19 | 21);
        let counted = issue.mode & mode::MULTI != 0 && issue.mode & mode::BLOCK_COUNT != 0;
        let wide_count = self.regs.version4() && self.config.spec >= 4 && self.regs.block_count == 0;
        let dat = &mut self.dat;
        dat.read = issue.mode & mode::READ != 0;
        dat.block = usize::from(self.regs.block_size & 0xfff);
        dat.left = if issue.mode & mode::MULTI == 0 {
            Some(1)
        } else if !counted {
            None
        } else if wide_count {
            Some(self.regs.argument2)
        } else {
            Some(self.regs.block_count.into())
        };
        dat.wide_count = wide_count;
        dat.counted = counted;
        dat.dma = issue.mode & mode::DMA != 0;
        dat.auto_stop = issue.auto == Auto::Stop;
        dat.tuning = tuning;
        if self.dat.block > 512 << (self.config.capabilities >> 16 & 3) {
            self.violation();
        }
    }

    /// The response to a data command has come: data may move after `beat`.
    pub(super) fn start_data(&mut self, flow: Flow, beat: Beat, now: u64) {
        if self.dat.state != State::Reserved {
            return;
        }
        self.dat.flow = Some(flow);
        self.dat.beat = Some(beat);
        if self.dat.block == 0 || self.dat.left == Some(0) {
            self.violation();
            return self.complete(now);
        }
        if self.dat.dma {
            self.pio.clear();
            self.dma_begin();
        } else {
            let blocks = self.dat.left.map_or(u64::MAX, u64::from);
            self.pio.begin(self.dat.block, self.config.buffer_blocks, !self.dat.read, blocks);
        }
        if self.dat.read {
            self.next_read(now);
        } else {
            self.offer_block(now);
            self.next_write(now);
        }
    }

    /// The edge at which the lines were last in use.
    fn data_beat(&self, now: u64) -> Beat {
        self.dat.beat.unwrap_or_else(|| self.beat(now))
    }

    /// Longest wait for data or busy [SDHC 2.2.15].
    fn timeout_ns(&self) -> u64 {
        let hz = match self.config.timeout_hz() {
            0 => self.bus.clock_hz.max(1),
            hz => hz,
        };
        let clocks = 1u64 << (13 + u32::from(self.regs.timeout).min(14));
        Beat::new(0, hz).plus(clocks).ns()
    }

    /// Gives up at the end of the timeout, if what is waited for comes later than that.
    fn watch(&mut self, from_ns: u64, until_ns: u64) {
        let limit = from_ns.saturating_add(self.timeout_ns());
        self.set_timer(Timer::DataTimeout, if limit < until_ns { limit } else { NEVER });
    }

    fn silence(&mut self, from_ns: u64) {
        self.dat.state = State::Silence;
        self.watch(from_ns, NEVER);
    }

    fn next_read(&mut self, now: u64) {
        let gap = self.data_beat(now).plus(BLOCK_GAP_CLK);
        let at = gap.ns();
        // The card must see commands and blocks in their order: ask now only if no command ends in the gap.
        if at > now && self.timers[Timer::Command as usize] <= at {
            self.dat.state = State::ReadGap;
            self.set_timer(Timer::Data, at);
        } else {
            self.ask_for_block(now);
        }
    }

    fn ask_for_block(&mut self, now: u64) {
        let before = self.data_beat(now);
        let free = before.plus(BLOCK_GAP_CLK);
        let free_ns = free.ns();
        let Some(Flow::Read { block_size }) = self.dat.flow else { return self.silence(free_ns) };
        let n = usize::from(block_size);
        let mut bytes = std::mem::take(&mut self.dat.bytes);
        if bytes.len() < n.max(self.dat.block) {
            bytes.resize(n.max(self.dat.block), 0);
        }
        let reply = self.with_card(free_ns, |card, now| card.read_block(&mut bytes[..n], now));
        self.dat.bytes = bytes;
        let Some(ReadBlock::At { start_ns, crc_ok }) = reply else { return self.silence(free_ns) };
        let start = free.not_before(start_ns);
        let end = start.plus(block_clk(block_size.into(), self.bus.width, self.bus.ddr));
        let (start_ns, end_ns) = (start.ns(), end.ns());
        self.stats.access_ns += start_ns - free_ns;
        self.stats.data_ns += (free_ns - before.ns()) + (end_ns - start_ns);
        self.dat.good = crc_ok && n == self.dat.block;
        self.dat.start_ns = start_ns;
        self.dat.beat = Some(end);
        self.dat.state = State::ReadBlock;
        self.watch(free_ns, start_ns);
        self.set_timer(Timer::Data, end_ns);
    }

    pub(super) fn data_event(&mut self, now: u64) {
        match self.dat.state {
            State::ReadGap => self.ask_for_block(now),
            State::ReadBlock => self.read_block_ended(now),
            State::WriteBlock => self.written_block_ended(now),
            State::WriteStatus => self.write_status_ended(now),
            State::Busy => self.complete(now),
            _ => {}
        }
    }

    fn read_block_ended(&mut self, now: u64) {
        self.stop_timer(Timer::DataTimeout);
        let good = self.dat.good && !Mishaps::take(&mut self.mishaps.read_crc) && self.card.is_some();
        self.count_block(good, now);
        if self.dat.tuning {
            return self.tuning_round(now);
        }
        if !good {
            return self.data_error(int::DATA_CRC, now);
        }
        if Mishaps::take(&mut self.mishaps.read_end_bit) {
            return self.data_error(int::DATA_END_BIT, now);
        }
        self.one_block_less();
        self.dat.offset = 0;
        if self.dat.dma {
            self.dat.state = State::ReadHeld;
            self.dat.held_since = now;
        } else {
            let n = self.dat.block;
            self.pio.push(&self.dat.bytes[..n]);
            self.dat.offset = n;
            self.offer_block(now);
        }
        self.read_goes_on(now);
    }

    /// Memory takes what is left of the block, and the next one comes.
    fn read_goes_on(&mut self, now: u64) {
        if self.dat.dma && self.dat.rest().is_some() && self.dma_move(now) != Moved::All {
            return;
        }
        let finished = self.dat.left.map_or(self.dat.dma && self.dma.ended(), |left| left == 0);
        if finished {
            self.blocks_are_over(now);
        } else if self.regs.block_gap & 1 != 0 {
            self.pause(now);
        } else if if self.dat.dma { self.dma.held() } else { !self.pio.room() } {
            if self.dat.state != State::ReadHeld {
                self.dat.held_since = now;
            }
            self.dat.state = State::ReadHeld;
        } else {
            if self.dat.state == State::ReadHeld {
                self.lines_stood(now);
            }
            self.next_read(now);
        }
    }

    /// The lines waited for the host; they go on now.
    fn lines_stood(&mut self, now: u64) {
        self.stats.held_ns += now.saturating_sub(self.dat.held_since);
        self.dat.beat = Some(self.data_beat(now).not_before(now));
    }

    /// The host has emptied a block of the buffer.
    pub(super) fn buffer_has_room(&mut self, now: u64) {
        match self.dat.state {
            State::ReadHeld if !self.dat.dma => self.read_goes_on(now),
            State::Drain if self.pio.is_empty() => self.complete(now),
            _ => {}
        }
    }

    /// The host has filled a block of the buffer.
    pub(super) fn buffer_has_data(&mut self, now: u64) {
        if self.dat.state == State::WriteHeld {
            self.lines_stood(now);
            self.next_write(now);
        }
    }

    /// SDMA may go on.
    pub(super) fn dma_goes_on(&mut self, now: u64) {
        match self.dat.state {
            State::ReadHeld => self.read_goes_on(now),
            State::WriteHeld => {
                self.lines_stood(now);
                self.next_write(now);
            }
            _ => {}
        }
    }

    fn next_write(&mut self, now: u64) {
        let n = self.dat.block;
        if self.dat.bytes.len() < n {
            self.dat.bytes.resize(n, 0);
        }
        // A block that SDMA left half fetched at a boundary goes on where it was.
        if self.dat.state != State::WriteHeld {
            self.dat.offset = 0;
            self.dat.held_since = now;
        }
        self.dat.state = State::WriteHeld;
        let ready = if self.dat.dma {
            self.dma_move(now) == Moved::All
        } else {
            let ready = self.pio.pull(&mut self.dat.bytes[..n]);
            if ready {
                self.offer_block(now);
            }
            ready
        };
        if !ready {
            return;
        }
        let before = self.data_beat(now);
        let free = before.plus(BLOCK_GAP_CLK);
        let free_ns = free.ns();
        if self.card_busy_until == NEVER {
            return self.silence(free_ns);
        }
        let start = free.not_before(self.card_busy_until);
        let end = start.plus(block_clk(n as u32, self.bus.width, self.bus.ddr));
        let (start_ns, end_ns) = (start.ns(), end.ns());
        self.busy_from(free_ns, start_ns);
        self.stats.data_ns += (free_ns - before.ns()) + (end_ns - start_ns);
        self.dat.start_ns = start_ns;
        self.dat.beat = Some(end);
        self.dat.state = State::WriteBlock;
        self.watch(free_ns, start_ns);
        self.set_timer(Timer::Data, end_ns);
    }

    fn busy_from(&mut self, from_ns: u64, until_ns: u64) {
        if until_ns > from_ns && until_ns != NEVER {
            self.stats.busy_ns += until_ns - from_ns;
            self.note(BusEvent::Busy { from_ns, until_ns });
        }
    }

    fn written_block_ended(&mut self, now: u64) {
        self.stop_timer(Timer::DataTimeout);
        let damaged = Mishaps::take(&mut self.mishaps.write_crc);
        let n = self.dat.block;
        let reply = match self.dat.flow {
            Some(Flow::Write { block_size }) => {
                let crc_ok = usize::from(block_size) == n && !damaged;
                let bytes = std::mem::take(&mut self.dat.bytes);
                let reply = self.with_card(now, |card, now| card.write_block(&bytes[..n], crc_ok, now));
                self.dat.bytes = bytes;
                reply
            }
            _ => None,
        };
        let end = self.data_beat(now);
        let Some((good, busy_until)) = reply.and_then(|r| Some((r.status?, r.busy_until_ns))) else {
            self.count_block(false, now);
            return self.silence(now);
        };
        self.count_block(good, now);
        self.dat.good = good;
        let token = end.plus(CRC_STATUS_CLK);
        let token_ns = token.ns();
        self.stats.data_ns += token_ns - end.ns();
        if busy_until > now {
            self.card_busy_until = self.card_busy_until.max(busy_until);
        }
        if good {
            self.one_block_less();
        }
        let last = self.write_is_over();
        let waits = good && !(last && self.config.busy == Busy::Ignored);
        let until = if waits { self.card_busy_until.max(token_ns) } else { token_ns };
        self.busy_from(token_ns, until);
        self.dat.beat = Some(token);
        self.dat.state = State::WriteStatus;
        self.watch(token_ns, until);
        self.set_timer(Timer::Data, until);
    }

    fn write_is_over(&self) -> bool {
        self.dat.left.map_or(self.dat.dma && self.dma.ended(), |left| left == 0)
    }

    fn write_status_ended(&mut self, now: u64) {
        self.stop_timer(Timer::DataTimeout);
        if !self.dat.good {
            return self.data_error(int::DATA_CRC, now);
        }
        self.dat.beat = Some(self.data_beat(now).not_before(now));
        if self.write_is_over() {
            self.blocks_are_over(now);
        } else if self.regs.block_gap & 1 != 0 {
            self.pause(now);
        } else {
            self.next_write(now);
        }
    }

    /// The last block of a transfer has been moved.
    fn blocks_are_over(&mut self, now: u64) {
        if self.dat.dma && self.dma_finish(now) != Moved::All {
            return;
        }
        if self.dat.auto_stop {
            self.dat.state = State::Stop;
            let beat = self.data_beat(now).plus(BLOCK_GAP_CLK);
            self.send_stop(beat);
        } else {
            self.complete(now);
        }
    }

    /// The response to an automatic CMD12 has come.
    pub(super) fn stop_ended(&mut self, now: u64) {
        if self.dat.state == State::Stop {
            self.wait_for_busy(now);
        }
    }

    /// The response to an R1b command has come.
    pub(super) fn start_busy(&mut self, now: u64) {
        if matches!(self.dat.state, State::Reserved | State::Cut) {
            self.wait_for_busy(now);
        }
    }

    fn wait_for_busy(&mut self, now: u64) {
        let until = self.card_busy_until;
        if until <= now || self.config.busy == Busy::Ignored {
            return self.complete(now);
        }
        self.busy_from(now, until);
        self.dat.state = State::Busy;
        self.watch(now, until);
        self.set_timer(Timer::Data, until);
    }

    /// An abort command without busy has its response.
    pub(super) fn abort_without_busy(&mut self, now: u64) {
        if self.dat.state == State::Cut {
            self.complete(now);
        }
    }

    /// The card has an abort command: what is on the lines ends here.
    pub(super) fn cut_data(&mut self, now: u64) {
        if matches!(self.dat.state, State::Idle | State::Reserved) {
            return;
        }
        self.stop_data_timers();
        self.pio.clear();
        self.dma.stop();
        self.dat.beat = Some(self.beat(now));
        self.dat.state = State::Cut;
    }

    /// Transfer Complete, unless the host has still to read the buffer.
    fn complete(&mut self, now: u64) {
        self.stop_data_timers();
        if self.dat.read && !self.dat.dma && !self.pio.is_empty() {
            self.dat.state = State::Drain;
            return;
        }
        self.dma.stop();
        self.dat.state = State::Idle;
        self.raise(int::TRANSFER_COMPLETE, now);
    }

    /// An error ends the transfer; nothing moves until a reset.
    pub(super) fn data_error(&mut self, bits: u32, now: u64) {
        self.fail_data();
        self.raise(bits, now);
    }

    pub(super) fn fail_data(&mut self) {
        if self.dat.active() {
            self.stop_data_timers();
            self.dma.stop();
            self.pio.clear();
            self.dat.state = State::Failed;
        }
    }

    /// The timeout counter ran out [SDHC 2.2.18]; without its status enable nobody looks at it.
    pub(super) fn data_timeout(&mut self, now: u64) {
        if self.regs.enable & int::DATA_TIMEOUT != 0 {
            self.data_error(int::DATA_TIMEOUT, now);
        }
    }

    fn count_block(&mut self, good: bool, now: u64) {
        let read = self.dat.read;
        match (good, read) {
            (false, _) => self.stats.blocks_bad += 1,
            (true, true) => self.stats.blocks_read += 1,
            (true, false) => self.stats.blocks_written += 1,
        }
        if good {
            self.stats.bytes += self.dat.block as u64;
        }
        let (bytes, start_ns) = (self.dat.block as u32, self.dat.start_ns);
        self.note(BusEvent::Block { read, bytes, good, start_ns, end_ns: now });
    }

    fn one_block_less(&mut self) {
        self.dat.left = self.dat.left.map(|left| left.saturating_sub(1));
        if self.dat.counted && self.dat.wide_count {
            self.regs.argument2 = self.regs.argument2.saturating_sub(1);
        } else if self.dat.counted {
            self.regs.block_count = self.regs.block_count.saturating_sub(1);
        }
    }

    /// Stop At Block Gap Request [SDHC 2.2.12].
    fn pause(&mut self, now: u64) {
        self.dat.state = State::Gap;
        self.dat.held_since = now;
        self.raise(int::BLOCK_GAP | int::TRANSFER_COMPLETE, now);
    }

    /// Continue Request.
    pub(super) fn continue_after_gap(&mut self, now: u64) {
        if self.dat.state == State::Gap {
            self.lines_stood(now);
            if self.dat.read {
                self.read_goes_on(now);
            } else {
                self.next_write(now);
            }
        }
    }

    /// A tuning block came; its data stay in the controller [SDHC 2.2.25].
    fn tuning_round(&mut self, now: u64) {
        self.dat.state = State::Idle;
        self.dma.stop();
        self.dat.rounds = self.dat.rounds.saturating_add(1);
        if self.dat.rounds >= self.config.tuning_rounds.clamp(1, 40) {
            self.regs.host2 &= !host2::EXECUTE_TUNING;
            if !self.config.tuning_fails {
                self.regs.host2 |= host2::SAMPLING_CLOCK;
            }
            self.refresh_bus(now);
        }
        self.raise(int::BUFFER_READ_READY, now);
    }

    /// Software Reset For DAT Line [SDHC 2.2.16].
    pub(super) fn reset_data(&mut self) {
        self.stop_data_timers();
        self.pio.clear();
        self.dma.stop();
        self.dat.state = State::Idle;
        self.regs.status &= !(int::TRANSFER_COMPLETE
            | int::DMA
            | int::BUFFER_READ_READY
            | int::BUFFER_WRITE_READY
            | int::BLOCK_GAP);
        self.regs.block_gap &= !3;
    }
}
