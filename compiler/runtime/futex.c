/* The system call futex, in programs that make it themselves. Threads that wait at a word are in
 * queues here; kernel threads, and other processes, in the kernel's. */
#include "compiler/runtime/shared_mutex.h"
#include "compiler/runtime/signals.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A bucket for several words: the progress of each thread is the address of its word. */
#define BUCKETS 256u
static struct bucket {
    atomic_flag lock;
    struct queue waiting;
} buckets[BUCKETS];

static struct bucket *bucket_of(const uint32_t *word)
{
    return &buckets[((uintptr_t)word >> 2) % BUCKETS];
}

static long fail(int err)
{
    errno = err;
    return -1;
}

/* ---- Waiting ---- */

/* Returns 0, EAGAIN: the thread has to wait, or -errno. Only the word tells what another process
 * has done. The caller holds the lock. */
static int look_or_queue(struct thread *self, struct bucket *bucket, const uint32_t *word,
                         uint32_t value, uint64_t deadline_ns, bool is_shared)
{
    bool has_changed = __atomic_load_n(word, __ATOMIC_SEQ_CST) != value;
    int err = 0;
    switch (self->phase) {
    case PHASE_NEW:
        if (has_changed)
            return -EAGAIN;
        gs_cc_signals_begin_wait(self);
        queue_append(&bucket->waiting, self);
        self->progress = (size_t)word;
        return EAGAIN;
    case PHASE_GRANTED:
        return 0;
    case PHASE_WAITING:
        if (gs_cc_is_interrupted(self, false))
            err = -EINTR;
        else if (!(is_shared && has_changed))
            err = is_late(deadline_ns) ? -ETIMEDOUT : EAGAIN;
        if (err != EAGAIN)
            queue_remove(&bucket->waiting, self);
        return err;
    default:
        return EAGAIN;
    }
}

static long wait_at(uint32_t *word, uint32_t value, uint64_t deadline_ns, bool is_shared)
{
    struct thread *self = thread_self();
    struct bucket *bucket = bucket_of(word);
    for (;;) {
        spin_lock(&bucket->lock);
        int err = look_or_queue(self, bucket, word, value, deadline_ns, is_shared);
        spin_unlock(&bucket->lock);
        if (err != EAGAIN) {
            gs_cc_complete(self);
            return err ? fail(-err) : 0;
        }
        uint64_t look_ns = is_shared ? gs_clock_after(gs_clock_now(), LOOK_NS) : GS_NEVER;
        if (gs_cc_wait_until(self, look_ns < deadline_ns ? look_ns : deadline_ns,
                             is_shared || gs_cc_has_handlers()))
            return 0;
    }
}

/* ---- Waking ---- */

static struct thread *take(const uint32_t *word)
{
    struct bucket *bucket = bucket_of(word);
    spin_lock(&bucket->lock);
    struct thread *thread = bucket->waiting.first;
    while (thread && thread->progress != (size_t)word)
        thread = thread->next;
    if (thread) {
        queue_remove(&bucket->waiting, thread);
        set_phase(thread, PHASE_CLAIMED);
    }
    spin_unlock(&bucket->lock);
    return thread;
}

static long wake(const uint32_t *word, uint32_t count)
{
    uint32_t woken = 0;
    struct thread *thread;
    while (woken < count && (thread = take(word))) {
        grant(thread);
        woken++;
    }
    return woken;
}

/* ---- The call ---- */

struct call {
    uint32_t *word;
    int operation;
    uint32_t value;
    const struct timespec *time; /* or a number */
    uint32_t *other;
    uint32_t last;
};

static long call_kernel(const struct call *call)
{
    return syscall(SYS_futex, call->word, call->operation, call->value, call->time, call->other,
                   call->last);
}

static uint64_t deadline_of(struct thread *self, const struct call *call, int command)
{
    if (!call->time)
        return GS_NEVER;
    if (command == FUTEX_WAIT_BITSET)
        return gs_cc_from_clock(
            call->operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, call->time);
    uint64_t wait_ns = gs_cc_from_clock(CLOCK_MONOTONIC, call->time);
    return wait_ns == GS_NEVER ? GS_NEVER
                               : gs_cc_deadline(self, gs_clock_after(gs_clock_now(), wait_ns));
}

/* Those that would be moved to another word are woken: they look, and wait there by themselves. */
static long wake_or_move(const struct call *call, bool compares)
{
    uint32_t others = (uint32_t)(uintptr_t)call->time;
    uint32_t all = call->value > UINT32_MAX - others ? UINT32_MAX : call->value + others;
    if (compares && __atomic_load_n(call->word, __ATOMIC_SEQ_CST) != call->last)
        return fail(EAGAIN);
    long woken = wake(call->word, all), result = call_kernel(call);
    return result < 0 ? result : result + woken;
}

/* syscall with SYS_futex: the plugin calls it instead. */
long gs_cc___futex(long number, ...)
{
    struct thread *self = thread_self();
    struct call call;
    va_list list;
    va_start(list, number);
    call.word = va_arg(list, uint32_t *);
    call.operation = va_arg(list, int);
    call.value = va_arg(list, uint32_t);
    call.time = va_arg(list, const struct timespec *);
    call.other = va_arg(list, uint32_t *);
    call.last = va_arg(list, uint32_t);
    va_end(list);
    int command = call.operation & FUTEX_CMD_MASK;
    bool is_shared = !(call.operation & FUTEX_PRIVATE_FLAG);
    switch (command) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
        if (!self)
            return call_kernel(&call);
        if (call.time && !is_valid_time(call.time))
            return fail(EINVAL);
        return wait_at(call.word, call.value, deadline_of(self, &call, command), is_shared);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: {
        long woken = wake(call.word, call.value);
        call.value -= (uint32_t)woken;
        long result = call.value ? call_kernel(&call) : 0;
        return result < 0 ? result : result + woken;
    }
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
        return wake_or_move(&call, command == FUTEX_CMP_REQUEUE);
    default:
        return call_kernel(&call);
    }
}
