//! Reset code and vector table of a Cortex-M3.

use crate::board::{self, ALARM_IRQ, SSI_IRQ};
use crate::plan::firmware::{Source, serve};

core::arch::global_asm!(include_str!("../../plan/reset-cortex-m.s"));

// SAFETY: signatures of the assembly above, and the linker script's symbol.
unsafe extern "C" {
    fn start();
    fn stack_top();
}

/// Ends the program after an unexpected exception.
extern "C" fn fault() {
    board::say(format_args!("an exception that was not expected"));
    board::exit(3)
}

extern "C" fn systick() {
    board::wrap();
}

extern "C" fn alarm() {
    board::silence_alarm();
    serve(Source::Alarm);
}

extern "C" fn ssi() {
    serve(Source::Card);
}

/// An entry of the vector table. Calling it is unsafe, and only the core calls it.
type Vector = Option<unsafe extern "C" fn()>;

#[used]
#[unsafe(link_section = ".vectors")]
static VECTORS: [Vector; 16 + 44] = {
    let mut table: [Vector; 16 + 44] = [Some(fault); 16 + 44];
    table[0] = Some(stack_top);
    table[1] = Some(start);
    table[15] = Some(systick);
    table[16 + SSI_IRQ as usize] = Some(ssi);
    table[16 + ALARM_IRQ as usize] = Some(alarm);
    table
};

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    board::say(format_args!("{info}"));
    board::exit(2)
}
