//! A logger under embassy on an nRF52840-DK: FAT on an SD card in SPI mode, on SPIM3 by DMA. The
//! driver was tested on QEMU's lm3s6965evb and on a model. This program was built, but never tried
//! on hardware.
//!
//! The calls of the file system block, so it runs in the main thread. Everything else is a task of
//! an executor that runs in an interrupt, so the tasks continue while the file system waits:
//!
//! | task | what it does |
//! |---|---|
//! | `bus` | runs the SPI transfers |
//! | `deadlines` | calls the stack at its deadlines |
//! | `supervisor` | initialises a card that lost its state, and brings up the next one |
//! | `sampler` | makes a record each 10 ms |
//! | `reader` | reads from the card while the logger writes, through the same stack |
//!
//! Wires: P1.12 chip select, P1.13 MOSI, P1.14 MISO, P1.15 SCK; a pull-up resistor of 10 kOhm on
//! each line of the card. LED 1 is on while records reach the card.
#![no_std]
#![no_main]

use core::fmt::Write;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use cortex_m_rt::entry;
use embassy_embedded_hal::SetConfig;
use embassy_executor::InterruptExecutor;
use embassy_nrf::gpio::{Level, Output, OutputDrive};
use embassy_nrf::interrupt::{self, InterruptExt, Priority};
use embassy_nrf::spim::{self, Frequency, Spim};
use embassy_nrf::{bind_interrupts, peripherals};
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use embassy_time::{Duration, Instant, Ticker, Timer};
use embedded_sdmmc::{Mode, TimeSource, Timestamp, VolumeIdx, VolumeManager};
use mmcq::block::{BlockDevice, BlockError};
use mmcq::board::{Home, Once};
use mmcq::card::{self, Options, bring_up_sd};
use mmcq::engine::{Config, DmaBuf, Error};
use mmcq::host::spi::{Spi, SpiConfig, SpiMemory};
use mmcq::task::{Idle, WaitQueue};
use mmcq_embassy::{Blocking, Buffer, Clock, CriticalSection, SpiMailbox, SpiPort, SpiRunner, supervise};
use static_cell::StaticCell;

bind_interrupts!(struct Irqs {
    SPIM3 => spim::InterruptHandler<peripherals::SPI3>;
});

/// Highest clock in hertz that the wires of a breadboard allow.
const FASTEST_HZ: u32 = 8_000_000;

/// Lock of the stack. A request that finds all slots in use waits for a slot, for two seconds at
/// most.
type Lock = WaitQueue<CriticalSection, 4>;
type Board = (Lock, Spi<SpiPort<'static, 'static>>);
type Stack = mmcq::task::Stack<Board, 8>;
type Runner = SpiRunner<'static, 'static, Spim<'static>, Output<'static>, fn(&mut Spim<'static>, u32)>;
type Disk = Blocking<'static, Board, 8>;
type Failed = embedded_sdmmc::Error<BlockError>;

static STACK: Home<Board, 8> = Home::new();
static MAILBOX: StaticCell<SpiMailbox<'static>> = StaticCell::new();
static BLOCK: Once<[u8; 512]> = Once::new([0; 512]);
static WIRE: Once<SpiMemory> = Once::new(SpiMemory::new());
static SCRATCH: Buffer<1> = Buffer::new();
static BOUNCE: Buffer<8> = Buffer::new();
static READS: Buffer<8> = Buffer::new();

static TASKS: InterruptExecutor = InterruptExecutor::new();
/// Records on their way to the card. There is room for 2.5 s, in which the card may be busy.
static RECORDS: Channel<CriticalSectionRawMutex, Record, 256> = Channel::new();
/// Number of records that found no room in [`RECORDS`] and were dropped.
static LOST: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy)]
struct Record {
    at_ms: u64,
    value: u32,
}

/// Handler of the interrupt in which the executor runs the tasks.
#[unsafe(no_mangle)]
extern "C" fn EGU1_SWI1() {
    // SAFETY: called by this interrupt alone.
    unsafe { TASKS.on_interrupt() }
}

#[entry]
fn main() -> ! {
    // A product would report the error. Here a debugger can show it.
    let _error = run();
    loop {
        cortex_m::asm::wfi();
    }
}

fn run() -> Result<(), Error> {
    let pins = embassy_nrf::init(Default::default());
    let mut led = Output::new(pins.P0_13, Level::High, OutputDrive::Standard);
    let bus_ = Spim::new(pins.SPI3, Irqs, pins.P1_15, pins.P1_14, pins.P1_13, spim::Config::default());
    let select = Output::new(pins.P1_12, Level::High, OutputDrive::Standard);

    let mailbox = MAILBOX.init(SpiMailbox::new(BLOCK.take().ok_or(Error::Full)?));
    let (port, runner) = mailbox.connect(bus_, select, set_clock as _).ok_or(Error::Full)?;
    let host = Spi::new(port, WIRE.take().ok_or(Error::Full)?, SpiConfig::new(FASTEST_HZ));
    let lock = Lock::new(CriticalSection, 2_000_000_000);
    let stack = mmcq::task::Stack::new(lock, Clock::<0>::TIMER, host, Config::DEFAULT);
    let stack = STACK.put(stack).ok_or(Error::Full)?;

    // The priority is below that of the interrupts of bus and timer, and above the main thread.
    interrupt::EGU1_SWI1.set_priority(Priority::P6);
    let spawner = TASKS.start(interrupt::EGU1_SWI1);
    spawner.spawn(bus(stack, runner).map_err(|_| Error::Full)?);
    spawner.spawn(deadlines(stack).map_err(|_| Error::Full)?);
    spawner.spawn(sampler().map_err(|_| Error::Full)?);

    let scratch = SCRATCH.take().ok_or(Error::Full)?;
    let (card, scratch) = stack.block_on(bring_up_sd(stack, scratch, Options::DEFAULT), sleep);
    spawner.spawn(supervisor(stack, scratch, card?).map_err(|_| Error::Full)?);
    spawner.spawn(reader(stack, READS.take().ok_or(Error::Full)?).map_err(|_| Error::Full)?);

    let mut disk = Blocking::whole(stack, BOUNCE.take().ok_or(Error::Full)?, sleep)?;
    loop {
        led.set_low();
        disk = log(stack, disk).0;
        led.set_high();
        // The log ends when the card is taken out, for example. A card that is inserted later is
        // mounted.
        stack.block_on(Timer::after_secs(1), sleep);
        let _no_card_yet = disk.rebind();
    }
}

/// Writes records to the log until a write fails. Returns the disk, and the result.
fn log(stack: &'static Stack, disk: Disk) -> (Disk, Result<(), Failed>) {
    let volumes: VolumeManager<_, _> = VolumeManager::new(disk, NoCalendar);
    let result = (|| {
        let volume = volumes.open_volume(VolumeIdx(0))?;
        let root = volume.open_root_dir()?;
        let file = root.open_file_in_dir("LOG.CSV", Mode::ReadWriteCreateOrAppend)?;
        let flushed = BlockDevice::new(stack);
        loop {
            // Records of a second. Each block of text is one write to the file.
            let mut text = Text::default();
            for _ in 0..100 {
                let record = stack.block_on(RECORDS.receive(), sleep);
                if text.left() < 40 {
                    file.write(text.bytes())?;
                    text = Text::default();
                }
                let lost = LOST.load(Relaxed);
                // The text has room for one more record.
                let _ = writeln!(text, "{},{},{lost}", record.at_ms, record.value);
            }
            file.write(text.bytes())?;
            // The directory is written first, and then the card's cache: both survive a power cut.
            file.flush()?;
            let durable = flushed.flush_blocking(sleep);
            durable.map_err(|error| Failed::DeviceError(BlockError { error, blocks_done: 0 }))?;
        }
    })();
    (volumes.free().0, result)
}

#[embassy_executor::task]
async fn bus(stack: &'static Stack, mut runner: Runner) {
    runner.run(stack).await;
}

#[embassy_executor::task]
async fn deadlines(stack: &'static Stack) {
    Clock::<0>::run(stack).await;
}

#[embassy_executor::task]
async fn supervisor(stack: &'static Stack, scratch: DmaBuf, card: card::Card) {
    supervise(stack, scratch, Options::DEFAULT, card, |_event| ()).await;
}

#[embassy_executor::task]
async fn sampler() {
    let mut every = Ticker::every(Duration::from_millis(10));
    loop {
        every.next().await;
        let at_ms = Instant::now().as_millis();
        // A product would read its sensor here.
        let record = Record { at_ms, value: at_ms as u32 ^ 0x5a };
        if RECORDS.try_send(record).is_err() {
            LOST.fetch_add(1, Relaxed);
        }
    }
}

/// Reads the first blocks of the card each second, as a display would that shows a picture.
#[embassy_executor::task]
async fn reader(stack: &'static Stack, mut buf: DmaBuf) {
    let mut device = BlockDevice::new(stack);
    loop {
        let result;
        (result, buf) = device.read(0, buf).await;
        if result.is_err() {
            device.rebind();
        }
        Timer::after_secs(1).await;
    }
}

/// Sets the fastest clock of the port that is not above `hz`.
fn set_clock(bus: &mut Spim<'static>, hz: u32) {
    let mut config = spim::Config::default();
    config.frequency = match hz {
        8_000_000.. => Frequency::M8,
        4_000_000.. => Frequency::M4,
        1_000_000.. => Frequency::M1,
        250_000.. => Frequency::K250,
        _ => Frequency::K125,
    };
    // The port supports every configuration.
    let _ = bus.set_config(&config);
}

/// Sleeps until an interrupt, unless the call may not sleep any more. An interrupt between this
/// check and `wfe` ends the `wfe` at once.
fn sleep(idle: &Idle) {
    if idle.may_sleep() {
        cortex_m::asm::wfe();
    }
}

/// A source of file times for a board that has no calendar: it always returns the same time.
struct NoCalendar;

impl TimeSource for NoCalendar {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp {
            year_since_1970: 56,
            zero_indexed_month: 0,
            zero_indexed_day: 0,
            hours: 0,
            minutes: 0,
            seconds: 0,
        }
    }
}

/// A block of text.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Text { bytes: [0; 512], len: 0 }
    }
}

impl Text {
    fn left(&self) -> usize {
        self.bytes.len() - self.len
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}
