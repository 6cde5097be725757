/* Signals of tasks: masks, actions, and which task a signal is for.
 *
 * The kernel has our handler for each signal for which the program has one, and the program's
 * setting otherwise. Workers block signals; the kernel thread that is the receiver takes those of
 * the process. Its mask is what all tasks block, so that a signal which nobody takes stays with the
 * kernel, where sigwait, signalfd and sigpending find it. A signal that has arrived is pending in a
 * task, and its handler is called when the task leaves for the program.
 *
 * counts[i] is the number of tasks that block signal i + 1. The C library blocks everything for a
 * moment, and at the end of a thread, which tells nothing of the program's intentions: such a mask
 * is not counted until the thread makes a call that may wait, as helpers of the C library do. It
 * contains a signal of the C library's, which programs cannot block. */
#include "compat/pthread/start/dump.h"
#include "compat/pthread/threads/task.h"
#include "src/base/chaos.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define UNBLOCKABLE (GS_SIGNAL(SIGKILL) | GS_SIGNAL(SIGSTOP))
#define FAULTS                                                                                     \
    (GS_SIGNAL(SIGSEGV) | GS_SIGNAL(SIGBUS) | GS_SIGNAL(SIGFPE) | GS_SIGNAL(SIGILL) |              \
     GS_SIGNAL(SIGTRAP))
#define FIRST_QUEUED 32 /* of those that are queued */

struct queued_signal {
    struct queued_signal *next;
    siginfo_t info;
    bool is_for_process;
};

static struct gs_run_lock lock; /* guards counts and counted_mask */
static unsigned counts[SIGNALS];
static unsigned long count_sum;   /* the sum of counts */
static gs_signals receivers_mask; /* which the receiver has, or will have soon */
static struct gs_run_lock actions_lock;
static struct kernel_action actions[SIGNALS];

/* ---- Masks ---- */

static void count_mask(struct task *task, gs_signals mask)
{
    gs_signals changed = task->counted_mask ^ mask;
    while (changed) {
        unsigned i = (unsigned)__builtin_ctzll(changed);
        counts[i] += mask >> i & 1 ? 1 : ~0u;
        count_sum += mask >> i & 1 ? 1 : ~0ul;
        changed &= changed - 1;
    }
    task->counted_mask = mask;
}

/* The caller holds the lock. */
static gs_signals blocked_by_all(void)
{
    gs_signals all = 0;
    unsigned live = atomic_load(&gs_run.live);
    for (unsigned i = 0; count_sum && i < SIGNALS; i++)
        all |= counts[i] && counts[i] >= live ? (gs_signals)1 << i : 0;
    return all;
}

gs_signals gs_blocked_by_all(void)
{
    gs_run_acquire(&lock);
    gs_signals all = receivers_mask = blocked_by_all();
    gs_run_release(&lock);
    return all;
}

gs_signals gs_signals_reserved(void)
{
    return GS_SIGNAL(KICK) | (gs_run.dump_signal ? GS_SIGNAL(gs_run.dump_signal) : 0);
}

static void pass_on(struct task *task, gs_signals set);
static void make_pending(struct task *task, int number, const siginfo_t *info, bool is_for_process);

/* What all have blocked, and is pending for the process, is delivered before the call that unblocks
 * it returns. Without a handler it is the kernel's to act. */
static void take_from_kernel(struct task *task, gs_signals unblocked)
{
    const struct timespec now = {0};
    siginfo_t info;
    gs_signals handled = 0;
    for (gs_signals rest = unblocked; rest; rest &= rest - 1) {
        const struct kernel_action action = gs_action_of(__builtin_ctzll(rest) + 1);
        handled |= gs_is_handler(&action) ? rest & -rest : 0;
    }
    while (handled) {
        long number = gs_syscall(SYS_rt_sigtimedwait, (long)&handled, (long)&info, (long)&now,
                                 sizeof handled, 0, 0);
        if (number <= 0)
            return;
        gs_run_acquire(&gs_tasks_lock);
        make_pending(task, (int)number, &info, true);
        gs_run_release(&gs_tasks_lock);
    }
}

void gs_signals_settle(struct task *task)
{
    take_from_kernel(task, ~atomic_load(&task->mask));
    gs_receiver_update(true);
}

static bool changes_receiver(gs_signals changed)
{
    unsigned live = atomic_load(&gs_run.live);
    bool changes = false;
    for (; changed; changed &= changed - 1) {
        unsigned count = counts[__builtin_ctzll(changed)];
        changes |= count >= live || count + 1 >= live;
    }
    return changes;
}

/* A sender that has seen the task's previous mask has made its signal pending when this returns: it
 * chooses the task under the lock. */
static void await_senders(void)
{
    gs_run_acquire(&gs_tasks_lock);
    gs_run_release(&gs_tasks_lock);
}

void gs_set_mask(struct task *task, gs_signals mask, bool is_internal)
{
    mask &= ~(UNBLOCKABLE | GS_SIGNAL(SIGSYS));
    gs_signals counted = mask & ~GS_INTERNAL_SIGNALS;
    atomic_store(&task->mask, mask);
    if (is_internal || counted == task->counted_mask)
        return;
    gs_run_acquire(&lock);
    gs_signals blocked = counted & ~task->counted_mask;
    gs_signals changed = counted ^ task->counted_mask;
    count_mask(task, counted);
    bool changes = changes_receiver(changed);
    gs_run_release(&lock);
    if (changes && changed & ~blocked)
        take_from_kernel(task, changed & ~blocked);
    if (changes)
        gs_receiver_update(blocked != 0);
    if (blocked)
        await_senders();
    if (atomic_load(&task->pending) & blocked)
        pass_on(task, blocked);
}

/* What was a moment becomes lasting, for a helper of the C library that waits for a signal, say. */
void gs_mask_lasts(struct task *task)
{
    gs_set_mask(task, atomic_load(&task->mask), false);
}

/* It may begin within the C library's moment, after which it has its parent's mask. */
void gs_signals_count(struct task *task, const struct task *parent)
{
    gs_run_acquire(&lock);
    count_mask(task, parent->counted_mask);
    gs_run_release(&lock);
}

void gs_signals_uncount(struct task *task)
{
    gs_run_acquire(&lock);
    count_mask(task, 0);
    bool is_needed = blocked_by_all() != receivers_mask;
    gs_run_release(&lock);
    if (is_needed)
        gs_receiver_update(false);
}

long gs_sigprocmask(struct task *task, const long *arguments)
{
    const gs_signals *set = (const gs_signals *)arguments[1];
    gs_signals *old = (gs_signals *)arguments[2];
    gs_signals mask = atomic_load(&task->mask), before = mask;
    if ((size_t)arguments[3] != sizeof mask)
        return -EINVAL;
    if (set) {
        switch (arguments[0]) {
        case SIG_BLOCK:
            mask |= *set;
            break;
        case SIG_UNBLOCK:
            mask &= ~*set;
            break;
        case SIG_SETMASK:
            mask = *set;
            break;
        default:
            return -EINVAL;
        }
        bool is_internal = arguments[0] != SIG_UNBLOCK && *set & GS_INTERNAL_SIGNALS;
        gs_set_mask(task, mask, is_internal);
    }
    if (old)
        *old = before;
    return 0;
}

/* ---- Actions ---- */

bool gs_is_handler(const struct kernel_action *action)
{
    return action->handler != (void *)SIG_DFL && action->handler != (void *)SIG_IGN;
}

struct kernel_action gs_action_of(int number)
{
    gs_run_acquire(&actions_lock);
    struct kernel_action action = actions[number - 1];
    gs_run_release(&actions_lock);
    return action;
}

/* Whether the kernel has our handler for it: also without one of the program's for faults. Our
 * accesses to its memory may cause them (gs_run_copy), and others end the process, which has robust
 * mutexes to release. */
static bool is_ours(int number, const struct kernel_action *action)
{
    bool may_be_fault = FAULTS & GS_SIGNAL(number);
    return gs_is_handler(action) || number == KICK || number == gs_run.dump_signal ||
           (may_be_fault && action->handler == (void *)SIG_DFL);
}

/* A fault in a handler must find its own handler; of others one comes at a time. Kicks, too: the
 * kernel would make a frame for each that is queued. */
static long tell_kernel(int number, const struct kernel_action *action)
{
    struct kernel_action ours = *action;
    bool is_fault = FAULTS & GS_SIGNAL(number);
    if (is_ours(number, action)) {
        ours.handler = (void *)(uintptr_t)gs_run_signal_entry;
        ours.flags = (action->flags & (SA_NOCLDSTOP | SA_NOCLDWAIT)) | SA_SIGINFO |
                     SA_RESTORER_FLAG | (is_fault ? (action->flags & SA_ONSTACK) | SA_NODEFER : 0) |
                     (number == KICK ? SA_ONSTACK : 0);
        ours.restorer = (void *)(uintptr_t)gs_run_restorer;
        /* In the receiver, one handler at a time: they take locks. In workers only a kick matters:
         * gs_signal_move is not to be interrupted. */
        ours.mask = is_fault ? GS_SIGNAL(KICK) : ~(FAULTS | GS_SIGNAL(SIGSYS) | UNBLOCKABLE);
    }
    return gs_syscall(SYS_rt_sigaction, number, (long)&ours, 0, sizeof ours.mask, 0, 0);
}

long gs_sigaction(struct task *task, const long *arguments)
{
    int number = (int)arguments[0];
    const struct kernel_action *action = (const struct kernel_action *)arguments[1];
    struct kernel_action *old = (struct kernel_action *)arguments[2];
    (void)task;
    if (number < 1 || number > SIGNALS || (size_t)arguments[3] != sizeof action->mask ||
        (action && UNBLOCKABLE & GS_SIGNAL(number)))
        return -EINVAL;
    struct kernel_action before = gs_action_of(number);
    if (action) {
        struct kernel_action copy = *action;
        copy.mask &= ~(UNBLOCKABLE | GS_SIGNAL(SIGSYS));
        gs_run_acquire(&actions_lock);
        actions[number - 1] = copy;
        long err = number == SIGSYS ? 0 : tell_kernel(number, &copy);
        gs_run_release(&actions_lock);
        if (err)
            return err;
    }
    if (old)
        *old = before;
    return 0;
}

/* ---- Sending ---- */

void gs_kick(int tid)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = KICK;
    info.si_code = -KICK;
    gs_syscall(SYS_rt_tgsigqueueinfo, gs_run.process_id, tid, KICK, (long)&info, 0, 0);
}

static bool is_blocked(const struct task *task, int number)
{
    return (atomic_load(&task->mask) & ~atomic_load(&task->wanted)) >> (number - 1) & 1;
}

/* Without memory a signal is pending without what is known of it. */
static void enqueue(struct task *task, int number, const siginfo_t *info, bool is_for_process)
{
    struct queued_signal *queued = malloc(sizeof *queued);
    if (!queued)
        return;
    memset(queued, 0, sizeof *queued);
    if (info) {
        queued->info = *info;
    } else {
        queued->info.si_code = SI_TKILL;
        queued->info.si_pid = gs_run.process_id;
    }
    queued->info.si_signo = number;
    queued->is_for_process = is_for_process;
    if (!task->queue)
        task->queue_end = &task->queue;
    *task->queue_end = queued;
    task->queue_end = &queued->next;
}

/* The caller holds gs_tasks_lock, under which the task lives. */
static void make_pending(struct task *task, int number, const siginfo_t *info, bool is_for_process)
{
    gs_signals signal = GS_SIGNAL(number);
    GS_COUNT(signals);
    if (number >= FIRST_QUEUED || !(atomic_load(&task->pending) & signal))
        enqueue(task, number, info, is_for_process);
    gs_chaos(CHAOS_PUBLISH);
    atomic_fetch_or(&task->pending, signal);
    gs_chaos(CHAOS_WAKE);
    int tid = atomic_load(&task->running_on);
    if (is_blocked(task, number))
        return;
    if (tid && task != gs_task)
        gs_kick(tid);
    else if (atomic_load(&task->waits_for_signals))
        gs_task_wake(task, WAKE_SIGNAL);
}

static bool is_ignored(int number)
{
    struct kernel_action action = gs_action_of(number);
    if (action.handler == (void *)SIG_IGN)
        return true;
    gs_signals by_default =
        GS_SIGNAL(SIGCHLD) | GS_SIGNAL(SIGURG) | GS_SIGNAL(SIGWINCH) | GS_SIGNAL(SIGCONT);
    return action.handler == (void *)SIG_DFL && by_default & GS_SIGNAL(number);
}

/* As the kernel: a signal that is blocked is not ignored, also while the task waits for it.
 * Programs that posix_spawn has started have those of the C library ignored, whose timers wait for
 * one. */
void gs_signal_task(struct task *task, int number, const siginfo_t *info)
{
    if (is_ignored(number) && !(atomic_load(&task->mask) & GS_SIGNAL(number)))
        return;
    make_pending(task, number, info, false);
}

/* As the kernel: the first thread if it does not block the signal, or else any that does not. */
static struct task *choose_task(int number)
{
    struct task *self = gs_task;
    if (gs_run.main_task && gs_run.main_task->is_live && !is_blocked(gs_run.main_task, number))
        return gs_run.main_task;
    if (self && self->is_live && !is_blocked(self, number))
        return self;
    struct task *task = gs_tasks;
    while (task && is_blocked(task, number))
        task = task->next;
    return task;
}

bool gs_signal_process(int number, const siginfo_t *info)
{
    gs_run_acquire(&gs_tasks_lock);
    struct task *task = choose_task(number);
    if (task)
        make_pending(task, number, info, true);
    gs_run_release(&gs_tasks_lock);
    return task;
}

enum sent_to { TO_TASK, TO_PROCESS, TO_EITHER };

static bool is_sent_to(const struct queued_signal *queued, enum sent_to to)
{
    return to == TO_EITHER || queued->is_for_process == (to == TO_PROCESS);
}

/* The caller holds gs_tasks_lock. */
static gs_signals queued_signals(const struct task *task, enum sent_to to)
{
    gs_signals set = 0;
    for (const struct queued_signal *queued = task->queue; queued; queued = queued->next)
        set |= is_sent_to(queued, to) ? GS_SIGNAL(queued->info.si_signo) : 0;
    return set;
}

/* Remove the first signal of the set from the queue. The caller holds gs_tasks_lock. */
static struct queued_signal *unqueue(struct task *task, gs_signals set, enum sent_to to)
{
    struct queued_signal **at = &task->queue;
    while (*at && (!(set & GS_SIGNAL((*at)->info.si_signo)) || !is_sent_to(*at, to)))
        at = &(*at)->next;
    struct queued_signal *found = *at;
    if (!found)
        return NULL;
    *at = found->next;
    if (!found->next)
        task->queue_end = at;
    struct queued_signal *other = task->queue;
    while (other && other->info.si_signo != found->info.si_signo)
        other = other->next;
    if (!other)
        atomic_fetch_and(&task->pending, ~GS_SIGNAL(found->info.si_signo));
    return found;
}

/* Only the process's first kernel thread may say who has sent it, if that was not by sigqueue. */
static void return_to_kernel(int number, const siginfo_t *info)
{
    const int pid = gs_run.process_id;
    if (gs_syscall(SYS_rt_sigqueueinfo, pid, number, (long)info, 0, 0, 0) == -EPERM)
        gs_syscall(SYS_kill, pid, number, 0, 0, 0, 0);
}

/* Signals of the process that the task does not take any more go to another one, or back to the
 * kernel. */
static void pass_on(struct task *task, gs_signals set)
{
    for (;;) {
        gs_run_acquire(&gs_tasks_lock);
        struct queued_signal *queued = unqueue(task, set, TO_PROCESS);
        gs_run_release(&gs_tasks_lock);
        if (!queued)
            return;
        int number = queued->info.si_signo;
        if (!gs_signal_process(number, &queued->info))
            return_to_kernel(number, &queued->info);
        free(queued);
    }
}

void gs_signals_end(struct task *task)
{
    struct queued_signal *queued;
    atomic_store(&task->mask, ~(gs_signals)0);
    await_senders();
    if (!atomic_load(&task->pending))
        return;
    pass_on(task, ~(gs_signals)0);
    gs_run_acquire(&gs_tasks_lock);
    while ((queued = unqueue(task, ~(gs_signals)0, TO_EITHER)))
        free(queued);
    gs_run_release(&gs_tasks_lock);
}

/* ---- Pending ---- */

gs_signals gs_deliverable(struct task *task)
{
    gs_signals pending = atomic_load(&task->pending);
    return GS_LIKELY(!pending) ? 0 : pending & ~atomic_load(&task->mask);
}

bool gs_has_signal(struct task *task)
{
    gs_signals pending = atomic_load(&task->pending);
    if (GS_LIKELY(!pending))
        return false;
    return pending & (~atomic_load(&task->mask) | atomic_load(&task->wanted));
}

/* As the kernel: the lowest number of those that were sent to the task, and then of the others. */
int gs_take_pending(struct task *task, gs_signals set, siginfo_t *ret_info)
{
    gs_signals found = atomic_load(&task->pending) & set;
    if (!found)
        return 0;
    gs_run_acquire(&gs_tasks_lock);
    gs_signals own = queued_signals(task, TO_TASK) & set;
    int number = __builtin_ctzll(own ? own : found) + 1;
    struct queued_signal *queued = unqueue(task, GS_SIGNAL(number), own ? TO_TASK : TO_EITHER);
    if (!queued)
        atomic_fetch_and(&task->pending, ~GS_SIGNAL(number));
    gs_run_release(&gs_tasks_lock);
    memset(ret_info, 0, sizeof *ret_info);
    if (queued)
        *ret_info = queued->info;
    ret_info->si_signo = number;
    free(queued);
    return number;
}

/* ---- Start, and the child of a fork ---- */

/* Returns the signals that are pending for the calling kernel thread alone. */
static gs_signals pending_for_thread(void)
{
    char text[4096];
    long fd = gs_syscall(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/status",
                         O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return 0;
    long n = gs_syscall(SYS_read, fd, (long)text, sizeof text - 1, 0, 0, 0);
    gs_sys_close((int)fd);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "\nSigPnd:");
    return line ? strtoull(line + strlen("\nSigPnd:"), NULL, 16) : 0;
}

/* The kernel thread becomes the receiver: what is pending for it alone would stay there. Of the
 * signals of a number, the kernel returns those of the thread first. */
static void take_over_pending(struct task *main_task)
{
    const struct timespec now = {0};
    gs_signals blocked = atomic_load(&main_task->mask), set;
    siginfo_t info;
    while ((set = pending_for_thread() & blocked)) {
        set &= -set;
        long number =
            gs_syscall(SYS_rt_sigtimedwait, (long)&set, (long)&info, (long)&now, sizeof set, 0, 0);
        if (number <= 0)
            return;
        make_pending(main_task, (int)number, &info, false);
    }
}

void gs_signals_start(struct task *main_task)
{
    struct kernel_action none = {.handler = (void *)SIG_DFL};
    for (int number = 1; number <= SIGNALS; number++) {
        struct kernel_action *action = &actions[number - 1];
        *action = none;
        gs_syscall(SYS_rt_sigaction, number, 0, (long)action, sizeof action->mask, 0, 0);
        if (number == gs_run.dump_signal && gs_dump_is_early(action))
            *action = none;
        if (is_ours(number, action))
            tell_kernel(number, action);
    }
    struct kernel_action ours = {.handler = (void *)(uintptr_t)gs_on_system_call,
                                 .flags = SA_SIGINFO | SA_NODEFER | SA_RESTORER_FLAG,
                                 .restorer = (void *)(uintptr_t)gs_run_restorer};
    gs_syscall(SYS_rt_sigaction, SIGSYS, (long)&ours, 0, sizeof ours.mask, 0, 0);
    gs_syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&main_task->mask, sizeof(gs_signals), 0, 0);
    gs_syscall(SYS_sigaltstack, 0, (long)&main_task->alternate_stack, 0, 0, 0, 0);
    gs_run_acquire(&lock);
    count_mask(main_task, atomic_load(&main_task->mask) & ~GS_INTERNAL_SIGNALS);
    gs_run_release(&lock);
    take_over_pending(main_task);
}

void gs_signals_forget(struct task *task)
{
    gs_signals mask = atomic_load(&task->mask);
    lock = actions_lock = (struct gs_run_lock){0};
    memset(counts, 0, sizeof counts);
    count_sum = 0;
    receivers_mask = 0;
    for (int number = 1; number <= SIGNALS; number++)
        if (number == SIGSYS || is_ours(number, &actions[number - 1]))
            gs_syscall(SYS_rt_sigaction, number, (long)&actions[number - 1], 0, sizeof mask, 0, 0);
    gs_syscall(SYS_sigaltstack, (long)&task->alternate_stack, 0, 0, 0, 0, 0);
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask, 0, 0);
}
