/* Mutexes and condition variables of the program without the signal.
 *
 * A mutex of the default kind has the C library's protocol: its word is 0, 1 (locked), or 2
 * (locked, and maybe waited for). So the C library's own functions may be called for the same
 * mutex. All other kinds, and objects that processes share, are left to them.
 *
 * A condition variable is only an address at which tasks wait. Nothing is stored in it: it can be
 * destroyed as soon as its waiters are woken, and those of the C library's functions (with a mutex
 * of another kind, or of a kernel thread that is no task) are woken by its own function, which is
 * called if no task was found. The waiter is queued before the mutex is released, so that who locks
 * that afterwards finds it.
 *
 * A wait that a signal handler has interrupted ends, as if it was woken: what woke the condition
 * while the handler ran is not known to it. */
#include "compat/pthread/locks/locks.h"

#include "compat/pthread/start/real.h"
#include "compat/pthread/threads/task.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>

#define EXPORT __attribute__((visibility("default")))
#define COND_IS_SHARED 1u
#define COND_IS_MONOTONIC 2u
enum { FREE, LOCKED, CONTENDED };

static struct {
    int (*mutex_lock)(pthread_mutex_t *);
    int (*mutex_unlock)(pthread_mutex_t *);
    int (*wait)(pthread_cond_t *, pthread_mutex_t *);
    int (*timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    int (*clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*signal)(pthread_cond_t *);
    int (*broadcast)(pthread_cond_t *);
} real;
static atomic_bool is_resolved;
static bool has_known_layout;

/* Condition variables have had another interface before 2003, which dlsym may find in the C
 * library. Another library before that one may have its own, as a sanitizer's. */
static void *find_condition(const char *name)
{
    void *function = gs_real_function(name), *newer = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    Dl_info info, info_of_newer;
    bool is_same_library = newer && dladdr(function, &info) && dladdr(newer, &info_of_newer) &&
                           info.dli_fbase == info_of_newer.dli_fbase;
    return is_same_library ? newer : function;
}

/* Several threads may do it at the same time, with the same result. */
static void resolve(void)
{
    *(void **)&real.mutex_lock = gs_real_function("pthread_mutex_lock");
    *(void **)&real.mutex_unlock = gs_real_function("pthread_mutex_unlock");
    *(void **)&real.wait = find_condition("pthread_cond_wait");
    *(void **)&real.timedwait = find_condition("pthread_cond_timedwait");
    *(void **)&real.clockwait = gs_real_function("pthread_cond_clockwait");
    *(void **)&real.signal = find_condition("pthread_cond_signal");
    *(void **)&real.broadcast = find_condition("pthread_cond_broadcast");
    atomic_store(&is_resolved, true);
}

static void need_real(void)
{
    if (GS_UNLIKELY(!atomic_load_explicit(&is_resolved, memory_order_acquire)))
        resolve();
}

static unsigned flags_of_condition(bool is_shared, clockid_t clock)
{
    pthread_condattr_t attributes;
    pthread_cond_t cond;
    pthread_condattr_init(&attributes);
    pthread_condattr_setpshared(&attributes,
                                is_shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&cond, &attributes);
    unsigned flags = cond.__data.__wrefs;
    pthread_cond_destroy(&cond);
    pthread_condattr_destroy(&attributes);
    return flags;
}

/* What is known of the C library's objects is compared with what it does. */
void gs_locks_start(const struct task *main_task)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    need_real();
    real.mutex_lock(&mutex);
    bool is_known = mutex.__data.__lock == LOCKED && mutex.__data.__nusers == 1 &&
                    mutex.__data.__owner == (int)main_task->tid && !mutex.__data.__kind;
    real.mutex_unlock(&mutex);
    is_known &= mutex.__data.__lock == FREE && !mutex.__data.__nusers && !mutex.__data.__owner;
    has_known_layout = is_known && flags_of_condition(true, CLOCK_REALTIME) == COND_IS_SHARED &&
                       flags_of_condition(false, CLOCK_MONOTONIC) == COND_IS_MONOTONIC &&
                       flags_of_condition(false, CLOCK_REALTIME) == 0;
}

static bool is_in_task(void)
{
    return gs_is_wrapper_in_task() && has_known_layout;
}

/* ---- Mutexes ---- */

static bool is_plain(const pthread_mutex_t *mutex)
{
    return mutex->__data.__kind == PTHREAD_MUTEX_TIMED_NP;
}

static bool try_lock(pthread_mutex_t *mutex)
{
    int unlocked = FREE;
    return __atomic_compare_exchange_n(&mutex->__data.__lock, &unlocked, LOCKED, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Inside. Returns false if a signal must be delivered first. */
static bool lock_inside(struct task *task, pthread_mutex_t *mutex)
{
    int *word = &mutex->__data.__lock;
    while (__atomic_exchange_n(word, CONTENDED, __ATOMIC_ACQUIRE) != FREE)
        if (gs_futex_wait(task, (const uint32_t *)word, CONTENDED, GS_NEVER) == -EINTR)
            return false;
    return true;
}

static void lock_slowly(struct task *task, pthread_mutex_t *mutex)
{
    const long arguments[] = {(long)mutex};
    bool is_locked;
    task->call = CALL_LOCK;
    task->call_arguments = arguments;
    do {
        long unused = 0;
        gs_task_enter(task);
        GS_COUNT(wrapped);
        is_locked = lock_inside(task, mutex);
        gs_task_leave(task, NULL, &unused, -1);
        if (GS_UNLIKELY(gs_task != task)) { /* a handler has forked */
            if (!is_locked)
                real.mutex_lock(mutex);
            return;
        }
    } while (!is_locked);
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct task *task = gs_task;
    if (GS_UNLIKELY(!is_in_task() || !is_plain(mutex))) {
        need_real();
        return real.mutex_lock(mutex);
    }
    if (GS_UNLIKELY(!try_lock(mutex)))
        lock_slowly(task, mutex);
    mutex->__data.__owner = (int)task->tid;
    mutex->__data.__nusers++;
    return 0;
}

/* Returns whether it was waited for. The mutex may be gone afterwards. */
static bool release(pthread_mutex_t *mutex)
{
    return __atomic_exchange_n(&mutex->__data.__lock, FREE, __ATOMIC_RELEASE) == CONTENDED;
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct task *task = gs_task;
    long unused = 0;
    if (GS_UNLIKELY(!is_in_task() || !is_plain(mutex))) {
        need_real();
        return real.mutex_unlock(mutex);
    }
    mutex->__data.__owner = 0;
    mutex->__data.__nusers--;
    if (GS_LIKELY(!release(mutex)))
        return 0;
    gs_task_enter(task);
    GS_COUNT(wrapped);
    gs_futex_wake((const uint32_t *)&mutex->__data.__lock, 1, FUTEX_BITSET_MATCH_ANY);
    gs_task_leave(task, NULL, &unused, -1);
    return 0;
}

/* ---- Condition variables ---- */

static bool is_shared(const pthread_cond_t *cond)
{
    return __atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED) & COND_IS_SHARED;
}

/* It stays in use by the waiter, as the C library counts. */
static void release_for_wait(void *argument)
{
    pthread_mutex_t *mutex = argument;
    mutex->__data.__owner = 0;
    if (release(mutex))
        gs_futex_wake((const uint32_t *)&mutex->__data.__lock, 1, FUTEX_BITSET_MATCH_ANY);
}

/* Whether signals end the wait for their handlers, after which it is continued, and not for a
 * cancellation. */
static bool is_for_handlers(struct task *task)
{
    gs_signals signals = gs_deliverable(task);
    return signals && !(signals & GS_INTERNAL_SIGNALS);
}

/* Inside. Handlers run before the mutex is locked again, and the wait ends for none. */
static long wait_inside(struct task *task, pthread_cond_t *cond, pthread_mutex_t *mutex,
                        uint64_t deadline_ns)
{
    long result = gs_condition_wait(task, cond, release_for_wait, mutex, deadline_ns), unused = 0;
    while (result == -EINTR && is_for_handlers(task)) {
        gs_task_leave(task, NULL, &unused, -1);
        if (GS_UNLIKELY(gs_task != task)) /* a handler has forked */
            return -ECHILD;
        gs_task_enter(task);
        result = gs_condition_continue(task, deadline_ns);
    }
    return result == -EINTR && !gs_condition_withdraw(task) ? 0 : result;
}

/* A cancellation acts after the mutex is locked again. */
static int wait_in_task(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    struct task *task = gs_task;
    const long arguments[] = {(long)cond};
    long unused = 0;
    int type;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    pthread_testcancel();
    task->call = CALL_CONDITION;
    task->call_arguments = arguments;
    gs_task_enter(task);
    GS_COUNT(wrapped);
    long result = wait_inside(task, cond, mutex, deadline_ns);
    if (GS_UNLIKELY(result == -ECHILD)) {
        pthread_setcanceltype(type, &type);
        return real.mutex_lock(mutex);
    }
    bool is_locked = result != -EINTR && (try_lock(mutex) || lock_inside(task, mutex));
    gs_task_leave(task, NULL, &unused, -1);
    if (!is_locked)
        lock_slowly(task, mutex);
    mutex->__data.__owner = (int)task->tid;
    if (result == -EINTR)
        pthread_testcancel();
    pthread_setcanceltype(type, &type);
    return result == -ETIMEDOUT ? ETIMEDOUT : 0;
}

static bool can_wait(const pthread_cond_t *cond, const pthread_mutex_t *mutex)
{
    need_real();
    return is_in_task() && is_plain(mutex) && !is_shared(cond);
}

/* A time before the clock's first has passed, too. */
static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                      const struct timespec *time)
{
    const struct timespec first = {.tv_nsec = time->tv_nsec};
    uint64_t deadline_ns;
    int err = gs_deadline_at(clock, time->tv_sec < 0 ? &first : time, &deadline_ns);
    return err ? -err : wait_in_task(cond, mutex, deadline_ns);
}

EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    if (!can_wait(cond, mutex))
        return real.wait(cond, mutex);
    return wait_in_task(cond, mutex, GS_NEVER);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *time)
{
    if (!can_wait(cond, mutex))
        return real.timedwait(cond, mutex, time);
    bool is_monotonic = cond->__data.__wrefs & COND_IS_MONOTONIC;
    return wait_until(cond, mutex, is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, time);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *time)
{
    bool is_known = clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME;
    if (!can_wait(cond, mutex) || !is_known)
        return real.clockwait(cond, mutex, clock, time);
    return wait_until(cond, mutex, clock, time);
}

/* Returns whether as many tasks as that were woken. Any kernel thread may wake tasks. */
static bool wake(pthread_cond_t *cond, unsigned count)
{
    struct task *task = is_in_task() ? gs_task : NULL;
    long unused = 0;
    need_real();
    if (!gs_run.is_active || !has_known_layout || is_shared(cond))
        return false;
    if (task) {
        gs_task_enter(task);
        GS_COUNT(wrapped);
    }
    unsigned woken = gs_futex_wake((const uint32_t *)cond, count, FUTEX_BITSET_MATCH_ANY);
    if (task)
        gs_task_leave(task, NULL, &unused, -1);
    return woken >= count;
}

EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
    return wake(cond, 1) ? 0 : real.signal(cond);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
    return wake(cond, UINT_MAX) ? 0 : real.broadcast(cond);
}
