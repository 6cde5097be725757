/* Futexes of the process: a hash table of queues. A waiter is on the stack of its task,
 * or in the task, where handlers of signals are called while it is queued.
 *
 * The word is compared under the lock of its queue, and a waker takes the lock after it has changed
 * the word: so it either finds the waiter, or the waiter finds the change.
 *
 * A futex that may be shared with other processes (without FUTEX_PRIVATE_FLAG) is the kernel's,
 * and is waited for in the pool; but the C library waits in this way for the end of threads, too,
 * which are ours. A wake-up is for both, also one of a private futex: the runtime's kernel threads
 * take locks of the C library when they create others, and wait for them in the kernel. What they
 * release wakes nobody here: see gs_futexes_look_again.
 *
 * The end of a task clears its word, and then looks whether any wait is in the kernel. Such a wait
 * is counted before the kernel compares the word (both sequentially consistent), so that one of the
 * two sees the other. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"
#include "src/base/chaos.h"
#include "src/base/futex_op.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/list.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

#define BUCKETS 4096u
#define SHARED_PI_NS (2 * GS_MILLISECOND)

struct bucket {
    _Alignas(64) struct gs_run_lock lock;
    atomic_bool is_initialized;
    struct gs_list waiters;
};
static struct bucket buckets[BUCKETS];
static atomic_uint waits_in_kernel;

static struct bucket *bucket_of(const uint32_t *address)
{
    uintptr_t key = (uintptr_t)address >> 2;
    return &buckets[(key ^ (key >> 12) ^ (key >> 24)) % BUCKETS];
}

static struct bucket *lock_bucket(const uint32_t *address)
{
    struct bucket *bucket = bucket_of(address);
    gs_run_acquire(&bucket->lock);
    if (!atomic_load_explicit(&bucket->is_initialized, memory_order_relaxed)) {
        gs_list_init(&bucket->waiters);
        atomic_store(&bucket->is_initialized, true);
    }
    return bucket;
}

/* In the order of their addresses. */
static void lock_two(const uint32_t *a, const uint32_t *b, struct bucket *ret_buckets[2])
{
    bool is_ordered = bucket_of(a) <= bucket_of(b);
    struct bucket *first = lock_bucket(is_ordered ? a : b);
    struct bucket *second = bucket_of(a) == bucket_of(b) ? first : lock_bucket(is_ordered ? b : a);
    ret_buckets[0] = is_ordered ? first : second;
    ret_buckets[1] = is_ordered ? second : first;
}

static void unlock_two(struct bucket *two[2])
{
    gs_run_release(&two[0]->lock);
    if (two[1] != two[0])
        gs_run_release(&two[1]->lock);
}

/* ---- Waking ---- */

static void dequeue(struct futex_waiter *waiter)
{
    gs_list_remove(&waiter->link);
    waiter->is_queued = false;
}

/* The caller holds the lock of the bucket. The waiter is gone as soon as it is woken. */
static unsigned wake_locked(struct bucket *bucket, const uint32_t *address, unsigned count,
                            uint32_t bits)
{
    unsigned woken = 0;
    struct gs_list *link = bucket->waiters.next;
    while (link != &bucket->waiters && woken < count) {
        struct futex_waiter *waiter = gs_container_of(link, struct futex_waiter, link);
        link = link->next;
        if (waiter->address != address || !(waiter->bits & bits) || waiter->wants_lock)
            continue;
        struct task *task = waiter->task;
        dequeue(waiter);
        gs_task_wake(task, WAKE_DONE);
        woken++;
    }
    return woken;
}

unsigned gs_futex_wake(const uint32_t *address, unsigned count, uint32_t bits)
{
    gs_chaos(CHAOS_WAKE);
    struct bucket *bucket = lock_bucket(address);
    unsigned woken = wake_locked(bucket, address, count, bits);
    gs_run_release(&bucket->lock);
    return woken;
}

/* Waiters for a lock of the address sanitizer wait until a word is no longer zero. */
static bool has_changed(const struct futex_waiter *waiter)
{
    uint32_t now = 0;
    return !gs_run_copy(&now, waiter->address, sizeof now) && now;
}

/* A task that waits for a lock of the C library (their word is 2 then) is not woken by a kernel
 * thread of the runtime that releases it, as that wakes waiters of the kernel. So those tasks look
 * at their words again. A task that queues itself later compares its word after the release: it
 * initializes its bucket first (sequentially consistent), or it has taken its lock after this. */
void gs_futexes_look_again(void)
{
    enum { CONTENDED = 2, SET_USER = -2 }; /* for a thread to begin, before its user changes */
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct bucket *bucket = &buckets[i];
        if (!atomic_load(&bucket->is_initialized))
            continue;
        gs_run_acquire(&bucket->lock);
        struct gs_list *link = bucket->waiters.next;
        for (; link != &bucket->waiters; link = link->next) {
            struct futex_waiter *waiter = gs_container_of(link, struct futex_waiter, link);
            if (waiter->value == CONTENDED || waiter->value == (uint32_t)SET_USER ||
                (!waiter->value && has_changed(waiter)))
                gs_task_wake(waiter->task, WAKE_DONE);
        }
        gs_run_release(&bucket->lock);
    }
}

static long wake(const uint32_t *address, int operation, unsigned count, uint32_t bits)
{
    if (!bits)
        return -EINVAL;
    int private_flag = operation & FUTEX_PRIVATE_FLAG;
    unsigned woken = gs_futex_wake(address, count, bits);
    if (woken >= count)
        return woken;
    long others = gs_syscall(SYS_futex, (long)address, FUTEX_WAKE_BITSET | private_flag,
                             (long)(count - woken), 0, 0, (long)bits);
    return others < 0 ? (woken ? (long)woken : others) : woken + others;
}

/* ---- Waiting ---- */

/* Returns whether the waiter was still queued, not woken. A requeue may move it meanwhile. */
static bool withdraw(struct futex_waiter *waiter)
{
    for (;;) {
        const uint32_t *address = __atomic_load_n(&waiter->address, __ATOMIC_RELAXED);
        struct bucket *bucket = lock_bucket(address);
        if (waiter->address != address) {
            gs_run_release(&bucket->lock);
            continue;
        }
        bool was_queued = waiter->is_queued;
        if (was_queued)
            dequeue(waiter);
        gs_run_release(&bucket->lock);
        return was_queued;
    }
}

static long wait_queued(struct futex_waiter *waiter, struct bucket *bucket, uint64_t deadline_ns)
{
    gs_list_append(&bucket->waiters, &waiter->link);
    waiter->is_queued = true;
    gs_run_release(&bucket->lock);
    gs_chaos(CHAOS_PARK);
    int err = gs_task_wait(waiter->task, deadline_ns);
    return withdraw(waiter) ? (err ? err : -EAGAIN) : 0;
}

static long wait_for(struct task *task, const uint32_t *address, uint32_t value, uint32_t bits,
                     uint64_t deadline_ns)
{
    struct futex_waiter waiter = {.task = task, .address = address, .value = value, .bits = bits};
    gs_task_prepare(task, true);
    struct bucket *bucket = lock_bucket(address);
    if (__atomic_load_n(address, __ATOMIC_SEQ_CST) != value) {
        gs_run_release(&bucket->lock);
        return -EAGAIN;
    }
    return wait_queued(&waiter, bucket, deadline_ns);
}

long gs_futex_wait(struct task *task, const uint32_t *address, uint32_t value, uint64_t deadline_ns)
{
    return wait_for(task, address, value, FUTEX_BITSET_MATCH_ANY, deadline_ns);
}

/* ---- Condition variables ----
 * A wait at an address with any contents: what is called in place of the comparison has a wake-up
 * find the task. It is queued while it runs handlers, which may jump out of the wait, or end the
 * thread: so it is withdrawn before the next wait, and at the end. */

bool gs_condition_withdraw(struct task *task)
{
    return task->condition.is_queued && withdraw(&task->condition);
}

static bool is_queued(const struct futex_waiter *waiter)
{
    struct bucket *bucket = lock_bucket(waiter->address);
    bool is = waiter->is_queued;
    gs_run_release(&bucket->lock);
    return is;
}

/* Woken without having been found: gs_futexes_look_again. */
static long wait_until_woken(struct task *task, uint64_t deadline_ns)
{
    for (;;) {
        int err = gs_task_wait(task, deadline_ns);
        if (err == -EINTR)
            return is_queued(&task->condition) ? err : 0;
        if (err)
            return withdraw(&task->condition) ? err : 0;
        if (!is_queued(&task->condition))
            return 0;
        gs_task_prepare(task, true);
    }
}

long gs_condition_wait(struct task *task, const void *address, void (*release)(void *),
                       void *argument, uint64_t deadline_ns)
{
    struct futex_waiter *waiter = &task->condition;
    gs_condition_withdraw(task);
    gs_task_prepare(task, true);
    struct bucket *bucket = lock_bucket(address);
    *waiter =
        (struct futex_waiter){.task = task, .address = address, .bits = FUTEX_BITSET_MATCH_ANY};
    gs_list_append(&bucket->waiters, &waiter->link);
    waiter->is_queued = true;
    gs_run_release(&bucket->lock);
    release(argument);
    return wait_until_woken(task, deadline_ns);
}

long gs_condition_continue(struct task *task, uint64_t deadline_ns)
{
    gs_task_prepare(task, true);
    if (is_queued(&task->condition))
        return wait_until_woken(task, deadline_ns);
    atomic_store(&task->waits_for_signals, false);
    return 0;
}

/* ---- Futexes ---- */

/* Whether the word is the one that the end of a task clears. A mutex that processes share has a
 * thread id in its word, too, maybe of a task of another process. */
static bool is_tid_of_task(const uint32_t *address, uint32_t value)
{
    if (!gs_task_is_tid(value))
        return false;
    gs_run_acquire(&gs_tasks_lock);
    struct task *task = gs_task_find(value);
    bool is_its_own = task && task->clear_tid == address;
    gs_run_release(&gs_tasks_lock);
    return is_its_own;
}

void gs_futex_wake_at_end(const uint32_t *word)
{
    gs_futex_wake(word, INT_MAX, FUTEX_BITSET_MATCH_ANY);
    if (atomic_load(&waits_in_kernel))
        gs_syscall(SYS_futex, (long)word, FUTEX_WAKE, INT_MAX, 0, 0, 0);
}

static long wait_in_kernel(struct task *task, const long *arguments)
{
    atomic_fetch_add(&waits_in_kernel, 1);
    long result = gs_pool_call(task, SYS_futex, arguments);
    atomic_fetch_sub(&waits_in_kernel, 1);
    return result;
}

static int deadline_of(int operation, int command, const struct timespec *timeout,
                       uint64_t *ret_deadline_ns)
{
    if (command == FUTEX_WAIT)
        return gs_deadline_after(timeout, ret_deadline_ns);
    bool is_realtime = operation & FUTEX_CLOCK_REALTIME || command == FUTEX_LOCK_PI;
    return gs_deadline_at(is_realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC, timeout, ret_deadline_ns);
}

static long wait(struct task *task, const long *arguments, int command, uint32_t bits)
{
    const uint32_t *address = (const uint32_t *)arguments[0];
    int operation = (int)arguments[1];
    uint32_t value = (uint32_t)arguments[2];
    uint64_t deadline_ns;
    int err = deadline_of(operation, command, (const struct timespec *)arguments[3], &deadline_ns);
    if (err || !bits || (uintptr_t)address % sizeof *address)
        return -EINVAL;
    if (!(operation & FUTEX_PRIVATE_FLAG) && !is_tid_of_task(address, value))
        return wait_in_kernel(task, arguments);
    long result = wait_for(task, address, value, bits, deadline_ns);
    if (result == -EINTR)
        return arguments[3] ? RESTART_NEVER : RESTART_IF_ASKED;
    return result;
}

/* ---- Requeue, and operations on a second word ---- */

static long requeue(const long *arguments, bool compares)
{
    uint32_t *from = (uint32_t *)arguments[0], *to = (uint32_t *)arguments[4];
    unsigned moves = (unsigned)arguments[3], moved = 0;
    struct bucket *two[2];
    if ((int)arguments[2] < 0 || (int)arguments[3] < 0)
        return -EINVAL;
    lock_two(from, to, two);
    if (compares && __atomic_load_n(from, __ATOMIC_SEQ_CST) != (uint32_t)arguments[5]) {
        unlock_two(two);
        return -EAGAIN;
    }
    unsigned woken = wake_locked(two[0], from, (unsigned)arguments[2], FUTEX_BITSET_MATCH_ANY);
    struct gs_list *link = two[0]->waiters.next;
    while (link != &two[0]->waiters && moved < moves && from != to) {
        struct futex_waiter *waiter = gs_container_of(link, struct futex_waiter, link);
        link = link->next;
        if (waiter->address != from)
            continue;
        gs_list_remove(&waiter->link);
        __atomic_store_n(&waiter->address, to, __ATOMIC_RELAXED);
        gs_list_append(&two[1]->waiters, &waiter->link);
        moved++;
    }
    unlock_two(two);
    return woken + moved;
}

static long wake_and_change(const long *arguments)
{
    uint32_t *first = (uint32_t *)arguments[0], *second = (uint32_t *)arguments[4];
    struct futex_op op;
    struct bucket *two[2];
    if (!futex_op_decode((uint32_t)arguments[5], &op))
        return -ENOSYS;
    lock_two(first, second, two);
    uint32_t old = futex_op_apply(&op, second);
    unsigned woken = wake_locked(two[0], first, (unsigned)arguments[2], FUTEX_BITSET_MATCH_ANY);
    if (futex_op_holds(&op, old))
        woken += wake_locked(two[1], second, (unsigned)arguments[3], FUTEX_BITSET_MATCH_ANY);
    unlock_two(two);
    return woken;
}

/* ---- Locks with priority inheritance: the word has the owner's tid; no priorities ---- */

static bool has_waiter_for_lock(struct bucket *bucket, const uint32_t *address,
                                struct futex_waiter **ret_first)
{
    unsigned count = 0;
    for (struct gs_list *link = bucket->waiters.next; link != &bucket->waiters; link = link->next) {
        struct futex_waiter *waiter = gs_container_of(link, struct futex_waiter, link);
        if (waiter->address != address || !waiter->wants_lock)
            continue;
        if (!count++)
            *ret_first = waiter;
    }
    return count > 1;
}

/* Under the lock of the bucket. Returns 0 if the task owns the lock now, 1 if it must wait. */
static int try_lock_pi(struct task *task, uint32_t *word)
{
    uint32_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST), changed;
    do {
        uint32_t owner = old & FUTEX_TID_MASK;
        if (owner == task->tid)
            return -EDEADLK;
        changed =
            owner ? old | FUTEX_WAITERS : (old & (FUTEX_WAITERS | FUTEX_OWNER_DIED)) | task->tid;
    } while (!__atomic_compare_exchange_n(word, &old, changed, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST));
    return !!(old & FUTEX_TID_MASK);
}

/* Another process unlocks it in the kernel, which has no waiter: the word is looked at again. */
static uint64_t next_look(int operation, uint64_t deadline_ns)
{
    uint64_t next_ns = gs_clock_now() + SHARED_PI_NS;
    return operation & FUTEX_PRIVATE_FLAG || next_ns > deadline_ns ? deadline_ns : next_ns;
}

static long lock_pi(struct task *task, const long *arguments, int command)
{
    uint32_t *word = (uint32_t *)arguments[0];
    struct futex_waiter waiter = {
        .task = task, .address = word, .bits = FUTEX_BITSET_MATCH_ANY, .wants_lock = true};
    uint64_t deadline_ns;
    int err = deadline_of((int)arguments[1], command, (const struct timespec *)arguments[3],
                          &deadline_ns);
    if (err)
        return err;
    for (;;) {
        gs_task_prepare(task, false);
        struct bucket *bucket = lock_bucket(word);
        err = try_lock_pi(task, word);
        if (err <= 0 || command == FUTEX_TRYLOCK_PI) {
            gs_run_release(&bucket->lock);
            return err > 0 ? -EWOULDBLOCK : err;
        }
        uint64_t until_ns = next_look((int)arguments[1], deadline_ns);
        long result = wait_queued(&waiter, bucket, until_ns);
        if (result != -EAGAIN && (result != -ETIMEDOUT || until_ns == deadline_ns))
            return result;
    }
}

/* The lock is handed to the first that waits. */
static long unlock_pi(struct task *task, const long *arguments)
{
    uint32_t *word = (uint32_t *)arguments[0];
    struct futex_waiter *first = NULL;
    struct bucket *bucket = lock_bucket(word);
    if ((__atomic_load_n(word, __ATOMIC_SEQ_CST) & FUTEX_TID_MASK) != task->tid) {
        gs_run_release(&bucket->lock);
        return -EPERM;
    }
    bool has_more = has_waiter_for_lock(bucket, word, &first);
    if (first) {
        struct task *next = first->task;
        __atomic_store_n(word, next->tid | (has_more ? FUTEX_WAITERS : 0), __ATOMIC_SEQ_CST);
        dequeue(first);
        gs_task_wake(next, WAKE_DONE);
    } else {
        __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    }
    gs_run_release(&bucket->lock);
    return 0;
}

/* ---- The system call ---- */

/* A wake-up needs no word. */
static long check_words(const long *arguments, int command)
{
    bool has_second =
        command == FUTEX_REQUEUE || command == FUTEX_CMP_REQUEUE || command == FUTEX_WAKE_OP;
    bool has_time = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET ||
                    command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
    if ((uintptr_t)arguments[0] % sizeof(uint32_t))
        return -EINVAL;
    if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET)
        return 0;
    long err = gs_run_probe((const void *)arguments[0]);
    if (!err && has_second)
        err = gs_run_probe((const void *)arguments[4]);
    if (!err && has_time && arguments[3])
        err = gs_run_probe((const void *)arguments[3]);
    return err;
}

long gs_futex(struct task *task, const long *arguments)
{
    int operation = (int)arguments[1], command = operation & FUTEX_CMD_MASK;
    const uint32_t *address = (const uint32_t *)arguments[0];
    long err = check_words(arguments, command);
    if (err)
        return err;
    switch (command) {
    case FUTEX_WAIT:
        return wait(task, arguments, command, FUTEX_BITSET_MATCH_ANY);
    case FUTEX_WAIT_BITSET:
        return wait(task, arguments, command, (uint32_t)arguments[5]);
    case FUTEX_WAKE:
        return wake(address, operation, (unsigned)arguments[2], FUTEX_BITSET_MATCH_ANY);
    case FUTEX_WAKE_BITSET:
        return wake(address, operation, (unsigned)arguments[2], (uint32_t)arguments[5]);
    case FUTEX_REQUEUE:
        return requeue(arguments, false);
    case FUTEX_CMP_REQUEUE:
        return requeue(arguments, true);
    case FUTEX_WAKE_OP:
        return wake_and_change(arguments);
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
    case FUTEX_TRYLOCK_PI:
        return lock_pi(task, arguments, command);
    case FUTEX_UNLOCK_PI:
        return unlock_pi(task, arguments);
    default:
        return -ENOSYS;
    }
}

long gs_call_futex(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return gs_futex(task, arguments);
}

void gs_futexes_forget(void)
{
    memset(buckets, 0, sizeof buckets);
    waits_in_kernel = 0;
}
