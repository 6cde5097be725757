/* A system call changes no register but rax, rcx and r11, also of the floating-point unit. What a
 * signal handler stores in its context is in all of them. Single steps stay in the program. */
#include "tests/compat/pthread/program.h"

#include <ucontext.h>

enum { CALLS = 2000 };

static bool keeps_registers(unsigned long seed)
{
    unsigned long before = 0, wide = seed * 3, after[4] = {0};
    unsigned control = 0x1f80u | (unsigned)(seed & 3) << 13, control_after = 0;
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

/* ---- The context of a handler ---- */

static void change_registers(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)number, (void)info;
    registers[REG_RCX] = 1001;
    registers[REG_R11] = 1002;
    registers[REG_R8] = 1003;
}

static void *raise_and_look(void *unused)
{
    unsigned long rcx, r11, r8, process = (unsigned long)getpid();
    __asm__ volatile("syscall\n"
                     "movq %%r11, %[r11]\n"
                     "movq %%r8, %[r8]\n"
                     : "=&c"(rcx), [r11] "=&r"(r11), [r8] "=&r"(r8)
                     : "a"(SYS_tgkill), "D"(process), "S"((long)gettid()), "d"((long)SIGUSR1)
                     : "r8", "r11", "memory", "cc");
    SHOW(rcx);
    SHOW(r11);
    SHOW(r8);
    return unused;
}

/* ---- Single steps ---- */

extern const char __executable_start[], etext[];
static volatile long steps, steps_outside;

static void count_step(int number, siginfo_t *info, void *context)
{
    uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    (void)number, (void)info;
    steps++;
    steps_outside += pc < (uintptr_t)__executable_start || pc >= (uintptr_t)etext;
}

static void *step(void *unused)
{
    __asm__ volatile("subq $128, %%rsp\n"
                     "pushfq\n"
                     "orl $0x100, (%%rsp)\n"
                     "popfq\n"
                     "nop\n"
                     "syscall\n"
                     "nop\n"
                     "pushfq\n"
                     "andl $~0x100, (%%rsp)\n"
                     "popfq\n"
                     "addq $128, %%rsp\n"
                     :
                     : "a"(SYS_getppid)
                     : "rcx", "r11", "memory", "cc");
    SHOW(steps);
    SHOW(steps_outside);
    return unused;
}

static void run_with_handler(int number, void (*handler)(int, siginfo_t *, void *),
                             void *(*fn)(void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(number, &action, NULL);
    pthread_join(start(fn, NULL), NULL);
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
    run_with_handler(SIGUSR1, change_registers, raise_and_look);
    run_with_handler(SIGTRAP, count_step, step);
    return 0;
}
