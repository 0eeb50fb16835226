//! A board support made of ready parts, here on a simulated machine. `cargo run -p mmcq-sim
//! --example first_board`

use mmcq::block::{Block, BlockDevice};
use mmcq::board::{Buffer, NoLock, Once};
use mmcq::card::{Options, bring_up};
use mmcq::engine::Config;
use mmcq::host::sdhci::{self, Sdhci, Table};
use mmcq::task::{Stack, Timer};
use mmcq_sim::bench::{Machine, now_ns};

static TABLE: Once<Table<33>> = Once::new(Table::new());
static SCRATCH: Buffer<1> = Buffer::new();

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // On a board the registers are `Mmio::at_address(0x4500_0000)`, with the controller's address,
    // and the memory is `Coherent::new()`.
    let machine = Machine::new("sdhc-16g-hs")?;
    let (registers, memory) = (machine.registers(), machine.memory());

    let table = TABLE.take().ok_or("taken before")?;
    let host = Sdhci::new(registers, memory, table, sdhci::SdhciConfig::new())?;
    let stack: Stack<(NoLock, _), 4> =
        Stack::new(NoLock::new(), Timer::polled(now_ns), host, Config::DEFAULT);

    // No interrupt handler is needed: blocking calls poll the controller by themselves.
    let idle = |_: &_| machine.wait();
    let scratch = SCRATCH.take().ok_or("taken before")?;
    stack.block_on(bring_up(&stack, scratch, Options::DEFAULT), idle).0?;
    let disk = BlockDevice::new(&stack);
    let mut block = Block([0xa5; 512]);
    disk.write_blocking(7, &block.0, idle)?;
    block.0.fill(0);
    disk.read_blocking(7, &mut block.0, idle)?;
    assert_eq!(block.0, [0xa5; 512]);
    println!("a block after {} us", now_ns() / 1000);
    Ok(())
}
