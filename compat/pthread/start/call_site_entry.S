/* From a call site of the C library (call_sites.c) to gs_on_call_site, with a context as the kernel
 * makes it for SIGSYS. rcx: the struct call_site; rax: the number of the call.
 *
 * Up to gs_call_site_is_inside only rcx, r11 and the flags are changed, which are free at a call
 * site; a kick that comes there rolls back. Later ones find the task inside. The C library's own
 * code, which is what continues at a call site, keeps nothing in registers that need more than
 * XSAVE's components 0 and 1. */
    .set SIZE, 1600             /* of the context, up to 968, and from AREA on of that state */
    .set AREA, 1024
    .set RED_ZONE, 128
    .set REGISTERS, 40          /* uc_mcontext.gregs */
    .set FPU_STATE, 224         /* uc_mcontext.fpregs */

    .text
    .p2align 4
    .globl gs_call_site_entry, gs_call_site_is_inside
    .hidden gs_call_site_entry, gs_call_site_is_inside
    .type gs_call_site_entry, @function
gs_call_site_entry:
    .cfi_startproc
    .cfi_signal_frame
    .cfi_def_cfa %rsp, 0
    .cfi_escape 0x16, 16, 3, 0x72, 0x00, 0x06    /* rip is stored at rcx */
    movq gs_task@gottpoff(%rip), %r11
    cmpq $0, %fs:(%r11)
    je 1f
    movq gs_task_is_inside@gottpoff(%rip), %r11
    cmpb $0, %fs:(%r11)
    jne 1f
    cmpq $512, %rax
    jae 1f
    cmpl $0, gs_call_sites_suspended(%rip)
    jne 1f
    leaq gs_call_site_needs_signal(%rip), %r11
    cmpb $0, (%r11, %rax)
    jne 1f
    movq gs_task_is_inside@gottpoff(%rip), %r11
    movb $1, %fs:(%r11)
gs_call_site_is_inside:
    movq %rsp, %r11
    .cfi_def_cfa_register %r11
    subq $SIZE + RED_ZONE, %rsp
    andq $-64, %rsp
    movq %r8, REGISTERS + 0(%rsp)
    movq %r9, REGISTERS + 8(%rsp)
    movq %r10, REGISTERS + 16(%rsp)
    movq $0x202, REGISTERS + 24(%rsp)            /* r11: flags, of which none are set */
    movq %r12, REGISTERS + 32(%rsp)
    movq %r13, REGISTERS + 40(%rsp)
    movq %r14, REGISTERS + 48(%rsp)
    movq %r15, REGISTERS + 56(%rsp)
    movq %rdi, REGISTERS + 64(%rsp)
    movq %rsi, REGISTERS + 72(%rsp)
    movq %rbp, REGISTERS + 80(%rsp)
    movq %rbx, REGISTERS + 88(%rsp)
    movq %rdx, REGISTERS + 96(%rsp)
    movq %rax, REGISTERS + 104(%rsp)
    movq %r11, REGISTERS + 120(%rsp)
    movq (%rcx), %rax
    movq %rax, REGISTERS + 112(%rsp)             /* rcx */
    movq %rax, REGISTERS + 128(%rsp)             /* rip */
    /* From here on all is read from the context. */
    .cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06  /* the CFA is stored at rsp + 160, */
    .cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01    /* rip at rsp + 168, */
    .cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0x00     /* rbp, */
    .cfi_escape 0x10, 3, 3, 0x77, 0x80, 0x01     /* rbx, */
    .cfi_escape 0x10, 12, 3, 0x77, 0xc8, 0x00    /* r12 to r15 */
    .cfi_escape 0x10, 13, 3, 0x77, 0xd0, 0x00
    .cfi_escape 0x10, 14, 3, 0x77, 0xd8, 0x00
    .cfi_escape 0x10, 15, 3, 0x77, 0xe0, 0x00
    leaq AREA(%rsp), %rdi
    movq %rdi, FPU_STATE(%rsp)
    xorl %eax, %eax
    movq %rax, 464(%rdi)                         /* the kernel's mark that there is more */
    movq %rax, 512(%rdi)                         /* the header, which XSAVE changes only in part */
    movq %rax, 520(%rdi)
    movq %rax, 528(%rdi)
    movq %rax, 536(%rdi)
    movq %rax, 544(%rdi)
    movq %rax, 552(%rdi)
    movq %rax, 560(%rdi)
    movq %rax, 568(%rdi)
    xorl %edx, %edx
    movl $3, %eax
    xsave64 (%rdi)
    movq %rsp, %rdi
    movq %rcx, %rsi
    call gs_on_call_site
    movl $15, %eax                               /* rt_sigreturn */
    syscall
    ud2
1:
    .cfi_def_cfa %rsp, 0
    .cfi_same_value %rbp
    .cfi_same_value %rbx
    .cfi_same_value %r12
    .cfi_same_value %r13
    .cfi_same_value %r14
    .cfi_same_value %r15
    .cfi_escape 0x16, 16, 3, 0x72, 0x00, 0x06
    notrack jmp *8(%rcx)
    .cfi_endproc
    .size gs_call_site_entry, . - gs_call_site_entry
    .section .note.GNU-stack, "", @progbits

/* For the linker: as in src/thread/context/x86_64.S. */
    .section .note.gnu.property, "a", @note
    .p2align 3
    .long 4, 16, 5
    .asciz "GNU"
    .long 0xc0000002, 4, 1, 0
