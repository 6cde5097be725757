/* Tasks: how a thread of the program begins and ends. */
#include "compat/pthread/start/dump.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* What the runtime puts on a stack of the program's: its control block, for which it demands this
 * much. The task's own registers are elsewhere, on the program's stack. */
#define CONTROL_SIZE 2560u
#define SLAB ((size_t)256 << 10)
#define HASH 4096u
/* Beyond every process id of the kernel, and within what the id of a CPU time clock can hold: a
 * futex could hold more (FUTEX_TID_MASK). */
#define FIRST_TID (1u << 22)
#define TIDS ((1u << 28) - FIRST_TID - 1)
#define TIDS_OF_PROCESS 16384u

struct gs_run_lock gs_tasks_lock;
struct task *gs_tasks;

static struct task *free_tasks;
static struct task *by_tid[HASH]; /* linked by next_free, while the task lives */
static unsigned next_tid;
static char *slab, *slab_end;

/* ---- Tasks and their ids: under gs_tasks_lock ---- */

bool gs_task_is_tid(unsigned tid)
{
    return tid >= FIRST_TID || (gs_run.main_task && tid == gs_run.main_task->tid);
}

struct task *gs_task_find(unsigned tid)
{
    struct task *task = by_tid[tid % HASH];
    while (task && task->tid != tid)
        task = task->next_free;
    return task;
}

struct task *gs_task_find_pointer(const void *thread_pointer)
{
    struct task *task = gs_tasks;
    while (task && task->thread_pointer != thread_pointer)
        task = task->next;
    return task;
}

/* Different processes begin at different ids, as a mutex that they share names its owner by it. */
static unsigned new_tid(void)
{
    unsigned start = (unsigned)((uint64_t)gs_run.process_id * TIDS_OF_PROCESS % TIDS);
    unsigned tid;
    do
        tid = FIRST_TID + (start + next_tid++) % TIDS;
    while (gs_task_find(tid));
    return tid;
}

static struct task *carve(void)
{
    size_t size = (sizeof(struct task) + CONTROL_SIZE + 63) & ~(size_t)63;
    if ((size_t)(slab_end - slab) < size) {
        long address = gs_syscall(SYS_mmap, 0, SLAB, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (address < 0)
            return NULL;
        slab = (char *)address;
        slab_end = slab + SLAB;
    }
    struct task *task = (struct task *)slab;
    slab += size;
    task->control = (char *)(task + 1);
    return task;
}

static void link_task(struct task *task)
{
    task->next = gs_tasks;
    task->previous = &gs_tasks;
    if (gs_tasks)
        gs_tasks->previous = &task->next;
    gs_tasks = task;
    task->next_free = by_tid[task->tid % HASH];
    by_tid[task->tid % HASH] = task;
    task->is_live = true;
    atomic_fetch_add(&gs_run.live, 1);
    if (GS_UNLIKELY(gs_run.explains))
        gs_advice_count_threads();
}

static void unlink_task(struct task *task)
{
    *task->previous = task->next;
    if (task->next)
        task->next->previous = task->previous;
    struct task **at = &by_tid[task->tid % HASH];
    while (*at != task)
        at = &(*at)->next_free;
    *at = task->next_free;
    task->is_live = false;
}

/* tid 0: a new one. Signals of the process go to others until it has the mask of its parent. */
struct task *gs_task_new(unsigned tid)
{
    gs_run_acquire(&gs_tasks_lock);
    struct task *task = free_tasks;
    if (task)
        free_tasks = task->next_free;
    else
        task = carve();
    if (task) {
        char *control = task->control;
        *task = (struct task){.control = control,
                              .tid = tid ? tid : new_tid(),
                              .wake = WAKE_DONE,
                              .mask = ~(gs_signals)0,
                              .alternate_stack = {.ss_flags = SS_DISABLE}};
        link_task(task);
    }
    gs_run_release(&gs_tasks_lock);
    return task;
}

static void free_task(struct task *task)
{
    gs_signals_uncount(task);
    gs_run_acquire(&gs_tasks_lock);
    if (task->is_live)
        unlink_task(task);
    gs_dump_ended(task);
    gs_scheduling_free(task);
    task->next_free = free_tasks;
    free_tasks = task;
    gs_run_release(&gs_tasks_lock);
}

/* ---- Begin ---- */

void gs_task_begin(struct task *task)
{
    gs_task = task;
    gs_task_is_inside = true;
    task->thread = gs_thread_self();
    gs_carrier_attach(task);
    long result = 0;
    gs_task_leave(task, NULL, &result, -1);
}

/* On the worker, with its thread pointer: the stack and the thread-local storage of the task may be
 * freed as soon as the word is cleared. A task can be found until then, so that a wait for its word
 * is known to be one for its end. */
static void on_end(void *result)
{
    struct task *task = result;
    unsigned *word = task->clear_tid;
    if (word && !gs_run_probe(word)) {
        __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
        gs_futex_wake_at_end(word);
    }
    free_task(task);
}

int gs_task_spawn(struct task *task, const struct start_registers *start)
{
    enum { RED_ZONE = 128 };
    uintptr_t sp = (start->rsp - RED_ZONE - sizeof *start) & ~(uintptr_t)15;
    struct start_registers *copy = (struct start_registers *)sp;
    *copy = *start;
    copy->task = task;
    const struct gs_thread_start context = {
        .pc = (void *)(uintptr_t)gs_run_start, .sp = copy, .preserved = {(uintptr_t)copy}};
    const struct gs_thread_attributes attributes = {
        .name = "task",
        .migrates = true,
        .stack = task->control,
        .stack_size = CONTROL_SIZE,
        .start = &context,
        .thread_pointer = task->thread_pointer,
        .on_end = on_end,
    };
    return gs_wakeups_spawn(&attributes, task);
}

static void copy_registers(const ucontext_t *context, struct start_registers *ret_start)
{
    const greg_t *r = context->uc_mcontext.gregs;
    *ret_start = (struct start_registers){
        .r8 = (uint64_t)r[REG_R8],
        .r9 = (uint64_t)r[REG_R9],
        .r10 = (uint64_t)r[REG_R10],
        .r11 = (uint64_t)r[REG_R11],
        .r12 = (uint64_t)r[REG_R12],
        .r13 = (uint64_t)r[REG_R13],
        .r14 = (uint64_t)r[REG_R14],
        .r15 = (uint64_t)r[REG_R15],
        .rdi = (uint64_t)r[REG_RDI],
        .rsi = (uint64_t)r[REG_RSI],
        .rbp = (uint64_t)r[REG_RBP],
        .rbx = (uint64_t)r[REG_RBX],
        .rdx = (uint64_t)r[REG_RDX],
        .rip = (uint64_t)r[REG_RIP],
        .mxcsr = context->uc_mcontext.fpregs->mxcsr,
        .x87_control = context->uc_mcontext.fpregs->cwd,
    };
}

struct thread_request {
    unsigned long flags;
    uintptr_t stack, thread_pointer;
    unsigned *parent_tid, *child_tid;
};

static long new_thread(struct task *parent, const ucontext_t *context,
                       const struct thread_request *request)
{
    struct start_registers start;
    if (!(request->flags & CLONE_SETTLS) || !request->stack)
        return -EINVAL;
    struct task *task = gs_task_new(0);
    if (!task)
        return -EAGAIN;
    copy_registers(context, &start);
    start.rsp = request->stack;
    task->thread_pointer = (void *)request->thread_pointer;
    task->mask = atomic_load(&parent->mask);
    if (request->flags & CLONE_CHILD_CLEARTID)
        task->clear_tid = request->child_tid;
    if (request->flags & CLONE_CHILD_SETTID)
        *request->child_tid = task->tid;
    if (request->flags & CLONE_PARENT_SETTID)
        *request->parent_tid = task->tid;
    long tid = (long)task->tid;
    gs_signals_count(task, parent);
    gs_scheduling_inherit(task, parent);
    GS_COUNT(tasks);
    int err = gs_task_spawn(task, &start);
    if (!err)
        return tid;
    atomic_fetch_sub(&gs_run.live, 1);
    free_task(task);
    return -EAGAIN;
}

long gs_clone(struct task *task, ucontext_t *context)
{
    const greg_t *r = context->uc_mcontext.gregs;
    const struct thread_request request = {
        .flags = (unsigned long)r[REG_RDI],
        .stack = (uintptr_t)r[REG_RSI],
        .parent_tid = (unsigned *)r[REG_RDX],
        .child_tid = (unsigned *)r[REG_R10],
        .thread_pointer = (uintptr_t)r[REG_R8],
    };
    return new_thread(task, context, &request);
}

/* Only threads; the C library makes processes by clone if this does not. */
long gs_clone3(struct task *task, ucontext_t *context)
{
    const greg_t *r = context->uc_mcontext.gregs;
    const struct clone_args *arguments = (const struct clone_args *)r[REG_RDI];
    if ((size_t)r[REG_RSI] < offsetof(struct clone_args, set_tid) ||
        !(arguments->flags & CLONE_THREAD))
        return -ENOSYS;
    const struct thread_request request = {
        .flags = arguments->flags,
        .stack = (uintptr_t)(arguments->stack + arguments->stack_size),
        .parent_tid = (unsigned *)(uintptr_t)arguments->parent_tid,
        .child_tid = (unsigned *)(uintptr_t)arguments->child_tid,
        .thread_pointer = (uintptr_t)arguments->tls,
    };
    return new_thread(task, context, &request);
}

/* ---- End ---- */

/* It waits here or, if processes share the mutex, in the kernel. */
static void wake_one(const uint32_t *word)
{
    if (!gs_futex_wake(word, 1, FUTEX_BITSET_MATCH_ANY))
        gs_syscall(SYS_futex, (long)word, FUTEX_WAKE, 1, 0, 0, 0);
}

/* As the kernel does for the robust mutexes that a thread holds when it ends. */
static void release_robust(struct task *task, uint32_t *word, bool is_pending)
{
    uint32_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    if (is_pending && !(old & FUTEX_TID_MASK)) {
        wake_one(word);
        return;
    }
    while ((old & FUTEX_TID_MASK) == task->tid) {
        uint32_t changed = (old & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
        if (!__atomic_compare_exchange_n(word, &old, changed, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST))
            continue;
        if (old & FUTEX_WAITERS)
            wake_one(word);
        return;
    }
}

/* The last bit of a link says that the futex has priority inheritance. */
static struct robust_list *link_of(const struct robust_list *link)
{
    return (struct robust_list *)((uintptr_t)link & ~(uintptr_t)1);
}

static void release_all_robust(struct task *task)
{
    struct robust_list_head *head = task->robust_list, copy;
    struct robust_list next;
    if (!head || gs_run_copy(&copy, head, sizeof copy))
        return;
    struct robust_list *pending = link_of(copy.list_op_pending);
    struct robust_list *link = link_of(copy.list.next);
    for (unsigned i = 0; i < ROBUST_LIST_LIMIT && link != &head->list; i++) {
        uint32_t *word = (uint32_t *)((char *)link + copy.futex_offset);
        if (gs_run_copy(&next, link, sizeof next) || gs_run_probe(word))
            return;
        if (link != pending)
            release_robust(task, word, false);
        link = link_of(next.next);
    }
    uint32_t *word = (uint32_t *)((char *)pending + copy.futex_offset);
    if (pending && !gs_run_probe(word))
        release_robust(task, word, true);
}

static bool has_robust(const struct task *task)
{
    const struct robust_list_head *head = task->robust_list;
    struct robust_list_head copy;
    return head && !gs_run_copy(&copy, head, sizeof copy) &&
           (copy.list.next != &head->list || copy.list_op_pending);
}

/* Other tasks stop first if any holds one: what they lock afterwards would remain locked. */
void gs_tasks_release_robust(void)
{
    bool has_any = false;
    gs_run_acquire(&gs_tasks_lock);
    for (const struct task *task = gs_tasks; task && !has_any; task = task->next)
        has_any = has_robust(task);
    gs_run_release(&gs_tasks_lock);
    if (!has_any)
        return;
    gs_carriers_stop();
    gs_run_acquire(&gs_tasks_lock);
    for (struct task *task = gs_tasks; task; task = task->next)
        release_all_robust(task);
    gs_run_release(&gs_tasks_lock);
}

_Noreturn void gs_task_exit(struct task *task)
{
    long result = 0;
    if (atomic_fetch_sub(&gs_run.live, 1) == 1) {
        atomic_fetch_add(&gs_run.live, 1);
        /* The C library counts the threads of the runtime, too, and does not see the last end. It
         * has blocked everything already, and handlers of atexit have the thread's own mask. */
        if (atomic_load(&task->mask) & GS_INTERNAL_SIGNALS)
            gs_set_mask(task, task->counted_mask, false);
        gs_task_leave(task, NULL, &result, -1);
        exit(0);
    }
    release_all_robust(task);
    gs_condition_withdraw(task);
    gs_signals_end(task);
    gs_wakeups_settle(gs_carrier(), true);
    gs_thread_exit(task);
}

void gs_tasks_forget(void)
{
    gs_tasks = free_tasks = NULL;
    memset(by_tid, 0, sizeof by_tid);
    gs_tasks_lock = (struct gs_run_lock){0};
    gs_run.live = 0;
    next_tid = 0;
    slab = slab_end = NULL;
}
