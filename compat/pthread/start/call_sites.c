/* System calls of the C library without the signal (--rewrite-calls).
 *
 * The instruction "syscall" is too short for a jump. In most places the number of the call is set
 * just before, or the result compared with the least error just after:
 *
 *     mov $0, %eax            jmp trampoline         syscall                  jmp trampoline
 *     syscall            =>   syscall                cmp $-4096, %rax   =>
 *     ...                     ...                    ja error                 ja error
 *
 *     trampoline:  mov $0, %eax, or a nop       by_signal:  syscall
 *                  lea site(%rip), %rcx                     cmp $-4096, %rax, or nops
 *                  jmp *entry(%rip)                         jmp end
 *
 * The trampoline changes only rcx, and what follows only r11 and flags, which a system call leaves
 * undefined, until the task is inside (call_site_entry.S). Then there is a context as for the
 * signal, and the call is emulated as if that had come. While that lasts, rip is behind the
 * "syscall" that was there: so the unwinder finds what it needs in the C library's tables. Calls
 * that start a thread or a process continue twice, and need the signal: their instruction is in the
 * trampoline. So is it for kernel threads without a task.
 *
 * A site is left as it is if something may jump into what is replaced: each byte of the C library
 * is taken for the beginning of each jump. It is written while the process has one thread. That
 * calls can be rewritten so that programs do the same is known from zpoline (Yasukata et al., 2023)
 * and lazypoline (Jacobs et al., 2024), which replace the instruction alone, by a call of an
 * address below 512, where they need memory. */
#include "compat/pthread/start/call_sites.h"

#include "compat/pthread/start/real.h"
#include "compat/pthread/threads/task.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

const unsigned char gs_call_site_needs_signal[CALL_SITE_NUMBERS] = {
    [SYS_clone] = 1, [SYS_clone3] = 1, [SYS_fork] = 1, [SYS_vfork] = 1, [SYS_rt_sigreturn] = 1,
};

/* ---- Calls ---- */

#define SINGLE_STEP (1 << 8) /* flags of the processor */
#define FLAGS 0x202
#define SELECTORS 0x002b000000000033 /* cs, gs, fs, ss: those of each program */
#define RESTORES_SS 6u               /* UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */

static void complete(ucontext_t *context)
{
    greg_t *registers = context->uc_mcontext.gregs;
    const gs_signals mask = GS_WORKER_MASK;
    context->uc_flags = RESTORES_SS;
    context->uc_link = NULL;
    context->uc_stack = gs_carrier()->signal_stack;
    memcpy(&context->uc_sigmask, &mask, sizeof mask);
    registers[REG_EFL] = FLAGS;
    registers[REG_CSGSFS] = SELECTORS;
    registers[REG_ERR] = registers[REG_TRAPNO] = registers[REG_OLDMASK] = registers[REG_CR2] = 0;
}

/* Returns the flags of the comparison that was replaced. */
static greg_t compare(const struct call_site *site, greg_t result)
{
    greg_t flags;
    if (site->is_narrow)
        __asm__ volatile("cmpl %2, %1\n\tpushfq\n\tpopq %0"
                         : "=r"(flags)
                         : "r"((int32_t)result), "r"(site->limit)
                         : "cc");
    else
        __asm__ volatile("cmpq %2, %1\n\tpushfq\n\tpopq %0"
                         : "=r"(flags)
                         : "r"(result), "r"((greg_t)site->limit)
                         : "cc");
    return flags;
}

/* If it is not made again, nor has a handler said where the program continues. A call that is made
 * again has its number in rax. */
static void continue_behind(const struct call_site *site, greg_t *registers)
{
    const uintptr_t pc = (uintptr_t)registers[REG_RIP];
    if (GS_UNLIKELY(pc != site->next))
        return;
    registers[REG_RIP] = (greg_t)site->end;
    if (site->end != site->next)
        registers[REG_EFL] = compare(site, registers[REG_RAX]);
}

void gs_on_call_site(ucontext_t *context, const struct call_site *site)
{
    enum { STATE = 3 }; /* XSAVE's components: call_site_entry.S */
    greg_t *registers = context->uc_mcontext.gregs;
    struct task *task = gs_task;
    unsigned handled = task->handled;
    gs_task_enter(task);
    GS_COUNT(rewritten);
    complete(context);
    gs_emulate_in(task, context);
    continue_behind(site, registers);
    if (GS_LIKELY(gs_task == task && task->handled == handled))
        gs_run_return(registers, context->uc_mcontext.fpregs, STATE);
}

/* ---- The code for all sites ---- */

enum { SYSCALL_SIZE = 2, JUMP_SIZE = 5, SET_SIZE = 5, COMPARISON_MAX = 6 };

/* Each instruction as its bytes, since they are written into memory. */
struct __attribute__((packed)) trampoline {
    unsigned char set[SET_SIZE]; /* mov $number, %eax, or a nop */
    unsigned char load[3];       /* lea site(%rip), %rcx */
    int32_t to_site;
    unsigned char jump[2]; /* jmp *entry(%rip) */
    int32_t to_entry;
    unsigned char by_signal[SYSCALL_SIZE];
    unsigned char compare[COMPARISON_MAX]; /* with nops */
    unsigned char jump_back;               /* jmp end */
    int32_t to_end;
};

/* Near the C library, as jumps reach 2 GiB. */
struct region {
    const char *entry;
    unsigned count;
    struct trampoline *trampolines;
    struct call_site sites[];
};
static struct region *region;

static size_t region_size(unsigned count)
{
    return sizeof *region + count * (sizeof *region->sites + sizeof *region->trampolines);
}

static int32_t distance(const void *to, const void *from)
{
    return (int32_t)((intptr_t)to - (intptr_t)from);
}

/* The lowest free place below the text from which jumps reach all of it. */
static void *map_near(uintptr_t text, size_t size)
{
    enum { STEP = 1 << 20, STEPS = 1500 };
    for (uintptr_t i = 1; i < STEPS && text > i * STEP; i++) {
        uintptr_t address = (text - i * STEP) & ~(uintptr_t)(STEP - 1);
        long at = gs_syscall(SYS_mmap, (long)address, (long)size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == (long)address)
            return (void *)at;
        if (at > 0) /* a kernel without MAP_FIXED_NOREPLACE */
            gs_syscall(SYS_munmap, at, (long)size, 0, 0, 0, 0);
    }
    return NULL;
}

/* ---- Finding sites ---- */

struct text {
    unsigned char *start;
    size_t size;
};

/* Whether the code sets eax to the number of a call, and makes it. */
static bool has_number(const unsigned char *code)
{
    return code[0] == 0xb8 && code[2] <= 1 && !code[3] && !code[4] && code[5] == 0x0f &&
           code[6] == 0x05;
}

/* The length of a comparison of the result with -4096 or -4095; 0: it is none. */
static unsigned comparison_at(const unsigned char *code)
{
    const bool is_wide = code[0] == 0x48;
    const unsigned char *rest = code + is_wide;
    bool is_one =
        rest[0] == 0x3d && rest[1] <= 1 && rest[2] == 0xf0 && rest[3] == 0xff && rest[4] == 0xff;
    return is_one ? JUMP_SIZE + is_wide : 0;
}

/* The length of what a jump may replace at the offset; 0: nothing. */
static unsigned site_at(const struct text *text, size_t at)
{
    const unsigned char *code = text->start + at;
    if (at + SYSCALL_SIZE + COMPARISON_MAX > text->size)
        return 0;
    if (has_number(code))
        return SET_SIZE;
    unsigned comparison =
        code[0] == 0x0f && code[1] == 0x05 ? comparison_at(code + SYSCALL_SIZE) : 0;
    return comparison ? SYSCALL_SIZE + comparison : 0;
}

/* Where a jump goes to that begins at the offset; -1: it is none. */
static intptr_t target_of(const struct text *text, size_t at)
{
    const unsigned char *code = text->start + at;
    size_t left = text->size - at;
    int32_t far;
    if (left >= 2 && ((code[0] & 0xf0) == 0x70 || code[0] == 0xeb || (code[0] & 0xfc) == 0xe0))
        return (intptr_t)at + 2 + (signed char)code[1];
    bool is_long = code[0] == 0x0f && left >= 6 && (code[1] & 0xf0) == 0x80;
    if (!is_long && (left < JUMP_SIZE || (code[0] != 0xe8 && code[0] != 0xe9)))
        return -1;
    memcpy(&far, code + 1 + is_long, sizeof far);
    return (intptr_t)at + JUMP_SIZE + is_long + far;
}

/* A byte for each of the text: 0, or the length of what is replaced there. If both ways are
 * possible for a call, it is the first. */
static unsigned find_sites(const struct text *text, unsigned char *ret_lengths)
{
    enum { LENGTH_MAX = SYSCALL_SIZE + COMPARISON_MAX };
    unsigned count = 0;
    for (size_t at = 0; at < text->size; at++)
        ret_lengths[at] = (unsigned char)site_at(text, at);
    for (size_t at = 0; at < text->size; at++) {
        intptr_t target = target_of(text, at);
        for (intptr_t i = 1; target >= i && i < LENGTH_MAX; i++)
            if ((size_t)target < text->size && ret_lengths[target - i] > i)
                ret_lengths[target - i] = 0;
    }
    for (size_t at = 0; at < text->size; at++) {
        if (ret_lengths[at] == SET_SIZE)
            ret_lengths[at + SET_SIZE] = 0;
        count += ret_lengths[at] != 0;
    }
    return count;
}

/* ---- Writing ---- */

static void describe(unsigned char *code, unsigned length, struct call_site *site,
                     struct trampoline *trampoline)
{
    static const unsigned char nop[SET_SIZE] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    const bool is_before = length == SET_SIZE;
    unsigned char *call = code + (is_before ? SET_SIZE : 0), *next = call + SYSCALL_SIZE;
    unsigned char *end = is_before ? next : code + length;
    *site = (struct call_site){.next = (uintptr_t)next,
                               .by_signal = (uintptr_t)trampoline->by_signal,
                               .start = (uintptr_t)code,
                               .end = (uintptr_t)end,
                               .is_narrow = end - next == JUMP_SIZE};
    *trampoline = (struct trampoline){.load = {0x48, 0x8d, 0x0d},
                                      .to_site = distance(site, trampoline->jump),
                                      .jump = {0xff, 0x25},
                                      .to_entry = distance(&region->entry, trampoline->by_signal),
                                      .by_signal = {0x0f, 0x05},
                                      .compare = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90},
                                      .jump_back = 0xe9,
                                      .to_end = distance(end, trampoline + 1)};
    memcpy(trampoline->set, is_before ? code : nop, SET_SIZE);
    if (!is_before) {
        memcpy(&site->limit, end - sizeof site->limit, sizeof site->limit);
        memcpy(trampoline->compare, next, (size_t)(end - next));
    }
}

static void put_jump(const struct call_site *site, const struct trampoline *trampoline)
{
    unsigned char *code = (unsigned char *)site->start;
    const int32_t to_trampoline = distance(trampoline, code + JUMP_SIZE);
    code[0] = 0xe9;
    memcpy(code + 1, &to_trampoline, sizeof to_trampoline);
    if (site->end != site->next) /* the rest of the comparison */
        memset(code + JUMP_SIZE, 0x90, site->end - site->start - JUMP_SIZE);
}

static long protect(void *start, size_t size, int protection)
{
    return gs_syscall(SYS_mprotect, (long)start, (long)size, protection, 0, 0, 0);
}

/* Returns NULL, or why it cannot be done. */
static const char *rewrite_text(const struct text *text, unsigned char *lengths)
{
    unsigned count = find_sites(text, lengths), n = 0;
    size_t size = region_size(count);
    region = map_near((uintptr_t)text->start, size);
    if (!region)
        return "no memory near the C library";
    *region = (struct region){.entry = gs_call_site_entry,
                              .count = count,
                              .trampolines = (struct trampoline *)&region->sites[count]};
    for (size_t at = 0; at < text->size; at++) {
        if (lengths[at]) {
            describe(text->start + at, lengths[at], &region->sites[n], &region->trampolines[n]);
            n++;
        }
    }
    if (protect(region, size, PROT_READ | PROT_EXEC) ||
        protect(text->start, text->size, PROT_READ | PROT_WRITE | PROT_EXEC)) {
        gs_syscall(SYS_munmap, (long)region, (long)size, 0, 0, 0, 0);
        region = NULL;
        return "the text of the C library may not be changed";
    }
    for (n = 0; n < count; n++)
        put_jump(&region->sites[n], &region->trampolines[n]);
    protect(text->start, text->size, PROT_READ | PROT_EXEC);
    return NULL;
}

/* The segment of the C library that is executed. */
static int find_text(struct dl_phdr_info *object, size_t size, void *text_argument)
{
    struct text *text = text_argument;
    const uintptr_t page = 4096, in_it = (uintptr_t)text->start;
    (void)size;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
            in_it - start >= segment->p_memsz)
            continue;
        uintptr_t aligned = start & ~(page - 1);
        *text = (struct text){(unsigned char *)aligned, start - aligned + segment->p_memsz};
        return 1;
    }
    return 0;
}

/* Others may be in the C library now, and would execute a part of a jump. */
static bool is_alone(void)
{
    struct stat tasks = {0};
    long err = gs_syscall(SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&tasks, 0, 0, 0);
    return !err && tasks.st_nlink == 3;
}

static const char *try_to_rewrite(void)
{
    struct text text = {.start = (unsigned char *)gs_real_function("syscall")};
    if (!is_alone())
        return "the process has several threads";
    if (!dl_iterate_phdr(find_text, &text))
        return "the C library was not found";
    long lengths = gs_syscall(SYS_mmap, 0, (long)text.size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (lengths < 0 && lengths > -4096)
        return "there is no memory";
    const char *reason = rewrite_text(&text, (unsigned char *)lengths);
    gs_syscall(SYS_munmap, lengths, (long)text.size, 0, 0, 0, 0);
    return reason;
}

void gs_call_sites_start(void)
{
    if (!gs_run.rewrites || region)
        return;
    const char *reason = try_to_rewrite();
    gs_explain_call_sites(region ? region->count : 0, reason);
}

atomic_uint gs_call_sites_suspended;

void gs_call_sites_suspend(void)
{
    atomic_fetch_add(&gs_call_sites_suspended, 1);
}

void gs_call_sites_resume(void)
{
    atomic_fetch_sub(&gs_call_sites_suspended, 1);
}

void gs_call_sites_stop(void)
{
    static atomic_bool is_stopped;
    if (atomic_exchange(&is_stopped, true))
        return;
    gs_call_sites_suspend();
    if (region)
        gs_explain_call_sites(0, "another process shares the memory");
}

/* ---- Kicks ---- */

void gs_call_sites_roll_back(ucontext_t *context)
{
    greg_t *registers = context->uc_mcontext.gregs;
    const uintptr_t pc = (uintptr_t)registers[REG_RIP];
    const struct call_site *site = NULL;
    if (GS_LIKELY(!region))
        return;
    uintptr_t offset = pc - (uintptr_t)region->trampolines;
    if (pc - (uintptr_t)gs_call_site_entry <
        (uintptr_t)(gs_call_site_is_inside - gs_call_site_entry))
        site = (const struct call_site *)registers[REG_RCX];
    else if (offset < region->count * sizeof *region->trampolines &&
             offset % sizeof *region->trampolines <= offsetof(struct trampoline, by_signal))
        site = &region->sites[offset / sizeof *region->trampolines];
    if (site)
        registers[REG_RIP] = (greg_t)site->start;
}
