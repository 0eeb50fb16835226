//! The buffers and the count of register accesses with which `plan/sdhci/path.rs` measures
//! requests.

use crate::controller::Controller;
use crate::plan::alone::Once;
use mmcq::engine::DmaBuf;

#[repr(C, align(4096))]
struct Pages([[u8; 4096]; 32]);

static PAGES: Once<Pages> = Once::new(Pages([[0; _]; _]));

/// Returns a page for each request; at a second call the buffers have no memory.
pub fn buffers() -> [DmaBuf; 32] {
    match PAGES.take() {
        Some(Pages(pages)) => pages.each_mut().map(|page| DmaBuf::from_static(page)),
        None => [const { DmaBuf::EMPTY }; 32],
    }
}

/// Returns the number of reads and writes of the controller's registers so far.
pub fn accesses(host: &Controller) -> u32 {
    // SAFETY: no register is touched.
    unsafe { host.regs() }.accesses()
}
