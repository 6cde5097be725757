/* A system call changes no register but rax, rcx and r11, also of the floating-point unit. */
#include "tests/compat/pthread/program.h"

#include <sys/syscall.h>

enum { CALLS = 2000 };

static bool keeps_registers(unsigned long seed)
{
    unsigned long before = 0, wide = seed * 3, after[4] = {0};
    unsigned control = 0x1f80u | (seed & 3) << 13, control_after = 0;
    __asm__ volatile(
        "ldmxcsr %[control]\n"
        "movq %[wide], %%xmm7\n"
        "movq %[wide], %%xmm15\n"
        "movq %[seed], %%r8\n"
        "movq %[seed], %%r10\n"
        "movq %[seed], %%r12\n"
        "movq %%rsp, %[before]\n"
        "syscall\n"
        "subq %%rsp, %[before]\n"
        "movq %%xmm7, %%rcx\n"
        "movq %%rcx, 0%[after]\n"
        "movq %%xmm15, %%rcx\n"
        "movq %%rcx, 8%[after]\n"
        "xorq %%r8, %%r10\n"
        "movq %%r10, 16%[after]\n"
        "movq %%r12, 24%[after]\n"
        "stmxcsr %[control_after]\n"
        : [after] "+o"(after), [control_after] "=m"(control_after), [before] "+r"(before)
        : "a"(SYS_sched_yield), [seed] "r"(seed), [wide] "r"(wide), [control] "m"(control)
        : "rcx", "r8", "r10", "r11", "r12", "xmm7", "xmm15", "memory", "cc");
    return after[0] == wide && after[1] == wide && !after[2] && after[3] == seed && !before &&
           (control_after & ~0x3fu) == (control & ~0x3fu);
}

static void *call_often(void *seed)
{
    long kept = 0;
    for (unsigned long i = 0; i < CALLS; i++)
        kept += keeps_registers((unsigned long)seed * 1000003 + i);
    return (void *)kept;
}

int main(void)
{
    pthread_t threads[4];
    void *kept;
    for (long i = 0; i < 4; i++)
        threads[i] = start(call_often, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &kept);
        SHOW(kept);
    }
    return 0;
}
