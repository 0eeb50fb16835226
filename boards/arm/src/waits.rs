//! Test of blocking calls that sleep by the instruction `wfi`, on QEMU's machine vexpress-a9. No
//! tick wakes them, so a lost wake-up makes the image hang.
//!
//! In the first round the handler serves interrupts, and may end a request between the call's check
//! and its sleep. In the second round interrupts are masked during the whole call: a pending
//! interrupt ends the sleep, and the call itself serves it. `tools/boards.sh` starts the image, and
//! stops it if it hangs.
#![no_std]
#![no_main]

#[path = "../../plan/arm.rs"]
mod arm;
#[path = "../../plan/armv7.rs"]
mod armv7;
mod board;
#[path = "../../plan/gic.rs"]
mod gic;
#[path = "../../plan/pl011.rs"]
mod pl011;
#[expect(dead_code, reason = "this image judges nothing but sleep")]
#[path = "../../plan/mod.rs"]
mod plan;
mod start;

use board::{interrupts_off, now_ns, say};
use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options};
use mmcq::engine::{BLOCK_BYTES, Config, DmaBuf, Error};
use mmcq::host::pl181::{self, Pl181};
use mmcq::host::regs::Mmio;
use mmcq::task::Idle;
use plan::alone::InterruptsOff;
use plan::{firmware, pattern};

/// Type of the stack in this image.
pub type Stack = mmcq::task::Stack<(InterruptsOff, Pl181<Mmio>), 8>;

const READS: u64 = 200;
const BLOCK: usize = BLOCK_BYTES as usize;
/// Block that is written; it lies behind all blocks that are read, which hold what the image of the
/// card was made with.
const WRITTEN_LBA: u64 = 1000;

fn stack() -> Option<&'static Stack> {
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(board::MCI))?;
    // SAFETY: the address is the controller's register page, which no other code uses: this
    // function is called once.
    let regs = unsafe { Mmio::new(base) };
    let host = Pl181::new(regs, pl181::Pl181Config::new(board::MCI_HZ, board::MCI_HZ)).ok()?;
    firmware::place(Stack::new(InterruptsOff, firmware::TIMER, host, Config::DEFAULT)).ok()
}

/// How a blocking call sleeps; counts the sleeps.
struct Sleep {
    masked: bool,
    count: Cell<u32>,
}

impl Sleep {
    fn idle(&self, idle: &Idle) {
        interrupts_off(|| {
            // While interrupts are masked, the call need not ask whether it may sleep.
            if self.masked || idle.may_sleep() {
                self.count.set(self.count.get() + 1);
                arm::wait_for_interrupt();
            }
        });
        if self.masked {
            // Otherwise the alarm stays pending, and ends every later sleep at once.
            board::silence_alarm();
        }
    }
}

fn interrupts() -> [u32; 2] {
    firmware::INTERRUPTS.each_ref().map(|counter| counter.load(Relaxed))
}

/// Writes a block, reads it back, and then measures many reads. Returns whether each block that was
/// read has its content.
fn round(stack: &'static Stack, name: &str, sleep: &Sleep) -> Result<bool, Error> {
    let disk = BlockDevice::new(stack);
    let idle = |idle: &Idle| sleep.idle(idle);
    let mut written = [0; BLOCK];
    for (byte, number) in written.iter_mut().zip(0u32..) {
        *byte = (number * 7 + u32::from(sleep.masked)) as u8;
    }
    disk.write_blocking(WRITTEN_LBA, &written, idle)?;
    disk.flush_blocking(idle)?;
    let mut block = [0; BLOCK];
    disk.read_blocking(WRITTEN_LBA, &mut block, idle)?;
    let mut same = block == written;

    sleep.count.set(0);
    let ([irqs, alarms], began_ns) = (interrupts(), now_ns());
    let mut worst_ns = 0;
    for lba in 0..READS {
        let began_ns = now_ns();
        disk.read_blocking(lba, &mut block, idle)?;
        worst_ns = worst_ns.max(now_ns() - began_ns);
        same &= pattern::holds(&block, lba, 0);
    }
    let ([irqs_now, alarms_now], us) = (interrupts(), (now_ns() - began_ns) / 1_000);
    say(format_args!(
        "{name}: {READS} reads in {us} us, the longest {} us; {} interrupts, {} alarms, {} wfi",
        worst_ns / 1_000,
        irqs_now - irqs,
        alarms_now - alarms,
        sleep.count.get()
    ));
    Ok(same)
}

fn waits(stack: &'static Stack) -> Result<bool, Error> {
    let served = Sleep { masked: false, count: Cell::new(0) };
    let masked = Sleep { masked: true, count: Cell::new(0) };
    let Some(memory) = firmware::MEMORY.take() else { return Ok(false) };
    let scratch = DmaBuf::from_static(&mut memory.scratch);
    let bring_up = card::bring_up_sd(stack, scratch, Options::DEFAULT);
    let (card, scratch) = stack.block_on(bring_up, |idle| served.idle(idle));
    firmware::introduce(&card?);
    let well = round(stack, "served", &served)?;
    // Does the same with interrupts masked.
    interrupts_off(|| {
        let bring_up = card::bring_up_sd(stack, scratch, Options::DEFAULT);
        stack.block_on(bring_up, |idle| masked.idle(idle)).0?;
        Ok(round(stack, "masked", &masked)? && well)
    })
}

/// Main function of the image.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    match stack().map(waits) {
        Some(Ok(true)) => {
            say(format_args!("result: all is well"));
            board::exit(0)
        }
        Some(Ok(false)) => say(format_args!("result: the card holds something else")),
        Some(Err(error)) => say(format_args!("result: {error}")),
        None => say(format_args!("no stack")),
    }
    board::exit(1)
}
