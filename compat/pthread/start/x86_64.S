/* How threads of the program begin, and the end of our signal handlers. The offsets are those of
 * struct start_registers (task.h). */
    .text

/* void gs_run_restorer(void): the unwinder recognises these two instructions as the end of a signal
 * handler if it finds no unwind information, also not for the address before; gdb by the name. */
    .p2align 4
    nop
    .globl __restore_rt
    .hidden __restore_rt
    .type __restore_rt, @function
__restore_rt:
    movq $15, %rax
    syscall
    .size __restore_rt, . - __restore_rt

/* void gs_run_signal_entry(int number, siginfo_t *info, void *context): a signal handler, entered by
 * the kernel with the frame at rsp. Move it, and all that points into it, to where gs_signal_move
 * says, and continue there. */
    .p2align 4
    .globl gs_run_signal_entry
    .hidden gs_run_signal_entry
    .type gs_run_signal_entry, @function
gs_run_signal_entry:
    .cfi_startproc
    endbr64
    movq %rsp, %rcx
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    call gs_signal_move
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    addq %rax, %rsp
    addq %rax, %rsi
    addq %rax, %rdx
    cmpl $64, %edi /* KICK */
    je gs_on_kick
    jmp gs_on_signal
    .cfi_endproc
    .size gs_run_signal_entry, . - gs_run_signal_entry

/* void gs_run_return(const greg_t *registers, const void *fpu_state, uint64_t features): return to
 * the program from a handler of SIGSYS, as rt_sigreturn does; rcx and r11 are what a system call
 * leaves in them. A signal that comes meanwhile uses the stack only below its red zone: all that is
 * read after the stack pointer has moved is in there, or above. A thread that such a signal cancels
 * is unwound from here. */
    .p2align 4
    .globl gs_run_return
    .hidden gs_run_return
    .type gs_run_return, @function
gs_run_return:
    .cfi_startproc
    .cfi_signal_frame
    .cfi_escape 0x0f, 4, 0x75, 0xf8, 0x00, 0x06  /* the CFA is stored at rdi + 120, */
    .cfi_escape 0x10, 16, 3, 0x75, 0x80, 0x01    /* rip at rdi + 128, */
    .cfi_escape 0x10, 6, 3, 0x75, 0xd0, 0x00     /* rbp, */
    .cfi_escape 0x10, 3, 3, 0x75, 0xd8, 0x00     /* rbx, */
    .cfi_escape 0x10, 12, 2, 0x75, 0x20          /* r12 to r15 */
    .cfi_escape 0x10, 13, 2, 0x75, 0x28
    .cfi_escape 0x10, 14, 2, 0x75, 0x30
    .cfi_escape 0x10, 15, 2, 0x75, 0x38
    endbr64
    movl %edx, %eax
    shrq $32, %rdx
    xrstor64 (%rsi)
    movq 0(%rdi), %r8
    movq 8(%rdi), %r9
    movq 16(%rdi), %r10
    movq 32(%rdi), %r12
    movq 40(%rdi), %r13
    movq 48(%rdi), %r14
    movq 56(%rdi), %r15
    movq 72(%rdi), %rsi
    movq 80(%rdi), %rbp
    movq 88(%rdi), %rbx
    movq 96(%rdi), %rdx
    movq 104(%rdi), %rax
    movq 128(%rdi), %rcx
    movq 136(%rdi), %r11
    leaq 136(%rdi), %rsp
    movq 64(%rdi), %rdi
    .cfi_same_value %rbp
    .cfi_same_value %rbx
    .cfi_same_value %r12
    .cfi_same_value %r13
    .cfi_same_value %r14
    .cfi_same_value %r15
    .cfi_register %rip, %rcx
    .cfi_escape 0x0f, 3, 0x77, 0x70, 0x06        /* the CFA is stored at rsp - 16 */
    popfq
    .cfi_escape 0x0f, 3, 0x77, 0x68, 0x06        /* at rsp - 24 */
    movq -24(%rsp), %rsp
    .cfi_def_cfa %rsp, 0
    notrack jmp *%rcx
    .cfi_endproc
    .size gs_run_return, . - gs_run_return

/* The first instructions of a task; rbx: its start_registers. */
    .p2align 4
    .globl gs_run_start
    .hidden gs_run_start
    .type gs_run_start, @function
gs_run_start:
    .cfi_startproc
    .cfi_undefined %rip
    endbr64
    movq 120(%rbx), %rdi
    callq gs_task_begin
    movq 0(%rbx), %r8
    movq 8(%rbx), %r9
    movq 16(%rbx), %r10
    movq 24(%rbx), %r11
    movq 32(%rbx), %r12
    movq 40(%rbx), %r13
    movq 48(%rbx), %r14
    movq 56(%rbx), %r15
    movq 64(%rbx), %rdi
    movq 72(%rbx), %rsi
    movq 80(%rbx), %rbp
    movq 96(%rbx), %rdx
    movq 104(%rbx), %rsp
    movq 112(%rbx), %rcx /* which a system call clobbers */
    ldmxcsr 128(%rbx)
    fldcw 132(%rbx)
    movq 88(%rbx), %rbx
    xorl %eax, %eax
    notrack jmp *%rcx
    .cfi_endproc
    .size gs_run_start, . - gs_run_start

/* int gs_run_hand_over(struct start_registers *registers, void *stack, void *thread_pointer, void
 * (*fn)(void *)): store the caller's context, and call fn(registers), which does not return, on the
 * stack and with the thread pointer. A task that starts with the registers returns 0 from here. */
    .p2align 4
    .globl gs_run_hand_over
    .hidden gs_run_hand_over
    .type gs_run_hand_over, @function
gs_run_hand_over:
    .cfi_startproc
    endbr64
    movq %r12, 32(%rdi)
    movq %r13, 40(%rdi)
    movq %r14, 48(%rdi)
    movq %r15, 56(%rdi)
    movq %rbp, 80(%rdi)
    movq %rbx, 88(%rdi)
    stmxcsr 128(%rdi)
    fnstcw 132(%rdi)
    popq %rax
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rax
    movq %rsp, 104(%rdi)
    movq %rax, 112(%rdi)
    wrfsbase %rdx
    movq %rsi, %rsp
    .cfi_undefined %rip
    xorl %ebp, %ebp
    callq *%rcx
    ud2
    .cfi_endproc
    .size gs_run_hand_over, . - gs_run_hand_over

/* void gs_run_call_on(void *stack, void (*fn)(void *), void *argument) */
    .p2align 4
    .globl gs_run_call_on
    .hidden gs_run_call_on
    .type gs_run_call_on, @function
gs_run_call_on:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    movq %rdi, %rsp
    andq $-16, %rsp
    movq %rdx, %rdi
    callq *%rsi
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size gs_run_call_on, . - gs_run_call_on

/* long gs_run_clone(long flags, void *stack, void *parent_tid, void *child_tid, long tls, void *pc):
 * the system call; the child continues at pc. */
    .p2align 4
    .globl gs_run_clone
    .hidden gs_run_clone
    .type gs_run_clone, @function
gs_run_clone:
    .cfi_startproc
    endbr64
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    movq %r9, %rbx
    movq %rcx, %r10
    movl $56, %eax
    syscall
    testl %eax, %eax
    jz 1f
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    ret
1:
    .cfi_undefined %rip
    movq %rbx, %rcx
    xorl %ebx, %ebx
    xorl %ebp, %ebp
    notrack jmp *%rcx
    .cfi_endproc
    .size gs_run_clone, . - gs_run_clone
/* long gs_run_copy(void *to, const void *from, size_t n), long gs_run_probe(const void *byte): access
 * memory of the program. A fault there continues at gs_run_access_failed. */
    .p2align 4
    .globl gs_run_copy, gs_run_copy_access
    .hidden gs_run_copy, gs_run_copy_access
    .type gs_run_copy, @function
gs_run_copy:
    .cfi_startproc
    endbr64
    movq %rdx, %rcx
gs_run_copy_access:
    rep movsb
    xorl %eax, %eax
    ret
    .cfi_endproc
    .size gs_run_copy, . - gs_run_copy

    .globl gs_run_probe, gs_run_probe_access, gs_run_access_failed
    .hidden gs_run_probe, gs_run_probe_access, gs_run_access_failed
    .type gs_run_probe, @function
gs_run_probe:
    .cfi_startproc
    endbr64
gs_run_probe_access:
    movb (%rdi), %al
    xorl %eax, %eax
    ret
gs_run_access_failed:
    movq $-14, %rax /* -EFAULT */
    ret
    .cfi_endproc
    .size gs_run_probe, . - gs_run_probe

/* The first instructions of a kernel thread of our own: its function and argument are on the stack. */
    .p2align 4
    .globl gs_run_thread_entry
    .hidden gs_run_thread_entry
    .type gs_run_thread_entry, @function
gs_run_thread_entry:
    .cfi_startproc
    .cfi_undefined %rip
    endbr64
    popq %rax
    popq %rdi
    callq *%rax
    movl $60, %eax /* exit */
    xorl %edi, %edi
    syscall
    ud2
    .cfi_endproc
    .size gs_run_thread_entry, . - gs_run_thread_entry
    .section .note.GNU-stack, "", @progbits

/* For the linker: as in src/thread/context/x86_64.S. */
    .section .note.gnu.property, "a", @note
    .p2align 3
    .long 4, 16, 5 /* sizes of name and contents; NT_GNU_PROPERTY_TYPE_0 */
    .asciz "GNU"
    .long 0xc0000002, 4, 1, 0 /* GNU_PROPERTY_X86_FEATURE_1_AND, its size, IBT, padding */
