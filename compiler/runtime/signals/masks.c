/* Masks of signals. The kernel delivers the signals of the process to the first worker, and all
 * other kernel threads block them. Its mask is what all threads block: so a signal stays pending as
 * long as it would with POSIX threads, and otherwise its handler runs.
 *
 * Another worker changes that mask by a signal of its own to the first one, whose handler sets it:
 * when the thread continues, the mask is in effect. */
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/own_signals.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/threads/threads.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Threads with a mask, by mask. */
struct kind {
    uint64_t mask;
    unsigned long count;
    struct kind *next;
};

_Thread_local struct plain_count gs_cc_plain __attribute__((tls_model("initial-exec")));
atomic_bool gs_cc_has_masks;

static atomic_flag lock = ATOMIC_FLAG_INIT; /* of what follows, and of masks */
static struct kind *kinds;
static struct plain_count *counts;

/* What all threads block, and the number of the change; what the first worker has. */
static _Atomic(uint64_t) common;
static atomic_uint changes, applied;
static pthread_t first_worker;

uint64_t gs_cc_signal_bits(const sigset_t *set)
{
    uint64_t bits;
    memcpy(&bits, set, sizeof bits);
    return bits;
}

sigset_t gs_cc_signal_set(uint64_t bits)
{
    sigset_t set;
    sigemptyset(&set);
    memcpy(&set, &bits, sizeof bits);
    return set;
}

uint64_t gs_cc_mask_of(const struct thread *thread)
{
    return thread->has_mask ? atomic_load(&thread->extra->mask) : 0;
}

/* ---- The mask of the first worker ---- */

static sigset_t real_mask(void)
{
    int own = gs_cc_own_signal(OWN_MASK);
    return gs_cc_signal_set(atomic_load(&common) & ~(own ? gs_cc_signal_bit(own) : 0));
}

static bool is_first_worker(void)
{
    return pthread_equal(pthread_self(), first_worker);
}

/* By the first worker. Its own signal may come in between, and set a later mask. */
static void apply(void)
{
    unsigned change;
    do {
        change = atomic_load(&changes);
        const sigset_t mask = real_mask();
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
        atomic_store(&applied, change);
    } while (change != atomic_load(&changes));
}

static void on_own_signal(int number, siginfo_t *information, void *context)
{
    (void)number, (void)information;
    unsigned change = atomic_load(&changes);
    const sigset_t mask = real_mask();
    memcpy(&((ucontext_t *)context)->uc_sigmask, &mask, sizeof(uint64_t));
    atomic_store(&applied, change);
}

/* The first worker answers as soon as it has a CPU. */
static void ask_first_worker(unsigned change)
{
    enum { YIELDS = 200, SLEEPS = 1000 };
    int own = gs_cc_own_signal(OWN_MASK);
    if (!own || pthread_kill(first_worker, own))
        return;
    for (int turn = 0; (int)(atomic_load(&applied) - change) < 0 && turn < YIELDS + SLEEPS; turn++)
        turn < YIELDS ? sched_yield() : usleep(1000);
}

void gs_cc_masks_apply(void)
{
    if (is_first_worker())
        apply();
}

/* ---- What all threads block ---- */

void gs_cc_masks_list(struct plain_count *count)
{
    spin_lock(&lock);
    count->is_listed = true;
    count->next = counts;
    counts = count;
    spin_unlock(&lock);
}

static bool has_plain_threads(void)
{
    long sum = 0;
    for (const struct plain_count *at = counts; at; at = at->next)
        sum += atomic_load_explicit(&at->count, memory_order_relaxed);
    return sum > 0;
}

/* Returns whether the mask has changed. With no threads left it stays as it is. */
static bool compute(void)
{
    uint64_t mask = UINT64_MAX;
    bool has_threads = false;
    if (has_plain_threads())
        has_threads = true, mask = 0;
    for (const struct kind *kind = kinds; kind; kind = kind->next)
        if (kind->count)
            has_threads = true, mask &= kind->mask;
    if (!has_threads || mask == atomic_load(&common))
        return false;
    atomic_store(&common, mask);
    atomic_fetch_add(&changes, 1);
    return true;
}

static void update(void)
{
    spin_lock(&lock);
    bool has_changed = compute();
    unsigned change = atomic_load(&changes);
    spin_unlock(&lock);
    if (!has_changed)
        return;
    if (is_first_worker())
        apply();
    else
        ask_first_worker(change);
}

static struct kind *find_kind(uint64_t mask)
{
    struct kind *unused = NULL;
    for (struct kind *kind = kinds; kind; kind = kind->next) {
        if (kind->count && kind->mask == mask)
            return kind;
        if (!kind->count)
            unused = kind;
    }
    if (!unused) {
        unused = gs_cc_allocate(sizeof *unused);
        unused->next = kinds;
        kinds = unused;
    }
    unused->mask = mask;
    unused->count = 0;
    return unused;
}

/* Another worker counts a thread that ends before it looks at gs_cc_has_masks; the barrier, and not
 * one for each thread that ends, keeps both in order. */
static void note_masks(void)
{
    if (atomic_load_explicit(&gs_cc_has_masks, memory_order_relaxed))
        return;
    atomic_store(&gs_cc_has_masks, true);
    if (gs_cc_workers > 1)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

/* The thread has this mask from now on; the caller updates what all threads block. */
static void give(struct thread *thread, uint64_t mask)
{
    struct extra *extra = gs_cc_extra(thread);
    note_masks();
    spin_lock(&lock);
    if (thread->has_mask)
        find_kind(extra->mask)->count--;
    atomic_store(&extra->mask, mask);
    if (mask)
        find_kind(mask)->count++;
    thread->has_mask = mask != 0;
    spin_unlock(&lock);
}

void gs_cc_mask_set(struct thread *self, uint64_t mask)
{
    mask &= ~(gs_cc_signal_bit(SIGKILL) | gs_cc_signal_bit(SIGSTOP));
    if (mask == gs_cc_mask_of(self))
        return;
    bool had_mask = self->has_mask;
    give(self, mask);
    if (had_mask != self->has_mask)
        gs_cc_masks_count(had_mask ? 1 : -1);
    update();
    gs_cc_deliver_pending(self);
}

void gs_cc_masks_new(struct thread *thread, const pthread_attr_t *attributes)
{
    const struct thread *self = thread_self();
    uint64_t mask = self ? gs_cc_mask_of(self) : 0;
    sigset_t wanted;
    if (attributes && !pthread_attr_getsigmask_np(attributes, &wanted))
        mask = gs_cc_signal_bits(&wanted);
    if (!mask) {
        gs_cc_masks_count(1);
        if (self && self->has_mask)
            update();
        return;
    }
    give(thread, mask);
    update();
}

void gs_cc_masks_end(struct thread *thread)
{
    if (!thread->has_mask) {
        gs_cc_masks_count(-1);
    } else {
        spin_lock(&lock);
        find_kind(thread->extra->mask)->count--;
        thread->has_mask = false;
        spin_unlock(&lock);
    }
    if (atomic_load_explicit(&gs_cc_has_masks, memory_order_relaxed))
        update();
}

void gs_cc_masks_start(struct thread *self, bool has_mask)
{
    sigset_t mask;
    uint64_t bits = gs_cc_mask_of(self);
    if (!has_mask) {
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        bits = gs_cc_signal_bits(&mask);
    }
    atomic_flag_clear(&lock);
    counts = NULL;
    kinds = NULL; /* in the child of a fork, another thread may have had it in its hands */
    gs_cc_plain.is_listed = false;
    atomic_store(&gs_cc_plain.count, 0);
    self->has_mask = false;
    first_worker = pthread_self();
    if (gs_cc_workers > 1)
        gs_cc_own_signal_start(OWN_MASK, on_own_signal, SA_RESTART);
    if (bits)
        give(self, bits);
    else
        gs_cc_masks_count(1);
    spin_lock(&lock);
    compute();
    spin_unlock(&lock);
    apply();
}

/* ---- Other masks for a system call ---- */

bool gs_cc_masks_block_pipe(void)
{
    const struct thread *self = thread_self();
    const sigset_t set = gs_cc_signal_set(gs_cc_signal_bit(SIGPIPE));
    bool blocks = self && gs_cc_mask_of(self) & gs_cc_signal_bit(SIGPIPE) && is_first_worker();
    if (blocks)
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    return blocks;
}

void gs_cc_masks_unblock_pipe(bool was_blocked)
{
    if (was_blocked)
        apply();
}

sigset_t gs_cc_masks_lend(void)
{
    const struct thread *self = thread_self();
    sigset_t before;
    if (self) {
        const sigset_t mask = gs_cc_signal_set(gs_cc_mask_of(self));
        pthread_sigmask(SIG_SETMASK, &mask, &before);
    } else {
        pthread_sigmask(SIG_SETMASK, NULL, &before);
    }
    return before;
}

void gs_cc_masks_return(const sigset_t *before)
{
    int err = errno;
    if (is_first_worker() && thread_self())
        apply();
    else
        pthread_sigmask(SIG_SETMASK, before, NULL);
    errno = err;
}

/* ---- Whom a signal interrupts ---- */

struct search {
    int number;
    struct thread *thread;
};

/* Threads without a mask are only looked at while no other worker can end them. */
static bool look_at(struct thread *thread, void *argument)
{
    struct search *search = argument;
    bool has_ended = atomic_load(&thread->join) == JOIN_DONE;
    bool waits = thread->stack || atomic_load(&thread->phase) != PHASE_NEW;
    if (has_ended || !waits || (!thread->has_mask && gs_cc_workers > 1) ||
        gs_cc_mask_of(thread) & gs_cc_signal_bit(search->number))
        return true;
    bool is_replaced = thread->extra && thread->extra->replaced_mask;
    if (is_replaced || !search->thread)
        search->thread = thread;
    return !is_replaced;
}

void gs_cc_masks_find(int number, void (*found)(struct thread *thread, int flags), int flags)
{
    struct search search = {.number = number};
    spin_lock(&lock);
    gs_cc_each_thread(look_at, &search);
    if (search.thread)
        found(search.thread, flags);
    spin_unlock(&lock);
}

struct thread *gs_cc_masks_try_find(int number)
{
    struct search search = {.number = number};
    if (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        return NULL;
    gs_cc_each_thread(look_at, &search);
    atomic_flag_clear_explicit(&lock, memory_order_release);
    return search.thread;
}
