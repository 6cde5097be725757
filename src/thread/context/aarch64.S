/* Switching between stacks: see context.h. The registers that the ABI preserves across a call are
 * saved on the stack that is left:
 *
 *     sp -> x29 x30 | x19 x20 | x21 x22 | x23 x24 | x25 x26 | x27 x28
 *           | d8 d9 | d10 d11 | d12 d13 | d14 d15 | fpcr, -
 *
 * The layout is the same on every suspended stack, so the CFI is correct before and after the stack
 * pointer changes. The last instruction is an indirect jump, which the processor predicts by its
 * address: a return would be mispredicted each time. */
#define GS_THREADS_ON_WORKER_STACK 2 /* as in sync.h */

    .text

    .macro save_context
    stp x29, x30, [sp, #-176]!
    .cfi_def_cfa_offset 176
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp x19, x20, [sp, #16]
    .cfi_rel_offset x19, 16
    .cfi_rel_offset x20, 24
    stp x21, x22, [sp, #32]
    .cfi_rel_offset x21, 32
    .cfi_rel_offset x22, 40
    stp x23, x24, [sp, #48]
    .cfi_rel_offset x23, 48
    .cfi_rel_offset x24, 56
    stp x25, x26, [sp, #64]
    .cfi_rel_offset x25, 64
    .cfi_rel_offset x26, 72
    stp x27, x28, [sp, #80]
    .cfi_rel_offset x27, 80
    .cfi_rel_offset x28, 88
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mrs x9, fpcr
    str x9, [sp, #160]
    mov x10, sp
    str x10, [x0]
    mov sp, x1
    .endm

    /* Writing fpcr is slow, and it hardly ever differs. */
    .macro load_context
    ldr x10, [sp, #160]
    mrs x9, fpcr
    cmp x9, x10
    b.eq 1f
    msr fpcr, x10
1:
    ldp d14, d15, [sp, #144]
    ldp d12, d13, [sp, #128]
    ldp d10, d11, [sp, #112]
    ldp d8, d9, [sp, #96]
    ldp x27, x28, [sp, #80]
    ldp x25, x26, [sp, #64]
    ldp x23, x24, [sp, #48]
    ldp x21, x22, [sp, #32]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #176
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    .cfi_restore x19
    .cfi_restore x20
    .cfi_restore x21
    .cfi_restore x22
    .cfi_restore x23
    .cfi_restore x24
    .cfi_restore x25
    .cfi_restore x26
    .cfi_restore x27
    .cfi_restore x28
    br x30
    .endm

/* int gs_context_switch(void **ret_sp, void *to_sp, int result) */
    .globl gs_context_switch
    .hidden gs_context_switch
    .type gs_context_switch, %function
    .p2align 5
gs_context_switch:
    .cfi_startproc
    save_context
    mov w0, w2
    load_context
    .cfi_endproc
    .size gs_context_switch, . - gs_context_switch

/* int gs_context_switch_then(void **ret_sp, void *to_sp, int result, void (*then)(void *), void
 * *argument) */
    .globl gs_context_switch_then
    .hidden gs_context_switch_then
    .type gs_context_switch_then, %function
    .p2align 5
gs_context_switch_then:
    .cfi_startproc
    save_context
    mov w19, w2
    mov x0, x4
    blr x3
    mov w0, w19
    load_context
    .cfi_endproc
    .size gs_context_switch_then, . - gs_context_switch_then

/* void *gs_context_call(void *(*fn)(void *), void *argument, void *sp, bool *in_use, unsigned
 * *mode): a signal frame for the unwinder, as it need not be below its caller's frame. */
    .globl gs_context_call
    .hidden gs_context_call
    .type gs_context_call, %function
    .p2align 5
gs_context_call:
    .cfi_startproc
    .cfi_signal_frame
    stp x29, x30, [sp, #-32]!
    .cfi_adjust_cfa_offset 32
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp x19, x20, [sp, #16]
    .cfi_rel_offset x19, 16
    .cfi_rel_offset x20, 24
    mov x29, sp
    .cfi_def_cfa_register x29
    mov x19, x3
    mov x20, x4
    mov x9, x0
    mov x0, x1
    mov sp, x2
    blr x9
    strb wzr, [x19]
    ldr w9, [x20]
    and w9, w9, #~GS_THREADS_ON_WORKER_STACK
    str w9, [x20]
    mov sp, x29
    .cfi_def_cfa_register sp
    ldp x19, x20, [sp, #16]
    .cfi_restore x19
    .cfi_restore x20
    ldp x29, x30, [sp], #32
    .cfi_adjust_cfa_offset -32
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size gs_context_call, . - gs_context_call

/* void gs_context_call_for_unwind(void (*fn)(void *), void *argument, const void *sp): the CFI says
 * that fn was called by the stack at sp. */
    .globl gs_context_call_for_unwind
    .hidden gs_context_call_for_unwind
    .type gs_context_call_for_unwind, %function
    .p2align 4
gs_context_call_for_unwind:
    .cfi_startproc
    stp x29, x30, [sp, #-32]!
    .cfi_adjust_cfa_offset 32
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    str x19, [sp, #16]
    .cfi_rel_offset x19, 16
    mov x19, x2
    mov x9, x0
    mov x0, x1
    .cfi_remember_state
    .cfi_def_cfa x19, 176
    .cfi_offset x29, -176
    .cfi_offset x30, -168
    .cfi_offset x19, -160
    .cfi_offset x20, -152
    .cfi_offset x21, -144
    .cfi_offset x22, -136
    .cfi_offset x23, -128
    .cfi_offset x24, -120
    .cfi_offset x25, -112
    .cfi_offset x26, -104
    .cfi_offset x27, -96
    .cfi_offset x28, -88
    blr x9
    .cfi_restore_state
    ldr x19, [sp, #16]
    .cfi_restore x19
    ldp x29, x30, [sp], #32
    .cfi_adjust_cfa_offset -32
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size gs_context_call_for_unwind, . - gs_context_call_for_unwind

/* The first frame of a new stack: calls x19 with x20, which does not return, and keeps x21. */
    .globl gs_context_start
    .hidden gs_context_start
    .type gs_context_start, %function
    .p2align 4
gs_context_start:
    .cfi_startproc
    .cfi_undefined x30
    stp xzr, x21, [sp, #-16]!
    .cfi_adjust_cfa_offset 16
    mov x29, #0
    mov x30, #0
    mov x0, x20
    blr x19
    brk #1
    .cfi_endproc
    .size gs_context_start, . - gs_context_start
    .section .note.GNU-stack, "", %progbits
