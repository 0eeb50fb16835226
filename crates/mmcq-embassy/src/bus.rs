//! Presents a host of mmcq as embassy's `sdio::MmcBus`.

use core::future::poll_fn;
use core::task::Poll;
use mmcq::engine::{Claim, DmaBuf, Error, Kind, Output, Request};
use mmcq::host::{Auto, BusOp, Caps, Cause, Data, Direction, Host, Phase, Stage, Timing, Width};
use mmcq::spec::command::{self, Command, Resp};
use mmcq::task::{Platform, Stack};
use sdio::{
    BlockReadCommand, BlockWriteCommand, BusWidth, ByteReadCommand, ByteWriteCommand, ControlCommand, MmcBus,
    MmcError, Response, ResponseLen, TuningOp,
};

const MS_NS: u64 = 1_000_000;
/// Longest time of a command and its response, in nanoseconds.
const COMMAND_NS: u64 = 20 * MS_NS;
/// Longest time of a command with busy other than an erase, in nanoseconds.
const BUSY_NS: u64 = 10_000 * MS_NS;
/// Index of CMD38, which starts an erase.
const ERASE: u8 = 38;
/// Longest time of an erase, in nanoseconds. `sdio` does not tell the number of blocks, so this is
/// the longest forced erase of a whole card by CMD42 [SD 4.3.7].
const ERASE_NS: u64 = 180_000 * MS_NS;
/// Longest time that a command's data may take, in nanoseconds: a second more than any standard
/// allows for a block.
const DATA_NS: u64 = 2_000 * MS_NS;
/// Time for the card's supply to fall after power-off, in nanoseconds [SD 6.4.1].
const POWER_OFF_NS: u64 = 2 * MS_NS;
/// Time for the card's supply to rise after power-on, in nanoseconds.
const POWER_UP_NS: u64 = 2 * MS_NS;
/// Time for 74 clocks at 400 kHz, in nanoseconds.
const CLOCKS_74_NS: u64 = MS_NS / 2;
/// Time from the response to CMD11 until the bus checks that the card has pulled DAT0 to DAT3 low,
/// in nanoseconds.
const SWITCH_LOW_NS: u64 = MS_NS;
/// Time with the clock off during the voltage switch, in nanoseconds [SD 4.2.4.2].
const SWITCH_OFF_NS: u64 = 10 * MS_NS;
/// Time from the clock at 1.8 V until the bus checks that DAT0 to DAT3 are high, in nanoseconds.
const SWITCH_ON_NS: u64 = MS_NS;
/// Largest number of blocks in a tuning procedure [SD 4.2.4.5].
const TUNING_BLOCKS: u32 = 40;
/// Fastest clock of default speed, in hertz [SD 6.6].
const DEFAULT_HZ: u32 = 25_000_000;
/// Fastest clock of high speed at 3.3 V, in hertz. Without 1.8 V signalling of an SD card no timing
/// is faster.
const HIGH_HZ: u32 = 50_000_000;
/// Fastest clock of SDR50, in hertz [SD 3.9.4].
const SDR50_HZ: u32 = 100_000_000;
/// Fastest clock of SDR104, in hertz [SD 3.9.4].
const SDR104_HZ: u32 = 208_000_000;

/// A controller behind mmcq's queue, as a bus for drivers that use embassy's `sdio`: SDIO functions
/// (cyw43, esp-hosted), or `sdio`'s own cards.
///
/// Commands go through the queue like all other requests, so a memory card on the same controller
/// (a combo card) gets its turns. Bring up a card either with mmcq or with `sdio`, not with both.
///
/// Data are copied through a buffer. The buffer must be as long as the longest transfer of the
/// driver that uses the bus, because `sdio` does not split requests. A call may be dropped at any
/// point; a command that the controller has started ends by itself.
///
/// `set_bus` is not an `async fn`: it stores the settings. The next command first changes the bus,
/// and reports a failure of the change.
#[derive(Debug)]
pub struct Bus<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    /// The buffer for data; empty while a request uses it.
    bounce: Option<DmaBuf>,
    claim: Claim,
    wanted: Option<(Width, u32)>,
    /// Whether the card may still have an open transfer, because its CMD12 was not sent.
    owes_stop: bool,
    /// Whether the controller may still execute its tuning procedure, in which it can send no other
    /// command [SDHC 2.2.25].
    tuning: bool,
    widest: Width,
    signal18: bool,
}

impl<'a, B: Platform, const N: usize> Bus<'a, B, N> {
    /// Makes a bus on the controller of `stack`, with a buffer for data; [`Buffer`](crate::Buffer)
    /// makes one.
    pub fn new(stack: &'a Stack<B, N>, bounce: DmaBuf) -> Self {
        Bus {
            stack,
            claim: bounce.claim(),
            bounce: Some(bounce),
            wanted: None,
            owes_stop: false,
            tuning: false,
            widest: Width::W8,
            signal18: false,
        }
    }

    /// Limits the number of data lines that the bus offers. `sdio` 0.5 refuses an SD card on a bus
    /// that offers eight lines, so use four for a slot for SD cards.
    #[must_use]
    pub fn at_most(self, width: Width) -> Self {
        Bus { widest: width, ..self }
    }

    async fn bus(&mut self, op: BusOp) -> Result<(), MmcError> {
        self.stack.bus(op).await.map_err(mmc_error)
    }

    async fn pause(&mut self, ns: u64) -> Result<(), MmcError> {
        self.stack.pause(ns).await.map_err(mmc_error)
    }

    /// Finishes what an earlier call has left on the bus: ends an unfinished tuning, and sends the
    /// CMD12 that is still missing. Then makes the changes that [`MmcBus::set_bus`] requested. If
    /// the call is dropped, the next call does all of it again.
    async fn settle(&mut self) -> Result<(), MmcError> {
        if self.tuning {
            self.end_tuning().await?;
        }
        if self.owes_stop {
            // If the card had no open transfer, it does not respond; so the result is ignored.
            let _ = self.stop().await;
        }
        let Some((width, hz)) = self.wanted else { return Ok(()) };
        self.bus(BusOp::Width(width)).await?;
        self.bus(BusOp::Timing(timing(hz, self.signal18))).await?;
        self.bus(BusOp::Clock(hz)).await?;
        self.wanted = None;
        Ok(())
    }

    /// Ends tuning by a reset of the lines. Returns an error if the reset does not end, because the
    /// lines then accept no further command.
    async fn end_tuning(&mut self) -> Result<(), MmcError> {
        if self.bus(BusOp::TuneAbort).await.is_err() {
            self.bus(BusOp::ResetAll).await?;
        }
        self.tuning = false;
        Ok(())
    }

    /// Sends CMD12 to end an open transfer.
    async fn stop(&mut self) -> Result<(), MmcError> {
        let stopped = self.command(command::stop_transmission(), BUSY_NS).await;
        self.owes_stop = false;
        stopped.map(|_| ())
    }

    async fn request(
        &mut self,
        phase: Phase,
        timeout_ns: u64,
        buf: DmaBuf,
    ) -> (Result<Output, Error>, DmaBuf) {
        let done = self.stack.request(Request::new(Kind::Raw { prefix: None, phase, timeout_ns }, buf)).await;
        (done.result, done.buf)
    }

    async fn command(&mut self, command: Command, timeout_ns: u64) -> Result<[u32; 4], MmcError> {
        let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
        let (result, _) = self.request(phase, timeout_ns, DmaBuf::EMPTY).await;
        Ok(words(command.resp, result.map_err(mmc_error)?.response.words))
    }

    /// Takes the buffer for data, of at least `bytes` bytes. If an earlier call was dropped, takes
    /// the buffer back from the engine. Errors: the buffer is still in use, or is too short.
    fn bounce(&mut self, bytes: usize) -> Result<DmaBuf, MmcError> {
        let claim = self.claim;
        let taken = self.bounce.take().or_else(|| self.stack.with(|engine| engine.reclaim(claim)));
        let buf = taken.ok_or(MmcError::Busy)?;
        if (buf.len_bytes() as usize) < bytes {
            self.bounce = Some(buf);
            return Err(MmcError::BlockSize);
        }
        Ok(buf)
    }

    /// Sends a command with data, after [`settle`](Self::settle). Nothing may be awaited between
    /// taking the buffer and passing it to the engine, because a call that is dropped there would
    /// lose the buffer.
    async fn data(
        &mut self,
        command: Command,
        data: Data,
        mut buf: DmaBuf,
        stop: bool,
    ) -> Result<[u32; 4], MmcError> {
        let auto =
            if stop && self.stack.with(|engine| engine.caps().auto_stop) { Auto::Stop } else { Auto::None };
        let phase = Phase { command, data: Some(data), auto, tuning: false };
        self.owes_stop = stop && auto == Auto::None;
        let result;
        (result, buf) = self.request(phase, DATA_NS, buf).await;
        self.bounce = Some(buf);
        match result {
            Ok(output) if self.owes_stop => {
                self.stop().await?;
                Ok(words(command.resp, output.response.words))
            }
            Ok(output) => Ok(words(command.resp, output.response.words)),
            Err(error) => {
                // A command without a response has started no transfer. After other errors the card
                // waits for CMD12.
                let begun = !matches!(error, Error::Host(fault) if fault.stage == Stage::Command);
                self.owes_stop = stop && begun;
                if self.owes_stop {
                    let _ = self.stop().await;
                }
                Err(mmc_error(error))
            }
        }
    }

    async fn read(
        &mut self,
        command: Command,
        data: Data,
        into: &mut [u8],
        stop: bool,
    ) -> Result<[u32; 4], MmcError> {
        let bytes = length(data, into.len())?;
        self.settle().await?;
        let buf = self.bounce(bytes)?;
        let words = self.data(command, data, buf, stop).await?;
        if let Some(bounce) = &self.bounce {
            for (to, from) in into.iter_mut().zip(bounce.iter().take(bytes)) {
                *to = *from;
            }
        }
        Ok(words)
    }

    async fn write(
        &mut self,
        command: Command,
        data: Data,
        from: &[u8],
        stop: bool,
    ) -> Result<[u32; 4], MmcError> {
        let bytes = length(data, from.len())?;
        self.settle().await?;
        let mut buf = self.bounce(bytes)?;
        for (to, from) in buf.iter_mut().zip(from.iter().take(bytes)) {
            *to = *from;
        }
        self.data(command, data, buf, stop).await
    }

    /// Switches the signal lines to 1.8 V by CMD11 [SD 4.2.4.2].
    async fn switch_voltage(&mut self, command: Command) -> Result<[u32; 4], MmcError> {
        let words = self.command(command, COMMAND_NS).await?;
        let hz = self.stack.with(|engine| engine.caps().clock_hz.0).max(400_000);
        // The card pulls the lines low some clocks after its response.
        self.pause(SWITCH_LOW_NS).await?;
        if self.dat_levels() != 0 {
            return Err(MmcError::Signaling);
        }
        self.bus(BusOp::Clock(0)).await?;
        self.bus(BusOp::Signal18(true)).await?;
        self.pause(SWITCH_OFF_NS).await?;
        self.bus(BusOp::Clock(hz)).await?;
        self.pause(SWITCH_ON_NS).await?;
        if self.dat_levels() != 0xf {
            return Err(MmcError::Signaling);
        }
        self.signal18 = true;
        Ok(words)
    }

    fn dat_levels(&self) -> u8 {
        self.stack.with(|engine| engine.dat_levels())
    }
}

impl<B: Platform, const N: usize> MmcBus for Bus<'_, B, N> {
    async fn send_command<'a, C>(&mut self, cmd: C) -> Result<C::Resp<'a>, MmcError>
    where
        C: ControlCommand + 'a,
    {
        self.settle().await?;
        let command = Command::new(cmd.index(), cmd.arg(), resp::<C::Resp<'a>>());
        let words = match command.index {
            11 => self.switch_voltage(command).await?,
            ERASE => self.command(command, ERASE_NS).await?,
            _ if command.resp == Resp::R1b => self.command(command, BUSY_NS).await?,
            _ => self.command(command, COMMAND_NS).await?,
        };
        Ok(C::Resp::from_words(&words))
    }

    async fn read_blocks<'a, C>(&mut self, mut cmd: C, auto_stop: bool) -> Result<C::Resp<'a>, MmcError>
    where
        C: BlockReadCommand + 'a,
    {
        let command = with_data::<C::Resp<'a>>(cmd.index(), cmd.arg());
        let data = data(Direction::Read, cmd.block_size().len(), cmd.block_count())?;
        let words = self.read(command, data, &mut cmd.buf()[..], auto_stop).await?;
        Ok(C::Resp::from_words(&words))
    }

    async fn write_blocks<'a, C>(&mut self, cmd: C, auto_stop: bool) -> Result<C::Resp<'a>, MmcError>
    where
        C: BlockWriteCommand + 'a,
    {
        let command = with_data::<C::Resp<'a>>(cmd.index(), cmd.arg());
        let data = data(Direction::Write, cmd.block_size().len(), cmd.block_count())?;
        let words = self.write(command, data, cmd.buf(), auto_stop).await?;
        Ok(C::Resp::from_words(&words))
    }

    async fn read_bytes<'a, C>(&mut self, mut cmd: C) -> Result<C::Resp<'a>, MmcError>
    where
        C: ByteReadCommand + 'a,
    {
        let command = with_data::<C::Resp<'a>>(cmd.index(), cmd.arg());
        let data = data(Direction::Read, cmd.byte_count(), 1)?;
        let words = self.read(command, data, &mut cmd.buf()[..], false).await?;
        Ok(C::Resp::from_words(&words))
    }

    async fn write_bytes<'a, C>(&mut self, cmd: C) -> Result<C::Resp<'a>, MmcError>
    where
        C: ByteWriteCommand + 'a,
    {
        let command = with_data::<C::Resp<'a>>(cmd.index(), cmd.arg());
        let data = data(Direction::Write, cmd.byte_count(), 1)?;
        let words = self.write(command, data, cmd.buf(), false).await?;
        Ok(C::Resp::from_words(&words))
    }

    async fn init_idle(&mut self, hz: u32) -> Result<(), MmcError> {
        let caps = self.stack.with(|engine| *engine.caps());
        // `signal18` is about SD cards. `sdio` leaves an eMMC in its first timings, at any voltage.
        (self.wanted, self.signal18, self.owes_stop) = (None, false, false);
        let clock_hz = hz.max(caps.clock_hz.0);
        self.bus(BusOp::PowerOff).await?;
        self.tuning = false;
        self.pause(POWER_OFF_NS).await?;
        self.bus(BusOp::PowerOn).await?;
        self.bus(BusOp::Signal18(caps.signal18_fixed)).await?;
        self.pause(POWER_UP_NS).await?;
        self.bus(BusOp::Width(Width::W1)).await?;
        self.bus(BusOp::Timing(Timing::Legacy)).await?;
        self.bus(BusOp::Clock(clock_hz)).await?;
        self.pause(CLOCKS_74_NS).await
    }

    /// Tunes the bus. The controller executes the tuning, so `op` is not used. Up to 50 MHz no
    /// tuning is needed, and in SDR50 only if the controller [requires](Caps::SDR50_TUNED) it.
    async fn tune_bus<O>(&mut self, width: BusWidth, hz: u32, op: O) -> Result<(), MmcError>
    where
        O: TuningOp,
    {
        let _ = op;
        self.settle().await?;
        let needs = match timing(hz, self.signal18) {
            Timing::Sdr50 => self.stack.with(|engine| engine.caps().timings & Caps::SDR50_TUNED != 0),
            timing => timing == Timing::Sdr104,
        };
        if !needs {
            return Ok(());
        }
        let (command, block_size) = match width {
            BusWidth::W8 => (command::emmc::send_tuning_block(), 128),
            BusWidth::W4 | BusWidth::W1 => (command::sd::send_tuning_block(), 64),
        };
        let data = Data { direction: Direction::Read, block_size, blocks: 1 };
        // From here on this call may be dropped, and the next one ends the tuning.
        self.tuning = true;
        self.bus(BusOp::TuneStart).await?;
        for _ in 0..TUNING_BLOCKS {
            let phase = Phase { command, data: Some(data), auto: Auto::None, tuning: true };
            match self.request(phase, DATA_NS, DmaBuf::EMPTY).await.0 {
                Ok(output) if output.is_tuned() => {
                    self.tuning = false;
                    return Ok(());
                }
                // Tuning may lose blocks at a bad sampling point, so such errors are expected.
                Ok(_) | Err(Error::Host(_)) => {}
                Err(error) => {
                    self.end_tuning().await?;
                    return Err(mmc_error(error));
                }
            }
        }
        self.end_tuning().await?;
        Err(MmcError::Signaling)
    }

    /// Waits for the card interrupt. Returns [`MmcError::Unsupported`] if the host [has no card
    /// interrupt](Host::CARD_IRQ).
    async fn wait_for_event(&mut self) -> Result<(), MmcError> {
        if !B::Host::CARD_IRQ {
            return Err(MmcError::Unsupported);
        }
        poll_fn(|context| {
            // Clone the waker before the lock is taken, and drop wakers after it is released.
            let waker = context.waker().clone();
            let (there, _wakers) = self.stack.with(|engine| {
                // The card interrupt is a level: a report that came while nothing waited is still
                // stored.
                if engine.take_card_irq() {
                    return (true, (Some(waker), engine.set_card_irq_waker(None)));
                }
                let before = engine.set_card_irq_waker(Some(waker));
                engine.unmask_card_irq();
                (false, (None, before))
            });
            if there { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    }

    fn set_bus(&mut self, width: BusWidth, hz: u32) -> Result<(), MmcError> {
        let width = match width {
            BusWidth::W1 => Width::W1,
            BusWidth::W4 => Width::W4,
            BusWidth::W8 => Width::W8,
        };
        let caps = self.stack.with(|engine| *engine.caps());
        if width > caps.width.min(self.widest) {
            return Err(MmcError::BusWidth);
        }
        if !caps.can(timing(hz, self.signal18)) {
            return Err(MmcError::Unsupported);
        }
        let hz = if self.signal18 { hz } else { hz.min(HIGH_HZ) };
        self.wanted = Some((width, hz.clamp(caps.clock_hz.0, caps.clock_hz.1)));
        Ok(())
    }

    fn supports_mmc(&self) -> bool {
        true
    }

    fn supports_auto_stop(&self) -> bool {
        true
    }

    fn supports_bus_width(&self) -> BusWidth {
        match self.stack.with(|engine| engine.caps().width).min(self.widest) {
            Width::W1 => BusWidth::W1,
            Width::W4 => BusWidth::W4,
            Width::W8 => BusWidth::W8,
        }
    }

    fn supports_1v8(&self) -> bool {
        self.stack.with(|engine| engine.caps().signal18)
    }

    fn supports_frequency(&self) -> u32 {
        let caps = self.stack.with(|engine| *engine.caps());
        let fastest = [(Timing::Sdr104, SDR104_HZ), (Timing::Sdr50, SDR50_HZ), (Timing::HighSpeed, HIGH_HZ)];
        let best =
            fastest.into_iter().find(|&(timing, hz)| caps.can(timing) && (caps.signal18 || hz <= HIGH_HZ));
        best.map_or(DEFAULT_HZ, |(_, hz)| hz).min(caps.clock_hz.1)
    }
}

/// Returns the bus timing for a clock of `hz` hertz; `signal18`: the signal lines have 1.8 V.
fn timing(hz: u32, signal18: bool) -> Timing {
    match (signal18, hz) {
        (false, ..=DEFAULT_HZ) => Timing::Legacy,
        (false, _) => Timing::HighSpeed,
        (true, ..=DEFAULT_HZ) => Timing::Sdr12,
        (true, ..=HIGH_HZ) => Timing::Sdr25,
        (true, ..=SDR50_HZ) => Timing::Sdr50,
        (true, _) => Timing::Sdr104,
    }
}

/// Returns the form of a response, as far as a controller must know it.
fn resp<R: Response>() -> Resp {
    match R::LEN {
        ResponseLen::Zero => Resp::None,
        ResponseLen::R136 => Resp::R2,
        ResponseLen::R48 if R::BUSY => Resp::R1b,
        ResponseLen::R48 if R::CRC => Resp::R1,
        ResponseLen::R48 => Resp::R3,
    }
}

/// Makes a command with data. `sdio` gives writes an R1b response, but their busy belongs to the
/// data, so it becomes R1.
fn with_data<R: Response>(index: u8, arg: u32) -> Command {
    let resp = match resp::<R>() {
        Resp::R1b => Resp::R1,
        resp => resp,
    };
    Command::new(index, arg, resp)
}

/// Returns the words of a response in the order of `sdio`: a long response with its last bits
/// first.
pub(crate) fn words(resp: Resp, [a, b, c, d]: [u32; 4]) -> [u32; 4] {
    if resp == Resp::R2 { [d, c, b, a] } else { [a, b, c, d] }
}

fn data(direction: Direction, block_bytes: usize, blocks: u32) -> Result<Data, MmcError> {
    match u16::try_from(block_bytes) {
        Ok(block_size @ 1..=2048) if blocks > 0 => Ok(Data { direction, block_size, blocks }),
        _ => Err(MmcError::BlockSize),
    }
}

/// Returns the length of the data in bytes; an error if the memory is shorter.
fn length(data: Data, given: usize) -> Result<usize, MmcError> {
    let bytes =
        usize::try_from(data.blocks).ok().and_then(|blocks| blocks.checked_mul(data.block_size.into()));
    bytes.filter(|&bytes| bytes <= given).ok_or(MmcError::BlockSize)
}

fn mmc_error(error: Error) -> MmcError {
    match error {
        Error::Host(fault) => match fault.cause {
            Cause::Timeout => MmcError::Timeout,
            Cause::Crc | Cause::EndBit | Cause::Index => MmcError::Crc,
            _ => MmcError::Io,
        },
        Error::Silent => MmcError::Timeout,
        Error::Full | Error::Suspended => MmcError::Busy,
        Error::Unsupported => MmcError::Unsupported,
        Error::Buffer { .. } => MmcError::BlockSize,
        Error::Bus(BusOp::Signal18(_)) => MmcError::Voltage,
        Error::Bus(_) | Error::Dma(_) => MmcError::Io,
        _ => MmcError::Other,
    }
}
