// Reset of a Cortex-M: memory as the linker wants it, then `main`.
    .section .start, "ax", %progbits
    .global start
    .thumb_func
start:
    ldr r0, =bss_start
    ldr r1, =bss_end
    movs r2, #0
    1: cmp r0, r1
    bhs 2f
    str r2, [r0]
    adds r0, #4
    b 1b
    2: ldr r0, =data_start
    ldr r1, =data_end
    ldr r2, =data_load
    3: cmp r0, r1
    bhs 4f
    ldr r3, [r2]
    str r3, [r0]
    adds r0, #4
    adds r2, #4
    b 3b
    4: bl main
    5: b 5b
    .pool
