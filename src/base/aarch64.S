/* long gs_syscall(long number, long a, long b, long c, long d, long e, long f)
 * The kernel's convention: the number in x8, the result or -errno in x0. */
    .text
    .globl gs_syscall
    .type gs_syscall, %function
    .p2align 4
gs_syscall:
    .cfi_startproc
    mov x8, x0
    mov x0, x1
    mov x1, x2
    mov x2, x3
    mov x3, x4
    mov x4, x5
    mov x5, x6
    svc #0
    ret
    .cfi_endproc
    .size gs_syscall, . - gs_syscall
    .section .note.GNU-stack, "", %progbits
