/* long gs_syscall(long number, long a, long b, long c, long d, long e, long f)
 * The kernel's convention: the result or -errno in rax; rcx and r11 are clobbered. */
    .text
    .globl gs_syscall
    .type gs_syscall, @function
    .p2align 4
gs_syscall:
    .cfi_startproc
    endbr64
    movq %rdi, %rax
    movq %rsi, %rdi
    movq %rdx, %rsi
    movq %rcx, %rdx
    movq %r8, %r10
    movq %r9, %r8
    movq 8(%rsp), %r9
    syscall
    ret
    .cfi_endproc
    .size gs_syscall, . - gs_syscall
    .section .note.GNU-stack, "", @progbits

/* For the linker: as in src/thread/context/x86_64.S. */
    .section .note.gnu.property, "a", @note
    .p2align 3
    .long 4, 16, 5 /* sizes of name and contents; NT_GNU_PROPERTY_TYPE_0 */
    .asciz "GNU"
    .long 0xc0000002, 4, 1, 0 /* GNU_PROPERTY_X86_FEATURE_1_AND, its size, IBT, padding */
