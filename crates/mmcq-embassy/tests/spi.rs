//! Tests of an SD card in SPI mode on a bus whose transfers are futures; a script gives the bytes
//! from the card.

use embedded_hal::digital::{ErrorType as PinErrors, OutputPin};
use embedded_hal::spi::{ErrorKind, ErrorType};
use embedded_hal_async::spi::SpiBus;
use mmcq::block::BlockDevice;
use mmcq::engine::{CardParams, Config, DmaBuf, Error};
use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress, Spi, SpiConfig, SpiMemory};
use mmcq::task::{Stack, Timer};
use mmcq_embassy::{CriticalSection, SpiMailbox, SpiPort};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct Wire {
    /// Bytes from the card; 0xff after the last one.
    comes: VecDeque<u8>,
    went: Vec<u8>,
    transfers: u32,
    clocks: Vec<u32>,
    fails: bool,
}

#[derive(Clone)]
struct Bus(Rc<RefCell<Wire>>);

impl ErrorType for Bus {
    type Error = ErrorKind;
}

impl Bus {
    /// Exchanges these bytes after some time, like a bus that uses DMA.
    async fn moves(&mut self, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        let mut first = true;
        std::future::poll_fn(|context| {
            if std::mem::take(&mut first) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        let mut wire = self.0.borrow_mut();
        wire.transfers += 1;
        for byte in bytes {
            wire.went.push(*byte);
            *byte = wire.comes.pop_front().unwrap_or(0xff);
        }
        if wire.fails { Err(ErrorKind::Overrun) } else { Ok(()) }
    }
}

impl SpiBus for Bus {
    async fn read(&mut self, _: &mut [u8]) -> Result<(), ErrorKind> {
        unreachable!("zeros might go out")
    }
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ErrorKind> {
        self.moves(&mut bytes.to_vec()).await
    }
    async fn transfer(&mut self, _: &mut [u8], _: &[u8]) -> Result<(), ErrorKind> {
        unreachable!()
    }
    async fn transfer_in_place(&mut self, bytes: &mut [u8]) -> Result<(), ErrorKind> {
        self.moves(bytes).await
    }
    async fn flush(&mut self) -> Result<(), ErrorKind> {
        Ok(())
    }
}

struct Pin(Rc<RefCell<Vec<bool>>>);

impl PinErrors for Pin {
    type Error = Infallible;
}

impl OutputPin for Pin {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.0.borrow_mut().push(false);
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        self.0.borrow_mut().push(true);
        Ok(())
    }
}

thread_local!(static NOW_NS: Cell<u64> = const { Cell::new(0) });
const TIMER: Timer = Timer { now_ns: || NOW_NS.get(), set_alarm: |_| {} };
type Card<'m, 'b> = Stack<(CriticalSection, Spi<SpiPort<'m, 'b>>), 4>;

/// Polls both futures until the first has ended; the time advances by 100 us each turn.
fn drive<T>(stack: &Card<'_, '_>, future: impl Future<Output = T>, runner: impl Future) -> T {
    let (mut future, mut runner) = (pin!(future), pin!(runner));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        let _ = runner.as_mut().poll(&mut context);
        NOW_NS.set(NOW_NS.get() + 100_000);
        stack.poll();
    }
    panic!("no end");
}

fn memory(fill: u8) -> DmaBuf {
    DmaBuf::from_static(Box::leak(vec![fill; 512].into_boxed_slice()))
}

#[test]
fn blocks_move_by_a_bus_whose_transfers_are_futures() {
    let (wire, levels) = (Rc::new(RefCell::new(Wire::default())), Rc::new(RefCell::new(Vec::new())));
    let mut buffer = [0; 512];
    let mailbox = SpiMailbox::new(&mut buffer);
    let connect = || {
        let clock = |bus: &mut Bus, hz| bus.0.borrow_mut().clocks.push(hz);
        mailbox.connect(Bus(wire.clone()), Pin(levels.clone()), clock)
    };
    let (port, mut runner) = connect().unwrap();
    assert!(connect().is_none(), "there is one pair");
    let host = Spi::new(port, Box::leak(Box::new(SpiMemory::new())), SpiConfig::new(20_000_000));
    let stack: Card<'_, '_> = Stack::new(CriticalSection, TIMER, host, Config::DEFAULT);
    let params = CardParams::NONE
        .rca(1)
        .sectors(1 << 20)
        .block_addressed(true)
        .read_timeout_ns(100_000_000)
        .write_timeout_ns(250_000_000);
    stack.with(|engine| engine.set_card_params(Some(params)));

    // The card's bytes during CMD0, and during CMD59, which switches CRC on; then the driver knows
    // that the card is not busy. For each command the driver exchanges one byte before it, the six
    // bytes of the command, and five for the response.
    let command = mmcq::spec::command::go_idle_state();
    wire.borrow_mut()
        .comes
        .extend([&[0xff; 8][..], &[1, 0xff, 0xff, 0xff], &[0xff; 8], &[1, 0xff, 0xff, 0xff]].concat());
    drive(&stack, stack.raw(None, command, None, DmaBuf::EMPTY, 1_000_000), runner.run(&stack)).0.unwrap();
    assert_eq!(wire.borrow().went[..7], [0xff, 0x40, 0, 0, 0, 0, 0x95]);
    assert_eq!(*levels.borrow(), [false]);

    // CMD17: its frame with R1, a token a little later, the block, its CRC. 512 bytes of 0xff have
    // the CRC 7fa1 [SD 4.5].
    let device = BlockDevice::new(&stack);
    wire.borrow_mut().went.clear();
    wire.borrow_mut().comes.extend([&[0xff; 8][..], &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]].concat());
    wire.borrow_mut().comes.extend([0xff; 512]);
    wire.borrow_mut().comes.extend([0x7f, 0xa1]);
    let before = wire.borrow().transfers;
    let (result, buf) = drive(&stack, device.read(9, memory(0x11)), runner.run(&stack));
    assert_eq!(result, Ok(1));
    assert!(buf.iter().all(|&byte| byte == 0xff));
    assert_eq!(wire.borrow().went[1..6], [0x51, 0, 0, 0, 9]);
    assert_eq!(wire.borrow().transfers - before, 4, "frame, token, block, CRC");

    // An error of the bus becomes an error of the request.
    wire.borrow_mut().fails = true;
    let (result, _) = drive(&stack, device.read(9, memory(0x11)), runner.run(&stack));
    assert!(result.is_err());
}

type Shared<T> = Rc<RefCell<T>>;

/// Returns a stack whose card the driver knows.
fn ready<'m, 'b>(port: SpiPort<'m, 'b>) -> Card<'m, 'b> {
    let host = Spi::new(port, Box::leak(Box::new(SpiMemory::new())), SpiConfig::new(20_000_000));
    let stack: Card<'_, '_> = Stack::new(CriticalSection, TIMER, host, Config::DEFAULT);
    let params = CardParams::NONE
        .rca(1)
        .sectors(1 << 20)
        .block_addressed(true)
        .read_timeout_ns(100_000_000)
        .write_timeout_ns(250_000_000);
    stack.with(|engine| engine.set_card_params(Some(params)));
    stack
}

/// Gives the wire the card's bytes during CMD0 and CMD59; each command has one byte before it, its
/// six bytes, and five for the response.
fn idles(wire: &Shared<Wire>) {
    let command = [&[0xff; 8][..], &[1, 0xff, 0xff, 0xff]].concat();
    wire.borrow_mut().comes.extend(command.repeat(2));
}

/// Gives the wire the card's bytes during CMD17 that reads a block of zeroes, whose CRC is 0.
fn reads_zeroes(wire: &Shared<Wire>) {
    wire.borrow_mut().comes.extend([&[0xff; 8][..], &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]].concat());
    wire.borrow_mut().comes.extend([0; 514]);
}

/// Tests a runner that is not polled for so long that the engine gives up: what it receives
/// afterwards does not go to memory that was given back, and the card works again.
#[test]
fn what_a_runner_receives_too_late_goes_to_no_memory() {
    let wire = Shared::<Wire>::default();
    let mut buffer = [0; 512];
    let mailbox = SpiMailbox::new(&mut buffer);
    let (port, mut runner) = mailbox.connect(Bus(wire.clone()), Pin(Rc::default()), |_, _| ()).unwrap();
    let stack = ready(port);
    let mut run = pin!(runner.run(&stack));
    let zero = || stack.raw(None, mmcq::spec::command::go_idle_state(), None, DmaBuf::EMPTY, 1_000_000);
    idles(&wire);
    drive(&stack, zero(), run.as_mut()).0.unwrap();

    let device = BlockDevice::new(&stack);
    reads_zeroes(&wire);
    let last = wire.borrow().transfers + 2;
    let starved = std::future::poll_fn(|context| {
        // After frame and token, the runner has begun to receive the block.
        if wire.borrow().transfers < last { run.as_mut().poll(context).map(|_| ()) } else { Poll::Pending }
    });
    let (result, mut buf) = drive(&stack, device.read(9, memory(0x22)), starved);
    assert_eq!(result.map_err(|error| error.error), Err(Error::Dead));
    assert_eq!(buf.len(), 512, "the memory is back");
    buf.fill(0x11);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..4 {
        let _ = run.as_mut().poll(&mut context);
        stack.poll();
    }
    assert_eq!(wire.borrow().transfers, last + 1, "the runner has received the block");
    assert!(buf.iter().all(|&byte| byte == 0x11));
    wire.borrow_mut().comes.clear();
    stack.with(|engine| engine.set_card_params(None));
    // The card is silent now, but a request still ends.
    let (_result, _memory) = drive(&stack, zero(), run.as_mut());
}

#[test]
#[allow(unsafe_code, reason = "a port without a driver")]
fn an_exchange_that_is_too_long_fails_and_the_next_one_works() {
    let mut buffer = [0; 512];
    let mailbox = SpiMailbox::new(&mut buffer);
    let (wire, levels) = (Rc::new(RefCell::new(Wire::default())), Rc::new(RefCell::new(Vec::new())));
    let (mut port, runner) = mailbox.connect(Bus(wire.clone()), Pin(levels), |_, _| ()).unwrap();
    let memory = Box::leak(vec![0u8; 513].into_boxed_slice());
    // SAFETY: the memory lives for ever, and only the port uses it.
    let mut segment = |bytes| unsafe { Segment::new(NonNull::from(&mut memory[..]).cast(), bytes, 0) };
    port.exchange(Exchange::Receive(segment(513)));
    assert_eq!(port.done(), Progress::Failed);
    port.exchange(Exchange::Receive(segment(512)));
    assert_eq!(port.done(), Progress::Going, "the runner has the exchange");
    drop((port, runner));
    let again = mailbox.connect(Bus(wire), Pin(Rc::default()), |_: &mut Bus, _| ());
    assert!(again.is_some(), "the buffer is back");
}

#[test]
#[allow(unsafe_code, reason = "a port without a driver")]
fn a_port_stops_an_exchange_that_waits_for_its_runner() {
    let wire = Shared::<Wire>::default();
    let (mut buffer, mut others) = ([0; 512], [0; 512]);
    let (mailbox, idle) = (SpiMailbox::new(&mut buffer), SpiMailbox::new(&mut others));
    let levels = Shared::<Vec<bool>>::default();
    let clock = |bus: &mut Bus, hz| bus.0.borrow_mut().clocks.push(hz);
    let (mut port, mut runner) = mailbox.connect(Bus(wire.clone()), Pin(levels.clone()), clock).unwrap();
    // The runner tells a stack of the end; that of another mailbox hears it without effect.
    let (other, _) = idle.connect(Bus(wire.clone()), Pin(Rc::default()), |_, _| ()).unwrap();
    let stack = ready(other);
    let mut run = pin!(runner.run(&stack));
    let mut turn = || {
        let mut context = Context::from_waker(Waker::noop());
        (0..4).for_each(|_| assert!(run.as_mut().poll(&mut context).is_pending()));
    };
    let memory = NonNull::from(Box::leak(vec![0x11u8; 512].into_boxed_slice())).cast();
    // SAFETY: the memory lives for ever, and only the port uses it until it has stopped.
    let receive = || Exchange::Receive(unsafe { Segment::new(memory, 512, 0) });
    wire.borrow_mut().comes.extend([0; 512]);

    port.clock(400_000);
    port.select(true);
    port.exchange(receive());
    assert_eq!(port.done(), Progress::Going);
    assert!(port.stop());
    turn();
    assert!(wire.borrow().clocks.is_empty() && levels.borrow().is_empty());
    assert_eq!((wire.borrow().transfers, port.done()), (0, Progress::Going), "there is no exchange");
    port.exchange(receive());
    turn();
    // SAFETY: the port has not reported the end yet, and copies only then.
    assert_eq!(unsafe { memory.read() }, 0x11);
    assert_eq!(port.done(), Progress::Done);
    // Clock and chip select of the exchange that was stopped are set before the next one.
    assert_eq!((&wire.borrow().clocks[..], &levels.borrow()[..]), (&[400_000][..], &[false][..]));
    // SAFETY: the exchange has ended.
    assert_eq!(unsafe { memory.read() }, 0, "a later exchange works");
}
