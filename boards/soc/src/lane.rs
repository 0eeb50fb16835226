//! What `plan/sdhci/path.rs` measures with.

use crate::controller::Controller;
use crate::plan::alone::Once;
use mmcq::engine::DmaBuf;

#[repr(C, align(4096))]
struct Pages([[u8; 4096]; 32]);

static PAGES: Once<Pages> = Once::new(Pages([[0; _]; _]));

/// A page for each request; without memory the second time.
pub fn buffers() -> [DmaBuf; 32] {
    match PAGES.take() {
        Some(Pages(pages)) => pages.each_mut().map(|page| DmaBuf::from_static(page)),
        None => [const { DmaBuf::EMPTY }; 32],
    }
}

/// Reads and writes of the controller's registers so far.
pub fn accesses(host: &Controller) -> u32 {
    // SAFETY: no register is touched.
    unsafe { host.regs() }.accesses()
}
