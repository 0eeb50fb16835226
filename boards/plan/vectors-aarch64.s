// The vectors of a 64-bit Arm core in exception level 1. Needs frame-aarch64.s.
.section .text
.macro entry to
.balign 128
b \to
.endm
.balign 2048
vectors:
entry fault; entry fault; entry fault; entry fault
// From this level, on this stack: synchronous, IRQ, FIQ, error.
entry fault; entry irq; entry fault; entry fault
entry fault; entry fault; entry fault; entry fault
entry fault; entry fault; entry fault; entry fault
// All that compiled code may change: the upper halves of q8 to q15 too.
irq:
save_frame
bl interrupt
restore_frame
eret
fault:
mrs x0, esr_el1
mrs x1, elr_el1
mrs x2, far_el1
ldr x3, =stack_top
mov sp, x3
bl exception
4: b 4b
.pool
