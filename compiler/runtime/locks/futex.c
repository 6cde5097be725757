/* The system call futex, in programs that make it themselves. Threads that wait at a word are in
 * queues here; kernel threads, and other processes, in the kernel's. */
#include "compiler/runtime/locks/shared_mutex.h"
#include "compiler/runtime/signals/signals.h"
#include "src/base/futex_op.h"

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

enum { ALL_BITS = -1 };

static struct bucket *bucket_of(const uint32_t *word)
{
    return &buckets[((uintptr_t)word >> 2) % BUCKETS];
}

void gs_cc_words_after_fork(void)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        buckets[i] = (struct bucket){.lock = ATOMIC_FLAG_INIT};
}

/* ---- Waiting ---- */

struct futex_wait {
    const uint32_t *word;
    uint32_t value;
    uint64_t deadline_ns;
    bool is_shared; /* only the word tells what another process has done */
};

/* Returns 0, EAGAIN: the thread has to wait, or -errno. The caller holds the lock. */
static int look_or_queue(struct thread *self, struct bucket *bucket, const struct futex_wait *wait)
{
    /* A call with a time ends when a handler has run, as in the kernel. */
    bool may_restart = wait->deadline_ns == GS_NEVER;
    bool has_changed = __atomic_load_n(wait->word, __ATOMIC_SEQ_CST) != wait->value;
    int err = 0;
    switch (self->phase) {
    case PHASE_NEW:
        if (has_changed)
            return -EAGAIN;
        gs_cc_signals_begin_wait(self);
        queue_append(&bucket->waiting, self);
        self->progress = (size_t)wait->word;
        return EAGAIN;
    case PHASE_GRANTED:
        return 0;
    case PHASE_WAITING:
        if (must_leave(self))
            err = -ECANCELED;
        else if (gs_cc_is_interrupted(self, may_restart))
            err = -EINTR;
        else if (!(wait->is_shared && has_changed))
            err = is_late(wait->deadline_ns) ? -ETIMEDOUT : EAGAIN;
        if (err != EAGAIN)
            queue_remove(&bucket->waiting, self);
        return err;
    default:
        return EAGAIN;
    }
}

/* Lock the bucket of the word at which the thread is now: another one may move it. */
static struct bucket *lock_bucket(const struct thread *self, const uint32_t *word)
{
    for (;;) {
        bool is_new = self->phase == PHASE_NEW;
        size_t at = is_new ? (size_t)word : __atomic_load_n(&self->progress, __ATOMIC_RELAXED);
        struct bucket *bucket = bucket_of((const uint32_t *)at);
        spin_lock(&bucket->lock);
        if (is_new || at == __atomic_load_n(&self->progress, __ATOMIC_RELAXED))
            return bucket;
        spin_unlock(&bucket->lock);
    }
}

static long wait_at(const uint32_t *word, uint32_t value, uint64_t deadline_ns, bool is_shared)
{
    struct thread *self = thread_self();
    const struct futex_wait wait = {word, value, deadline_ns, is_shared};
    for (;;) {
        struct bucket *bucket = lock_bucket(self, word);
        int err = look_or_queue(self, bucket, &wait);
        spin_unlock(&bucket->lock);
        if (err != EAGAIN) {
            gs_cc_complete(self);
            if (must_leave(self))
                gs_cc_test_cancel(self);
            return result_of(-err);
        }
        uint64_t look_ns = is_shared ? gs_clock_after(gs_clock_now(), LOOK_NS) : GS_NEVER;
        if (gs_cc_wait_until(self, look_ns < deadline_ns ? look_ns : deadline_ns,
                             is_shared || gs_cc_has_handlers()))
            return 0;
    }
}

/* ---- Waking ---- */

static struct thread *find(const struct bucket *bucket, const uint32_t *word, uint32_t bits)
{
    struct thread *thread = bucket->waiting.first;
    while (thread && (thread->progress != (size_t)word ||
                      !(bits & ~(thread->extra ? thread->extra->ignored : 0))))
        thread = thread->next;
    return thread;
}

static struct thread *take(const uint32_t *word, uint32_t bits)
{
    struct bucket *bucket = bucket_of(word);
    spin_lock(&bucket->lock);
    struct thread *thread = find(bucket, word, bits);
    if (thread) {
        queue_remove(&bucket->waiting, thread);
        set_phase(thread, PHASE_CLAIMED);
    }
    spin_unlock(&bucket->lock);
    return thread;
}

static long wake(const uint32_t *word, uint32_t count, uint32_t bits)
{
    uint32_t woken = 0;
    struct thread *thread;
    while (woken < count && (thread = take(word, bits))) {
        grant(thread);
        woken++;
    }
    return woken;
}

static long move(const uint32_t *word, const uint32_t *other, uint32_t count)
{
    struct bucket *from = bucket_of(word), *to = bucket_of(other);
    struct bucket *first = from < to ? from : to, *second = from < to ? to : from;
    uint32_t moved = 0;
    struct thread *thread;
    if (word == other)
        return 0;
    spin_lock(&first->lock);
    if (second != first)
        spin_lock(&second->lock);
    for (; moved < count && (thread = find(from, word, (uint32_t)ALL_BITS)); moved++) {
        queue_remove(&from->waiting, thread);
        __atomic_store_n(&thread->progress, (size_t)other, __ATOMIC_RELAXED);
        queue_append(&to->waiting, thread);
    }
    if (second != first)
        spin_unlock(&second->lock);
    spin_unlock(&first->lock);
    return moved;
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

/* First the kernel moves its own, and looks at the word. A word that processes share may be changed
 * by those alone: those that would be moved to another are woken, look, and wait there by
 * themselves. */
static long wake_or_move(const struct call *call, bool is_shared)
{
    uint32_t others = (uint32_t)(uintptr_t)call->time;
    long result = call_kernel(call);
    if (result < 0)
        return result;
    uint32_t done = (uint32_t)result < call->value ? (uint32_t)result : call->value;
    uint32_t left = others - ((uint32_t)result - done);
    long woken = wake(call->word, call->value - done, (uint32_t)ALL_BITS);
    long moved = is_shared ? wake(call->word, left, (uint32_t)ALL_BITS)
                           : move(call->word, call->other, left);
    return result + woken + moved;
}

/* ---- Changing a word, and waking at two ---- */

static long wake_both(const struct call *call, uint32_t *word, uint32_t count)
{
    struct call kernel = {.word = word,
                          .operation = FUTEX_WAKE | (call->operation & FUTEX_PRIVATE_FLAG)};
    long woken = wake(word, count, (uint32_t)ALL_BITS);
    kernel.value = count - (uint32_t)woken;
    long result = kernel.value ? call_kernel(&kernel) : 0;
    return woken + (result > 0 ? result : 0);
}

static long change_and_wake(const struct call *call)
{
    struct futex_op op;
    if (!futex_op_decode(call->last, &op))
        return result_of(ENOSYS);
    uint32_t old = futex_op_apply(&op, call->other);
    long woken = wake_both(call, call->word, call->value);
    if (futex_op_holds(&op, old))
        woken += wake_both(call, call->other, (uint32_t)(uintptr_t)call->time);
    return woken;
}

static bool is_word(const uint32_t *word)
{
    return word && !((uintptr_t)word % sizeof *word);
}

/* The bits of others than FUTEX_WAIT_BITSET are all; so are those of threads that have no more than
 * others. */
static void set_bits(struct thread *self, uint32_t bits)
{
    if (bits != (uint32_t)ALL_BITS || self->extra)
        gs_cc_extra(self)->ignored = ~bits;
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
    bool has_bits = command == FUTEX_WAIT_BITSET || command == FUTEX_WAKE_BITSET;
    uint32_t bits = has_bits ? call.last : (uint32_t)ALL_BITS;
    if (!is_word(call.word) || !bits)
        return call_kernel(&call);
    switch (command) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
        if (!self)
            return call_kernel(&call);
        if (call.time && !is_valid_time(call.time))
            return result_of(EINVAL);
        if (self->phase == PHASE_NEW)
            set_bits(self, bits);
        return wait_at(call.word, call.value, deadline_of(self, &call, command), is_shared);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: {
        long woken = wake(call.word, call.value, bits);
        call.value -= (uint32_t)woken;
        long result = call.value ? call_kernel(&call) : 0;
        return result < 0 ? result : result + woken;
    }
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
        return wake_or_move(&call, is_shared);
    case FUTEX_WAKE_OP:
        return is_word(call.other) ? change_and_wake(&call) : call_kernel(&call);
    default:
        return call_kernel(&call);
    }
}
