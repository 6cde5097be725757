/* Cycles of waits among threads while others run: each thread waits without a deadline for
 * something that the next one holds, so none of them can continue. A wait that can be canceled
 * counts, unless its thread was canceled already.
 *
 * Other kernel threads may run the threads meanwhile, end them, and free the objects at which they
 * wait. So control blocks and objects are copied by the kernel, which returns an error if the
 * memory was unmapped; and a cycle is a candidate until a second look, some milliseconds later,
 * finds each thread in the same wait. A thread that was in the same wait at both looks has neither
 * acquired nor released anything in between. So when the second look starts, all threads wait, and
 * what each one waits for is held by the next one.
 *
 * Two waits are the same if they started at the same time, by the clock of the worker's loop. A
 * later wait on that worker cannot have started at that time if the clock had advanced at the first
 * look, or if the worker has not switched between the looks. */
#include "thread/backtrace.h"
#include "thread/monitor_files.h"
#include "thread/stacks.h"

#include <gossamer/sys.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Longer cycles are not found; and more of them at the same time are not reported. */
#define CYCLE_MAX 32u
#define CANDIDATES_MAX 32u
/* The monitor reports at most so many in a run. */
#define REPORTED_MAX 64u
#define SECOND_LOOK_NS (5 * GS_MILLISECOND)

struct link {
    const struct gs_thread *thread, *blocker;
    const struct wait_kind *kind;
    const void *object;
    const struct worker *worker;
    uint64_t start_ns;
    char name[NAME_SIZE];
};

/* Its first thread is the one with the lowest address. */
struct cycle {
    unsigned count;
    struct link links[CYCLE_MAX];
    uint64_t waits;    /* a hash of the waits */
    uint32_t past;     /* bit n: the worker's clock has advanced since the wait of link n started */
    uint64_t switches; /* a hash of how often the workers of the other links have switched */
};
_Static_assert(CYCLE_MAX <= 32, "a bit for each link");

struct candidate {
    const struct gs_thread *first;
    uint64_t start_ns; /* of its wait */
    uint64_t waits, switches;
    uint32_t past;
};

/* ---- What a thread waits for ---- */

static bool copy_memory(void *to, const void *from, size_t n)
{
    const struct iovec target = {.iov_base = to, .iov_len = n},
                       source = {.iov_base = (void *)(uintptr_t)from, .iov_len = n};
    return gs_syscall(SYS_process_vm_readv, getpid(), (long)&target, 1, (long)&source, 1, 0) ==
           (long)n;
}

/* The object is valid if no thread can run. */
static bool read_object(void *to, const void *from, size_t n, bool can_run)
{
    if (can_run)
        return copy_memory(to, from, n);
    memcpy(to, from, n);
    return true;
}

/* The thread whose stack or control block contains the address; NULL: none. */
static struct gs_thread *thread_holding(uintptr_t address)
{
    const char *at = (const char *)address;
    struct gs_thread *found = gs_stacks_find(at);
    /* Most addresses are those of control blocks. A stack of the program's own may be within one of
     * ours. */
    if ((const char *)found == at)
        return found;
    struct gs_thread *outer = found && thread_contains(found, address) ? found : NULL;
    found = NULL;
    spin_lock_always(&gs_runtime.user_stack_lock);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads) {
        struct gs_thread *thread = gs_container_of(link, struct gs_thread, link);
        if (thread_contains(thread, address))
            found = thread;
    }
    spin_unlock_always(&gs_runtime.user_stack_lock);
    return found ? found : outer;
}

static struct gs_thread *holder_of_mutex(const void *object, bool can_run)
{
    struct gs_mutex mutex;
    if (!read_object(&mutex, object, sizeof mutex, can_run))
        return NULL;
    uintptr_t owner = atomic_load(&mutex.owner) & ~GS_MUTEX_CONTENDED;
    return owner ? thread_holding(owner) : NULL;
}

/* A reader that waits for another reader is behind a writer that waits, and can continue if that
 * one gives up. The holder is unknown if there are several readers. The exclusive or of the
 * addresses is that of the holder only if each thread that locks also unlocks. */
static struct gs_thread *holder_of_rwlock(const void *object, bool must_be_writer, bool can_run)
{
    struct gs_rwlock rwlock;
    if (!read_object(&rwlock, object, sizeof rwlock, can_run))
        return NULL;
    bool has_one_holder = rwlock.has_writer || (rwlock.readers == 1 && !must_be_writer);
    struct gs_thread *thread = has_one_holder ? thread_holding(rwlock.holders) : NULL;
    return (uintptr_t)thread == rwlock.holders ? thread : NULL;
}

static struct gs_thread *runner_of_once(const void *object, bool can_run)
{
    struct gs_once once;
    return read_object(&once, object, sizeof once, can_run) ? once.runner : NULL;
}

struct gs_thread *gs_blocker_in_wait(const struct wait_kind *kind, const void *object, bool can_run)
{
    switch (kind->holder) {
    case HOLDER_THREAD:
        return (struct gs_thread *)(uintptr_t)object;
    case HOLDER_MUTEX:
        return holder_of_mutex(object, can_run);
    case HOLDER_RWLOCK:
        return holder_of_rwlock(object, false, can_run);
    case HOLDER_WRITER:
        return holder_of_rwlock(object, can_run, can_run);
    case HOLDER_ONCE:
        return runner_of_once(object, can_run);
    default:
        return NULL;
    }
}

/* ---- Looking at a thread ---- */

/* Both are copies. */
static bool may_be_blocked(const struct gs_thread *thread, const struct wait_kind *kind)
{
    bool is_canceled = atomic_load(&thread->cancel) != CANCEL_NONE && !thread->is_uncancelable &&
                       !thread->wait_ignores_cancel && !kind->ignores_cancel;
    return kind->holder != HOLDER_UNKNOWN && !is_canceled;
}

static bool is_worker(const struct worker *worker)
{
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        if (gs_runtime.workers[i] == worker)
            return true;
    return false;
}

/* Whether the thread is still in the wait that is described by the copy of its control block. */
static bool is_still_waiting(const struct gs_thread *thread, const struct gs_thread *copy)
{
    struct gs_thread now;
    return copy_memory(&now, thread, sizeof now) && thread_is_waiting(&now) &&
           now.wait_kind == copy->wait_kind && now.wait_object == copy->wait_object &&
           now.wait_start_ns == copy->wait_start_ns && now.deadline_ns == GS_NEVER;
}

/* The thread may have ended, and its control block be unmapped if its stack was the program's own.
 * It is read again after the object, so that it has waited while that was read. */
static bool look(const struct gs_thread *thread, struct link *ret_link)
{
    struct gs_thread copy;
    struct wait_kind kind;
    if (!copy_memory(&copy, thread, sizeof copy) || !copy.is_live || copy.is_done ||
        !thread_is_waiting(&copy) || copy.deadline_ns != GS_NEVER || !is_worker(copy.worker) ||
        !copy_memory(&kind, copy.wait_kind, sizeof kind) || !may_be_blocked(&copy, &kind))
        return false;
    *ret_link = (struct link){
        .thread = thread,
        .blocker = gs_blocker_in_wait(&kind, copy.wait_object, true),
        .kind = copy.wait_kind,
        .object = copy.wait_object,
        .worker = copy.worker,
        .start_ns = copy.wait_start_ns,
    };
    memcpy(ret_link->name, copy.name, NAME_SIZE - 1);
    return ret_link->blocker && is_still_waiting(thread, &copy);
}

static void add_to_hash(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * 0x9e3779b97f4a7c15u;
    *hash ^= *hash >> 29;
}

/* switches and countdown change with each switch of the worker (worker.c), and never return to both
 * of their values. past: of the first look; NULL: this is the first look. */
NOT_FOR_TSAN static void add_link(struct cycle *cycle, const struct link *link,
                                  const uint32_t *past)
{
    uint32_t bit = 1u << cycle->count++;
    struct worker *worker = (struct worker *)(uintptr_t)link->worker;
    const uint64_t *now_ns = *(const uint64_t *const volatile *)&worker->now_ns;
    add_to_hash(&cycle->waits, (uintptr_t)link->thread);
    add_to_hash(&cycle->waits, (uintptr_t)link->blocker);
    add_to_hash(&cycle->waits, (uintptr_t)link->kind);
    add_to_hash(&cycle->waits, (uintptr_t)link->object);
    add_to_hash(&cycle->waits, (uintptr_t)link->worker);
    add_to_hash(&cycle->waits, link->start_ns);
    if (past ? *past & bit : *(const volatile uint64_t *)now_ns > link->start_ns) {
        cycle->past |= bit;
        return;
    }
    add_to_hash(&cycle->switches, count_read(&worker->switches));
    add_to_hash(&cycle->switches, (uint64_t)*(volatile int *)&worker->countdown);
}

/* Follow the chain that starts with the thread. Returns whether it leads back to the thread, which
 * is the first one of the cycle. past: as for add_link. */
static bool find_cycle(const struct gs_thread *first, const uint32_t *past, struct cycle *ret_cycle)
{
    const struct gs_thread *at = first;
    ret_cycle->count = 0;
    ret_cycle->past = 0;
    ret_cycle->waits = ret_cycle->switches = 0;
    do {
        struct link *link = &ret_cycle->links[ret_cycle->count];
        if (at < first || ret_cycle->count == CYCLE_MAX || !look(at, link))
            return false;
        add_link(ret_cycle, link, past);
        at = link->blocker;
    } while (at != first);
    return true;
}

/* ---- All threads ---- */

/* Whether it is worth a look. Its control block must be mapped. No atomic operation reads it: the
 * thread sanitizer would compare that with the plain stores of a thread that starts. */
NOT_FOR_TSAN static bool is_worth_a_look(const struct gs_thread *thread)
{
    const volatile struct gs_thread *at = thread;
    const struct wait_kind *kind = at->wait_kind;
    int claim = *(const volatile int *)&thread->claim;
    return at->is_live && claim == CLAIM_WAITING && at->deadline_ns == GS_NEVER && kind &&
           kind->holder != HOLDER_UNKNOWN;
}

struct search {
    struct candidate candidates[CANDIDATES_MAX];
    unsigned count;
    bool (*is_known)(const struct gs_thread *first, uint64_t start_ns); /* NULL: none is */
};

static void look_from(struct search *search, const struct gs_thread *first)
{
    struct cycle cycle;
    if (search->count == CANDIDATES_MAX || !find_cycle(first, NULL, &cycle))
        return;
    if (search->is_known && search->is_known(first, cycle.links[0].start_ns))
        return;
    search->candidates[search->count++] =
        (struct candidate){first, cycle.links[0].start_ns, cycle.waits, cycle.switches, cycle.past};
}

#define BATCH_SIZE 32u

/* Collect threads of the list, from position *at on. When the lock is released, their control
 * blocks may be unmapped. */
static unsigned collect_user_stacks(size_t *at, const struct gs_thread **ret_batch)
{
    size_t position = 0;
    unsigned count = 0;
    spin_lock_always(&gs_runtime.user_stack_lock);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads) {
        const struct gs_thread *thread = gs_container_of(link, struct gs_thread, link);
        if (position++ < *at || count == BATCH_SIZE)
            continue;
        *at = position;
        if (is_worth_a_look(thread))
            ret_batch[count++] = thread;
    }
    spin_unlock_always(&gs_runtime.user_stack_lock);
    return count;
}

static void find_candidates(struct search *search)
{
    const struct gs_thread *thread, *batch[BATCH_SIZE];
    size_t at = 0;
    unsigned count;
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            if (is_worth_a_look(thread))
                look_from(search, thread);
    while ((count = collect_user_stacks(&at, batch)))
        for (unsigned i = 0; i < count; i++)
            look_from(search, batch[i]);
}

/* ---- Reports ---- */

static void print_cycle(int fd, const struct cycle *cycle)
{
    if (cycle->count == 1)
        gs_report_printf(fd, "deadlock of one thread:");
    else
        gs_report_printf(fd, "deadlock among %u threads:", cycle->count);
    for (unsigned i = 0; i < cycle->count; i++) {
        const struct link *link = &cycle->links[i], *next = &cycle->links[(i + 1) % cycle->count];
        gs_report_printf(fd, "%s \"%s\" waits for %s of \"%s\"", i ? "," : "", link->name,
                         link->kind->name, next->name);
    }
    gs_report_printf(fd, "\n");
}

/* The second look. */
static bool is_confirmed(const struct candidate *candidate, struct cycle *ret_cycle)
{
    return find_cycle(candidate->first, &candidate->past, ret_cycle) &&
           ret_cycle->waits == candidate->waits && ret_cycle->switches == candidate->switches;
}

static void pause_until_second_look(void)
{
    const struct timespec time = {.tv_nsec = SECOND_LOOK_NS};
    gs_syscall(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
}

void gs_cycles_print(int fd, bool is_stable)
{
    struct search search = {.count = 0};
    struct cycle cycle;
    find_candidates(&search);
    if (search.count && !is_stable)
        pause_until_second_look();
    for (unsigned i = 0; i < search.count; i++)
        if (is_confirmed(&search.candidates[i], &cycle))
            print_cycle(fd, &cycle);
}

/* ---- Called by the monitor ---- */

static struct {
    const struct gs_thread *first;
    uint64_t start_ns;
} reported[REPORTED_MAX];
static unsigned reported_count;

void gs_cycles_reset(void)
{
    reported_count = 0;
}

static bool is_reported(const struct gs_thread *first, uint64_t start_ns)
{
    bool is_known = reported_count == REPORTED_MAX;
    for (unsigned i = 0; i < reported_count; i++)
        is_known |= reported[i].first == first && reported[i].start_ns == start_ns;
    return is_known;
}

void gs_cycles_report(void)
{
    struct search search = {.is_known = is_reported};
    struct cycle cycle;
    find_candidates(&search);
    if (search.count)
        pause_until_second_look();
    for (unsigned i = 0; i < search.count && reported_count < REPORTED_MAX; i++) {
        const struct candidate *candidate = &search.candidates[i];
        if (!is_confirmed(candidate, &cycle))
            continue;
        reported[reported_count].first = candidate->first;
        reported[reported_count++].start_ns = candidate->start_ns;
        gs_monitor_files_borrow(gs_report_fd());
        print_cycle(gs_report_fd(), &cycle);
        gs_monitor_files_return(gs_report_fd());
    }
}
