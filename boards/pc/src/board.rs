//! QEMU's machine q35: one core with its local APIC, the I/O APIC, the time stamp counter, and PCI
//! by I/O ports.
//!
//! QEMU must be started with `-icount shift=0`: then the time stamp counter counts instructions,
//! one per nanosecond. CPU and controllers use the same addresses for memory. The engine's lock
//! switches interrupts off.

use crate::plan::alone::Once;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::fmt::{self, Write};

const LOCAL_APIC: usize = 0xfee0_0000;
const APIC_END: usize = LOCAL_APIC + 0xb0;
const APIC_SPURIOUS: usize = LOCAL_APIC + 0xf0;
const APIC_TIMER: usize = LOCAL_APIC + 0x320;
const APIC_TIMER_COUNT: usize = LOCAL_APIC + 0x380;
const APIC_TIMER_DIVIDE: usize = LOCAL_APIC + 0x3e0;
const IO_APIC_SELECT: usize = 0xfec0_0000;
const IO_APIC_WINDOW: usize = IO_APIC_SELECT + 0x10;
/// I/O APIC entry for a PCI interrupt: level-triggered, active low.
const IO_APIC_PCI: u32 = 1 << 15 | 1 << 13;
const VECTOR_CARD: u8 = 0x40;
const VECTOR_ALARM: u8 = 0x41;
const VECTOR_SPURIOUS: u8 = 0xff;
/// I/O ports of QEMU's devices `isa-debugcon` and `isa-debug-exit`.
const CONSOLE: u16 = 0xe9;
const EXIT: u16 = 0xf4;
/// Address for a device's registers if the device has none yet: in q35's address range for PCI.
pub const PCI_MEMORY: u32 = 0xe000_0000;

fn write(address: usize, value: u32) {
    // SAFETY: the address is a register of this machine from the list above.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}

fn out8(port: u16, value: u8) {
    // SAFETY: one of QEMU's two debugging ports.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) };
}

/// Calls `f` with interrupts off, and restores the interrupt flag.
#[inline]
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: u64;
    // SAFETY: reads the flags and clears the interrupt flag; memory accesses do not move across,
    // since the asm may touch memory.
    unsafe { asm!("pushfq", "pop {0}", "cli", out(reg) before) };
    let result = f();
    if before & 0x200 != 0 {
        // SAFETY: sets the interrupt flag again.
        unsafe { asm!("sti", options(nostack)) };
    }
    result
}

/// Task state segment: only its stack for interrupts is used.
#[repr(C, align(16))]
struct TaskState([u32; 26]);

#[repr(C, align(16))]
struct Gates([u64; 512]);

static TASK_STATE: Once<TaskState> = Once::new(TaskState([0; _]));
static GATES: Once<Gates> = Once::new(Gates([0; _]));

// SAFETY: `start.rs` and the linker script define these, with these types.
unsafe extern "C" {
    static tss_low: UnsafeCell<[u64; 2]>;
    static irq_stack_top: u8;
    static start_info: u64;
    fn gate_card();
    fn gate_alarm();
    fn gate_other();
    fn gate_fault();
}

/// Sets up the core's interrupt gates and its local APIC.
pub fn start() {
    let (Some(state), Some(gates)) = (TASK_STATE.take(), GATES.take()) else { return };
    let stack = (&raw const irq_stack_top) as u64;
    // The first entry of the interrupt stack table.
    (state.0[9], state.0[10]) = (stack as u32, (stack >> 32) as u32);
    let base = core::ptr::from_mut(state) as u64;
    let low = (size_of::<TaskState>() as u64 - 1)
        | (base & 0xff_ffff) << 16
        | 0x89 << 40
        | (base >> 24 & 0xff) << 56;
    // SAFETY: the descriptor is in `start.rs`, and has not been loaded yet.
    unsafe { *tss_low.get() = [low, base >> 32] };
    let handler = |vector: u8| match vector {
        VECTOR_CARD => gate_card as *const () as u64,
        VECTOR_ALARM => gate_alarm as *const () as u64,
        0..32 => gate_fault as *const () as u64,
        _ => gate_other as *const () as u64,
    };
    for (vector, gate) in (0..=u8::MAX).zip(gates.0.chunks_exact_mut(2)) {
        let at = handler(vector);
        // An interrupt gate that uses the first interrupt stack.
        gate[0] = (at & 0xffff) | 8 << 16 | 1 << 32 | 0x8e << 40 | (at >> 16 & 0xffff) << 48;
        gate[1] = at >> 32;
    }
    let pointer = [(size_of::<Gates>() as u64 - 1) << 48, core::ptr::from_mut(gates) as u64];
    // SAFETY: both descriptors exist for ever; the limit lies directly before the address.
    unsafe {
        asm!("ltr ax", in("ax") 24u16, options(nostack));
        asm!("lidt [{0} + 6]", in(reg) &pointer, options(nostack));
    }
    write(APIC_SPURIOUS, 0x100 | u32::from(VECTOR_SPURIOUS));
    // The timer counts nanoseconds, one shot.
    write(APIC_TIMER_DIVIDE, 0xb);
    write(APIC_TIMER, VECTOR_ALARM.into());
}

/// Returns the text of QEMU's option `-append`.
pub fn command_line() -> &'static str {
    const COMMAND_LINE: usize = 24;
    const BYTES_MAX: usize = 256;
    // SAFETY: `start.rs` writes the address once. A PVH loader passes a structure there, which has
    // the address of a C string. Memory below 4 GiB is mapped at its own addresses, and nothing
    // writes to the two.
    let text = unsafe {
        let info = core::ptr::without_provenance::<u8>(start_info as usize);
        let at = info.add(COMMAND_LINE).cast::<u64>().read_unaligned() as usize;
        if at == 0 {
            return "";
        }
        let text = core::slice::from_raw_parts(core::ptr::without_provenance::<u8>(at), BYTES_MAX);
        text.split(|&byte| byte == 0).next()
    };
    core::str::from_utf8(text.unwrap_or(&[])).unwrap_or("")
}

/// Enables this pin of the I/O APIC, and interrupts in the core.
pub fn listen(pin: u32) {
    for (register, value) in [(0x11 + 2 * pin, 0), (0x10 + 2 * pin, IO_APIC_PCI | u32::from(VECTOR_CARD))] {
        write(IO_APIC_SELECT, register);
        write(IO_APIC_WINDOW, value);
    }
    // SAFETY: the gates are set up, and the handler serves both interrupts.
    unsafe { asm!("sti", options(nostack)) };
}

/// Signals the end of an interrupt to the local APIC.
#[inline]
pub fn served() {
    write(APIC_END, 0);
}

/// Sleeps until `ready` returns true; an interrupt makes it true.
pub fn sleep_until(mut ready: impl FnMut() -> bool) {
    loop {
        // SAFETY: between `sti` and `hlt` the core takes no interrupt, so none is missed before the
        // sleep.
        unsafe { asm!("cli", options(nostack)) };
        let go_on = ready();
        if go_on {
            // SAFETY: as above.
            unsafe { asm!("sti", options(nostack)) };
            return;
        }
        // SAFETY: as above.
        unsafe { asm!("sti", "hlt", options(nostack)) };
    }
}

/// Returns the nanoseconds since the machine started: instructions, and time in which the core
/// slept.
#[inline]
pub fn now_ns() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Sets the time at which the alarm interrupts; `None` switches the alarm off.
#[inline]
pub fn set_alarm(at_ns: Option<u64>) {
    // A count of 0 stops the timer.
    let count = at_ns.map_or(0, |at_ns| at_ns.saturating_sub(now_ns()).min(u32::MAX.into()) as u32 | 1);
    write(APIC_TIMER_COUNT, count);
}

fn pci(device: u32, offset: u32) {
    // SAFETY: selects a register of PCI's configuration space.
    unsafe {
        asm!("out dx, eax", in("dx") 0xcf8u16, in("eax") 0x8000_0000 | device << 11 | offset, options(nostack))
    };
}

/// Reads a configuration register of a device on PCI bus 0.
pub fn pci_read(device: u32, offset: u32) -> u32 {
    pci(device, offset);
    let value;
    // SAFETY: reads the selected register.
    unsafe { asm!("in eax, dx", in("dx") 0xcfcu16, out("eax") value, options(nostack)) };
    value
}

/// Writes a configuration register of a device on PCI bus 0.
pub fn pci_write(device: u32, offset: u32, value: u32) {
    pci(device, offset);
    // SAFETY: writes the selected register of the only device that this program drives.
    unsafe { asm!("out dx, eax", in("dx") 0xcfcu16, in("eax") value, options(nostack)) };
}

/// Returns the pin of the I/O APIC to which a device's pin (0 is A) is connected: PCI slots below
/// 25 share the last four pins, 20 to 23.
pub fn pci_irq(device: u32, pin: u32) -> u32 {
    20 + (device + pin) % 4
}

/// Orders memory accesses: earlier writes happen before the call, later reads after it. The core
/// does that by itself; the call keeps the compiler from moving accesses across it.
#[inline]
pub fn barrier() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| out8(CONSOLE, byte));
        Ok(())
    }
}

/// Writes one line to the console.
pub fn say(line: fmt::Arguments<'_>) {
    // The console cannot fail.
    let _ = Console.write_fmt(format_args!("{line}\n"));
}

/// Ends QEMU. Its exit status is 33 for `status` 0, and 2 more for each further number.
pub fn exit(status: u32) -> ! {
    loop {
        out8(EXIT, 0x10 + status as u8);
    }
}
