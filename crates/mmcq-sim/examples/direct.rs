//! A card without a queue: one call at a time. `cargo run -p mmcq-sim --example direct`

use mmcq::board::NoLock;
use mmcq::card::Options;
use mmcq::direct::{AnyCard, DirectCard};
use mmcq::host::sdhci::{Sdhci, SdhciConfig, Table};
use mmcq::task::Timer;
use mmcq_sim::bench::{Host, Machine, buffer, now_ns};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::new("sdhc-16g-hs")?;
    let table = Box::leak(Box::new(Table::new()));
    let host = Sdhci::new(machine.registers(), machine.memory(), table, SdhciConfig::new())?;
    // The memory is for the card's registers during bring-up.
    let card: DirectCard<(NoLock, Host), AnyCard> =
        DirectCard::new(NoLock::new(), Timer::polled(now_ns), host, buffer(1));

    // On a board the closure sleeps by `wfi`.
    let calls = card.blocking(|_| machine.wait());
    let found = calls.bring_up(Options::DEFAULT)?;
    println!("{} blocks", found.sectors);

    let mut blocks = buffer(8);
    blocks.fill(0x5a);
    let (result, _) = calls.write(100, blocks);
    result?;
    calls.flush()?;
    let (result, blocks) = calls.read(100, buffer(8));
    result?;
    assert!(blocks.iter().all(|&byte| byte == 0x5a));
    println!("written and read back after {} us", now_ns() / 1000);
    Ok(())
}
