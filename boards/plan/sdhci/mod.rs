//! The image for an SDHCI controller on PCI: the plan with ADMA2, and then the number of
//! instructions for a request.

mod boot_areas;
pub mod counted;
mod guest;
#[path = "../identity.rs"]
mod identity;
mod kept;
mod path;
mod pci;
mod whole;

use crate::board::{self, say};
use crate::lane;
use crate::plan::alone::{InterruptsOff, Once};
use crate::plan::judge::{BUFFER_BYTES, Judge};
use crate::plan::{firmware, pattern};
use counted::Counted;
pub use identity::Identity;
use mmcq::card::{self, Family, Options};
use mmcq::engine::{Config, DmaBuf, Error};
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{self, Sdhci, SdhciQuirks, Table};

/// PCI vendor and device number of QEMU's controller.
const QEMU_SDHCI: (u16, u16) = (0x1b36, 0x0007);

/// Type of the controller's driver.
pub type Controller = Sdhci<Counted<Mmio>, Identity, 64>;
/// Type of the stack in this image.
pub type Stack = mmcq::task::Stack<(InterruptsOff, lane::Host, lane::Profile), 32>;

/// A value aligned as controllers need it.
#[repr(C, align(4096))]
struct Pages<T>(T);

static MEASURED: Once<Pages<[[u8; 4096]; 32]>> = Once::new(Pages([[0; _]; _]));
static TABLE: Once<Table<64>> = Once::new(Table::new());

/// Returns what `mmcq guest --image` wants this image to do; `None` if another program has started
/// the image.
pub fn guest_does() -> Option<&'static str> {
    board::command_line().trim().strip_prefix("guest ")
}

fn stack() -> Result<&'static Stack, &'static str> {
    let device = pci::sd_host()?;
    let (base, irq) = pci::enable(device)?;
    let (vendor, id) = (device.vendor, device.device);
    say(format_args!("controller: PCI {vendor:04x}:{id:04x}, registers at {base:#x}, interrupt {irq}"));
    // SAFETY: the address is the controller's register page, which no other code uses: `TABLE` is
    // taken once.
    let regs = Counted::new(unsafe { Mmio::at_address(lane::registers(base)) });
    let table = TABLE.take().ok_or("taken")?;
    let mut config = sdhci::SdhciConfig::new();
    // In a machine of `mmcq guest` the registers are those of the simulated controller, which has
    // none of these quirks.
    if (vendor, id) == QEMU_SDHCI && guest_does().is_none() {
        config.quirks = SdhciQuirks::QEMU;
    }
    let host = Sdhci::new(regs, Identity, table, config).map_err(|error| {
        say(format_args!("{error}"));
        "no controller"
    })?;
    let host = lane::host(host).ok_or("taken")?;
    let stack = Stack::with_policy(InterruptsOff, firmware::TIMER, host, Config::DEFAULT, lane::PROFILE);
    let stack = firmware::place(stack)?;
    board::listen(irq);
    Ok(stack)
}

async fn judge(stack: &'static Stack) -> Result<bool, Error> {
    let (Some(memory), Some(Pages(measured))) = (firmware::MEMORY.take(), MEASURED.take()) else {
        return Ok(false);
    };
    let mut buffers = memory.buffers.each_mut().map(|buffer| DmaBuf::from_static(buffer));

    let scratch = DmaBuf::from_static(&mut memory.scratch);
    let (card, scratch) = card::bring_up(stack, scratch, Options::DEFAULT).await;
    let card = card?;
    firmware::introduce(&card);
    let scratch = lane::begin(stack, &card, scratch).await?;
    if let Some(words) = guest_does() {
        let buffers = measured.each_mut().map(|buffer| DmaBuf::from_static(buffer));
        return guest::run(stack, words, card, scratch, buffers).await;
    }
    let bounce = &mut memory.bounce[..BUFFER_BYTES];
    let mut judge = Judge::new(card.params.sectors, &mut memory.writers);
    match board::command_line().trim() {
        "" => {}
        "sum" => return whole::sum(stack, buffers, card.params.sectors).await,
        "copy" => return whole::copy(stack, buffers, card.params.sectors).await,
        "keep" => {
            let disturb = async || kept::disturb(stack).await;
            let plan = judge.whole_plan(stack, &mut buffers, bounce, &mut memory.borrowed, disturb);
            kept::beside(stack, card, scratch, plan).await?;
            firmware::report(stack);
            return Ok(kept::report(stack) && judge.wrong == 0);
        }
        "path" => {
            let buffers = measured.each_mut().map(|buffer| DmaBuf::from_static(buffer));
            path::measure(stack, buffers, 0).await?;
            return Ok(true);
        }
        other => {
            say(format_args!("command line: {other:?}, expected nothing, sum, copy, keep, path or guest"));
            return Ok(false);
        }
    }
    let emmc = matches!(card.family, Family::Emmc(_));
    let areas_hold = !emmc || boot_areas::copy(stack, &card, &mut buffers).await?;
    judge.whole_plan(stack, &mut buffers, bounce, &mut memory.borrowed, async || Ok(())).await?;
    firmware::report(stack);
    let buffers = measured.each_mut().map(|buffer| DmaBuf::from_static(buffer));
    // The blocks are between the windows, where the card holds zeros before and after.
    let base = pattern::window_start(pattern::WINDOWS - 1, card.params.sectors);
    path::measure(stack, buffers, base - u64::from(pattern::WINDOW_BLOCKS)).await?;
    Ok(areas_hold && judge.wrong == 0)
}

/// Main function of the image.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    firmware::main(stack(), judge)
}
