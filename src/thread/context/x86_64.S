/* Switching between stacks: see context.h. The registers that the ABI preserves across a call are
 * saved on the stack that is left:
 *
 *     sp -> mxcsr, x87 control word | r15 | r14 | r13 | r12 | rbx | rbp | return address
 *
 * The layout is the same on every suspended stack, so the CFI is correct before and after the stack
 * pointer changes. The last instruction is an indirect jump, which the processor predicts by its
 * address: a return would be mispredicted each time. It leads to an instruction after a call, which
 * has no mark for IBT, and is not tracked for that reason. */
#define GS_THREADS_ON_WORKER_STACK 2 /* as in sync.h */

    .text

    .macro save register
    pushq \register
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset \register, 0
    .endm

    .macro restore register
    popq \register
    .cfi_adjust_cfa_offset -8
    .cfi_restore \register
    .endm

    /* The CFI of a suspended stack whose stack pointer is in the register. */
    .macro suspended_at register
    .cfi_def_cfa \register, 64
    .cfi_offset %rbp, -16
    .cfi_offset %rbx, -24
    .cfi_offset %r12, -32
    .cfi_offset %r13, -40
    .cfi_offset %r14, -48
    .cfi_offset %r15, -56
    .endm

    .macro save_context
    endbr64
    save %rbp
    save %rbx
    save %r12
    save %r13
    save %r14
    save %r15
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movzwl 4(%rsp), %r11d
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsi)
    cmpw 4(%rsi), %r11w
    jne 2f
1:
    .endm

    /* Out of line: loading the x87 control word is slow, and it rarely differs. To compare mxcsr
     * would be slower than to load it: what stmxcsr has stored cannot be read back at once. */
    .macro load_control
2:
    fldcw 4(%rsp)
    jmp 1b
    .endm

    .macro load_registers
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    restore %r15
    restore %r14
    restore %r13
    restore %r12
    restore %rbx
    restore %rbp
    .endm

    .macro load_context
    load_registers
    popq %rdx
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rdx
    notrack jmp *%rdx
    .endm

/* int gs_context_switch(void **ret_sp, void *to_sp, int result) */
    .globl gs_context_switch
    .hidden gs_context_switch
    .type gs_context_switch, @function
    .p2align 5
gs_context_switch:
    .cfi_startproc
    save_context
    .cfi_remember_state
    movl %edx, %eax
    load_context
    .cfi_restore_state
    load_control
    .cfi_endproc
    .size gs_context_switch, . - gs_context_switch

/* int gs_context_switch_then(void **ret_sp, void *to_sp, int result, void (*then)(void *), void
 * *argument) */
    .globl gs_context_switch_then
    .hidden gs_context_switch_then
    .type gs_context_switch_then, @function
    .p2align 5
gs_context_switch_then:
    .cfi_startproc
    save_context
    .cfi_remember_state
    movl %edx, %ebx
    movq %r8, %rdi
    callq *%rcx
    movl %ebx, %eax
    load_context
    .cfi_restore_state
    load_control
    .cfi_endproc
    .size gs_context_switch_then, . - gs_context_switch_then

/* gs_context_leave(void *to_sp in rdi, int result in esi): jumped to, from the end of a thread. The
 * CFI is that of the stack at to_sp. It ends in a return: if that stack was left right for this
 * thread, all calls in between have returned or were jumps (gs_context_start, context_leave), so the
 * processor expects just this return; and those of the resumed thread after it. */
    .globl gs_context_leave
    .hidden gs_context_leave
    .type gs_context_leave, @function
    .p2align 5
gs_context_leave:
    .cfi_startproc
    suspended_at %rdi
    endbr64
    fnstcw -8(%rsp)
    movzwl -8(%rsp), %r11d
    movl %esi, %eax
    movq %rdi, %rsp
    .cfi_def_cfa_register %rsp
    ldmxcsr (%rsp)
    cmpw 4(%rsp), %r11w
    jne 2f
1:
    .cfi_remember_state
    load_registers
    ret
    .cfi_restore_state
    load_control
    .cfi_endproc
    .size gs_context_leave, . - gs_context_leave

/* void *gs_context_call(void *(*fn)(void *), void *argument, void *sp, bool *in_use, unsigned
 * *mode): a signal frame for the unwinder, as it need not be below its caller's frame. */
    .globl gs_context_call
    .hidden gs_context_call
    .type gs_context_call, @function
    .p2align 5
gs_context_call:
    .cfi_startproc
    .cfi_signal_frame
    endbr64
    save %rbp
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %rbx
    .cfi_offset %rbx, -24
    pushq %r12
    .cfi_offset %r12, -32
    movq %rcx, %rbx
    movq %r8, %r12
    movq %rdi, %rax
    movq %rsi, %rdi
    movq %rdx, %rsp
    callq *%rax
    movb $0, (%rbx)
    andl $~GS_THREADS_ON_WORKER_STACK, (%r12)
    movq -8(%rbp), %rbx
    .cfi_restore %rbx
    movq -16(%rbp), %r12
    .cfi_restore %r12
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size gs_context_call, . - gs_context_call

/* void gs_context_call_for_unwind(void (*fn)(void *), void *argument, const void *sp): the CFI says
 * that fn was called by the stack at sp. */
    .globl gs_context_call_for_unwind
    .hidden gs_context_call_for_unwind
    .type gs_context_call_for_unwind, @function
    .p2align 4
gs_context_call_for_unwind:
    .cfi_startproc
    endbr64
    save %rbx
    movq %rdx, %rbx
    movq %rdi, %rax
    movq %rsi, %rdi
    .cfi_remember_state
    suspended_at %rbx
    .cfi_offset %rip, -8
    callq *%rax
    .cfi_restore_state
    restore %rbx
    ret
    .cfi_endproc
    .size gs_context_call_for_unwind, . - gs_context_call_for_unwind

/* The first frame of a new stack: r12 is called with r13, and does not return. By a jump, see
 * gs_context_leave. */
    .globl gs_context_start
    .hidden gs_context_start
    .type gs_context_start, @function
    .p2align 4
gs_context_start:
    .cfi_startproc
    .cfi_undefined %rip
    endbr64
    movq %r13, %rdi
    leaq 1f(%rip), %rax
    pushq %rax
    jmpq *%r12
1:
    ud2
    .cfi_endproc
    .size gs_context_start, . - gs_context_start
    .section .note.GNU-stack, "", @progbits

/* For the linker: indirect branches may be tracked (IBT), but there is no shadow stack. */
    .section .note.gnu.property, "a", @note
    .p2align 3
    .long 4, 16, 5 /* sizes of name and contents; NT_GNU_PROPERTY_TYPE_0 */
    .asciz "GNU"
    .long 0xc0000002, 4, 1, 0 /* GNU_PROPERTY_X86_FEATURE_1_AND, its size, IBT, padding */
