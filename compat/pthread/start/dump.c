/* --dump-signal: a dump of all threads on standard error, when the process receives the signal.
 *
 * The receiver asks each task for its lines, at each of its ticks until it has them: it wakes those
 * that wait, and interrupts those that are in the program. A task that finds the request unwinds
 * its own stack, which nobody changes meanwhile, on a stack of the dump. Tasks that do not answer
 * are in a call that blocks their worker, or ready while no worker is free: the receiver writes
 * what it knows of them when no other has answered for some ticks.
 *
 * No lock of the C library is taken, which a task may hold: the unwinder and the search for names
 * use _dl_find_object. The receiver has no thread-local storage, so the lines are put together
 * here. Memory that cannot be read ends only the backtrace. */
#include "compat/pthread/start/dump.h"
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <dlfcn.h>
#include <elf.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <link.h>
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#define STACK ((size_t)256 << 10)
#define PATIENCE_TICKS 40u /* without an answer */
enum { FRAMES_MAX = 64, FRAMES_OF_CALL = 8, NAME_MAX_LENGTH = 120, ARGUMENTS_SHOWN = 3 };

extern const char text_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

static atomic_bool is_requested;
static atomic_uint missing;               /* tasks that have not answered */
static unsigned missing_before, patience; /* the receiver's */

/* ---- Lines: guarded by the lock ---- */

static struct gs_run_lock lock;
static struct {
    char bytes[16384];
    size_t n;
} text;
static char *stack_top;

static void put(const char *bytes)
{
    if (!bytes)
        return;
    size_t n = strnlen(bytes, NAME_MAX_LENGTH), room = sizeof text.bytes - text.n;
    n = n < room ? n : room;
    memcpy(text.bytes + text.n, bytes, n);
    text.n += n;
}

static void put_number(uint64_t number, unsigned base, unsigned width)
{
    char digits[24];
    unsigned at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number || sizeof digits - 1 - at < width);
    put(digits + at);
}

static void put_address(uintptr_t address)
{
    put("0x");
    put_number(address, 16, 1);
}

static void flush(void)
{
    gs_syscall(SYS_write, STDERR_FILENO, (long)text.bytes, (long)text.n, 0, 0, 0);
    text.n = 0;
}

/* ---- Names of functions: the dynamic symbols of the file that has the address ---- */

struct symbols {
    const ElfW(Sym) * table;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH: buckets, first symbol, words of the filter, shift */
};

static struct symbols symbols_of(const struct link_map *map)
{
    struct symbols symbols = {0};
    for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        void *pointer = (void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB)
            symbols.table = pointer;
        else if (entry->d_tag == DT_STRTAB)
            symbols.names = pointer;
        else if (entry->d_tag == DT_GNU_HASH)
            symbols.hash = pointer;
    }
    return symbols;
}

/* The last chain ends at the last symbol. */
static uint32_t count_symbols(const uint32_t *hash)
{
    const uint32_t *buckets = hash + 4 + (size_t)hash[2] * 2, *chains = buckets + hash[0];
    uint32_t last = 0;
    for (uint32_t i = 0; i < hash[0]; i++)
        last = buckets[i] > last ? buckets[i] : last;
    if (last < hash[1])
        return 0;
    while (!(chains[last - hash[1]] & 1))
        last++;
    return last + 1;
}

static const ElfW(Sym) *
    find_symbol(const struct symbols *symbols, const struct link_map *map, uintptr_t address)
{
    if (!symbols->table || !symbols->names || !symbols->hash)
        return NULL;
    uint32_t count = count_symbols(symbols->hash);
    for (uint32_t i = symbols->hash[1]; i < count; i++) {
        const ElfW(Sym) *symbol = &symbols->table[i];
        unsigned type = ELF64_ST_TYPE(symbol->st_info);
        if (symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) &&
            address - map->l_addr - symbol->st_value < symbol->st_size)
            return symbol;
    }
    return NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* pc: an address within the instruction. "function+offset (file+offset)" */
static void put_place(uintptr_t pc)
{
    struct dl_find_object object;
    put("    ");
    put_address(pc);
    if (_dl_find_object((void *)pc, &object)) {
        put("\n");
        return;
    }
    const struct link_map *map = object.dlfo_link_map;
    const struct symbols symbols = symbols_of(map);
    const ElfW(Sym) *symbol = find_symbol(&symbols, map, pc);
    if (symbol) {
        put(" ");
        put(symbols.names + symbol->st_name);
        put("+");
        put_address(pc - map->l_addr - symbol->st_value);
    }
    put(" (");
    put(base_name(*map->l_name ? map->l_name : program_invocation_name));
    put("+");
    put_address(pc - map->l_addr);
    put(")\n");
}

/* ---- Backtraces ---- */

struct walk {
    const struct task *task;
    jmp_buf failed;
    unsigned frames, max;
};
static struct walk *_Atomic walk_in_progress;

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *data)
{
    struct walk *walk = data;
    int is_exact = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &is_exact);
    if (!pc || walk->frames >= walk->max)
        return _URC_END_OF_STACK;
    if (pc - (uintptr_t)text_start < (uintptr_t)(etext - text_start))
        return _URC_NO_REASON;
    walk->frames++;
    put_place(is_exact ? pc : pc - 1);
    return _URC_NO_REASON;
}

static void put_backtrace(const struct task *task, unsigned max)
{
    struct walk walk = {.task = task, .max = max};
    if (!_setjmp(walk.failed)) {
        atomic_store(&walk_in_progress, &walk);
        _Unwind_Backtrace(on_frame, &walk);
    } else {
        put("    (the rest cannot be read)\n");
    }
    atomic_store(&walk_in_progress, NULL);
}

void gs_dump_fault(const struct task *task)
{
    struct walk *walk = atomic_load(&walk_in_progress);
    if (task && walk && walk->task == task)
        _longjmp(walk->failed, 1);
}

/* ---- What a task does ---- */

static void put_call(const struct task *task)
{
    const struct gs_call *call = gs_call_of(task->call);
    const long *arguments = task->call_arguments;
    if (task->call < 0) {
        put(task->call == CALL_LOCK        ? "mutex "
            : task->call == CALL_CONDITION ? "condition "
                                           : "semaphore ");
        put_address((uintptr_t)arguments[0]);
        return;
    }
    if (call)
        put(call->name);
    else
        put_number((uint64_t)task->call, 10, 1);
    for (int i = 0; i < ARGUMENTS_SHOWN; i++) {
        unsigned long value = (unsigned long)arguments[i];
        put(i ? ", " : "(");
        if (value < 1ul << 20)
            put_number(value, 10, 1);
        else
            put_address(value);
    }
    put(")");
}

static void put_owner(const struct task *task)
{
    if (task->call != CALL_LOCK)
        return;
    int owner = ((const pthread_mutex_t *)task->call_arguments[0])->__data.__owner;
    if (!owner)
        return;
    put(", held by thread ");
    put_number((unsigned)owner, 10, 1);
}

static void put_head(const struct task *task)
{
    put("thread ");
    put_number(task->tid, 10, 1);
    if (*task->name) {
        put(" \"");
        put(task->name);
        put("\"");
    }
}

/* Cycles of the processor are compared with the clock since the start. */
static uint64_t ns_since(uint64_t cycles)
{
    uint64_t now = __builtin_ia32_rdtsc(), all = now - gs_run.start_cycles;
    uint64_t all_ns = gs_clock_now() - gs_run.start_ns;
    return all && now > cycles ? (uint64_t)((double)(now - cycles) * (double)all_ns / (double)all)
                               : 0;
}

static void put_wait(const struct task *task)
{
    uint64_t us = ns_since(task->waits_since_cycles) / 1000;
    put(" has waited ");
    put_number(us / 1000, 10, 1);
    put(".");
    put_number(us % 1000, 10, 3);
    put(" ms in ");
    put_call(task);
    put_owner(task);
}

static void report(void *argument)
{
    const struct task *task = argument;
    put_head(task);
    if (task->is_waiting)
        put_wait(task);
    else
        put(" runs");
    put("\n");
    put_backtrace(task, FRAMES_MAX);
    flush();
}

static void report_calls(void *argument)
{
    put_backtrace(argument, FRAMES_OF_CALL);
    flush();
}

void gs_dump_calls(const struct task *task)
{
    gs_run_acquire(&lock);
    gs_run_call_on(stack_top, report_calls, (void *)(uintptr_t)task);
    gs_run_release(&lock);
}

/* Between the two a task of ours does not answer twice, and the receiver not for it. */
static bool take_request(struct task *task)
{
    return atomic_exchange(&task->must_dump, false);
}

void gs_dump_self(struct task *task)
{
    gs_run_acquire(&lock);
    if (take_request(task)) {
        gs_run_call_on(stack_top, report, task);
        atomic_fetch_sub(&missing, 1);
    }
    gs_run_release(&lock);
}

/* ---- The receiver's part ---- */

static void begin(void)
{
    unsigned count = 0;
    gs_run_acquire(&gs_tasks_lock);
    for (struct task *task = gs_tasks; task; task = task->next) {
        atomic_store(&task->must_dump, true);
        count++;
    }
    atomic_store(&missing, count);
    gs_run_release(&gs_tasks_lock);
    missing_before = count;
    patience = PATIENCE_TICKS;
    gs_run_acquire(&lock);
    put("gossamer run: ");
    put_number(count, 10, 1);
    put(count == 1 ? " thread\n" : " threads\n");
    flush();
    gs_run_release(&lock);
}

/* Under gs_tasks_lock, so that the task cannot end meanwhile. */
static void ask(struct task *task)
{
    int tid = atomic_load(&task->running_on);
    if (tid)
        gs_kick(tid);
    else if (task->thread)
        gs_thread_unpark(task->thread);
}

static void ask_all(void)
{
    gs_run_acquire(&gs_tasks_lock);
    for (struct task *task = gs_tasks; task; task = task->next)
        if (atomic_load(&task->must_dump))
            ask(task);
    gs_run_release(&gs_tasks_lock);
}

/* What is known of a task that has not answered. */
static void put_silent(const struct task *task)
{
    put_head(task);
    if (!task->thread)
        put(" has not started\n");
    else if (task->is_blocking)
        put(" blocks its worker in "), put_call(task), put("\n");
    else
        put(" is ready, or ends\n");
}

static void answer_for_all(void)
{
    gs_run_acquire(&lock);
    gs_run_acquire(&gs_tasks_lock);
    for (struct task *task = gs_tasks; task; task = task->next) {
        if (!take_request(task))
            continue;
        put_silent(task);
        flush();
    }
    gs_run_release(&gs_tasks_lock);
    gs_run_release(&lock);
    atomic_store(&missing, 0);
}

void gs_dump_ended(struct task *task)
{
    if (GS_UNLIKELY(take_request(task)))
        atomic_fetch_sub(&missing, 1);
}

bool gs_dump_tick(bool has_time_passed)
{
    bool is_new = atomic_exchange(&is_requested, false);
    if (is_new && !atomic_load(&missing))
        begin();
    unsigned now = atomic_load(&missing);
    if (!is_new && !missing_before)
        return false;
    patience = now == missing_before ? patience - has_time_passed : PATIENCE_TICKS;
    missing_before = now;
    if (now && patience)
        ask_all();
    else if (now)
        answer_for_all();
    if (atomic_load(&missing))
        return true;
    missing_before = 0;
    gs_run_acquire(&lock);
    put("gossamer run: end of the threads\n");
    flush();
    gs_run_release(&lock);
    return false;
}

void gs_dump_request(void)
{
    atomic_store(&is_requested, true);
}

/* ---- Start and end of the runtime ---- */

static void say_there_is_one(int number)
{
    (void)number;
    gs_run_acquire(&lock);
    put("gossamer run: 1 thread: the program has not created any\n");
    flush();
    gs_run_release(&lock);
}

void gs_dump_start_early(void)
{
    const struct kernel_action action = {.handler = (void *)(uintptr_t)say_there_is_one,
                                         .flags = SA_RESTORER_FLAG | SA_RESTART,
                                         .restorer = (void *)(uintptr_t)gs_run_restorer};
    if (gs_run.dump_signal)
        gs_syscall(SYS_rt_sigaction, gs_run.dump_signal, (long)&action, 0, sizeof action.mask, 0,
                   0);
}

bool gs_dump_is_early(const struct kernel_action *action)
{
    return action->handler == (void *)(uintptr_t)say_there_is_one;
}

static _Unwind_Reason_Code stop(struct _Unwind_Context *context, void *unused)
{
    (void)context, (void)unused;
    return _URC_END_OF_STACK;
}

/* The unwinder initializes itself at its first use. */
void gs_dump_start(void)
{
    gs_run.start_cycles = __builtin_ia32_rdtsc();
    gs_run.start_ns = gs_clock_now();
    if (!gs_run.dump_signal && !gs_run.explains)
        return;
    _Unwind_Backtrace(stop, NULL);
    if (stack_top)
        return;
    long address =
        gs_syscall(SYS_mmap, 0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address < 0)
        gs_report_refusal("there is no memory for dumps of the threads");
    stack_top = (char *)address + STACK;
}

void gs_dump_forget(void)
{
    lock = (struct gs_run_lock){0};
    text.n = 0;
    is_requested = false;
    missing = 0;
    missing_before = 0;
    walk_in_progress = NULL;
    gs_dump_start_early();
}
