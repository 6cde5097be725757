#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/lock_debug.h"
#include "compat/libevent/event/log.h"

#include <event2/thread.h>
#include <stdatomic.h>
#include <string.h>

/* What the program has set; with lock debugging, `locks` and `conditions` are those that check. */
static struct evthread_lock_callbacks program_locks, locks;
static struct evthread_condition_callbacks program_conditions, conditions;
static unsigned long (*thread_id)(void);
static bool is_debugging;
static atomic_bool is_in_use; /* a lock was created */

bool gs_ev_locks_are_used(void)
{
    return locks.lock != NULL;
}

bool gs_ev_conds_are_used(void)
{
    return conditions.alloc_condition != NULL;
}

static void install(void)
{
    locks = program_locks;
    conditions = program_conditions;
    if (is_debugging)
        gs_ev_lock_debug_wrap(&program_locks, &program_conditions, &locks, &conditions);
}

int evthread_set_lock_callbacks(const struct evthread_lock_callbacks *callbacks)
{
    if (!callbacks) {
        if (program_locks.alloc)
            gs_ev_warnx("Trying to disable lock functions after they have been set up will "
                        "probably not work.");
        memset(&program_locks, 0, sizeof program_locks);
        install();
        return 0;
    }
    if (program_locks.alloc) {
        if (!memcmp(&program_locks, callbacks, sizeof program_locks))
            return 0;
        gs_ev_warnx("Can't change lock callbacks once they have been initialized.");
        return -1;
    }
    if (!callbacks->alloc || !callbacks->free || !callbacks->lock || !callbacks->unlock)
        return -1;
    program_locks = *callbacks;
    install();
    return 0;
}

int evthread_set_condition_callbacks(const struct evthread_condition_callbacks *callbacks)
{
    if (!callbacks) {
        if (program_conditions.alloc_condition)
            gs_ev_warnx("Trying to disable condition functions after they have been set up will "
                        "probably not work.");
        memset(&program_conditions, 0, sizeof program_conditions);
        install();
        return 0;
    }
    if (program_conditions.alloc_condition) {
        if (program_conditions.condition_api_version == callbacks->condition_api_version &&
            program_conditions.alloc_condition == callbacks->alloc_condition &&
            program_conditions.free_condition == callbacks->free_condition &&
            program_conditions.signal_condition == callbacks->signal_condition &&
            program_conditions.wait_condition == callbacks->wait_condition)
            return 0;
        gs_ev_warnx("Can't change condition callbacks once they have been initialized.");
        return -1;
    }
    if (callbacks->alloc_condition && callbacks->free_condition && callbacks->signal_condition &&
        callbacks->wait_condition)
        program_conditions = *callbacks;
    install();
    return 0;
}

void evthread_set_id_callback(unsigned long (*id_fn)(void))
{
    thread_id = id_fn;
}

unsigned long gs_ev_thread_id(void)
{
    return thread_id ? thread_id() : 1;
}

/* Locks that were created before must not be given to the functions that check. */
void evthread_enable_lock_debugging(void)
{
    if (is_debugging)
        return;
    if (is_in_use)
        gs_ev_errx(1, "%s must be called before any lock is created", __func__);
    is_debugging = true;
    install();
}

void evthread_enable_lock_debuging(void)
{
    evthread_enable_lock_debugging();
}

void *gs_ev_lock_new(void)
{
    if (!locks.alloc)
        return NULL;
    atomic_store_explicit(&is_in_use, true, memory_order_relaxed);
    return locks.alloc(EVTHREAD_LOCKTYPE_RECURSIVE);
}

void gs_ev_lock_free(void *lock)
{
    if (lock && locks.free)
        locks.free(lock, EVTHREAD_LOCKTYPE_RECURSIVE);
}

void gs_ev_lock_always(void *lock)
{
    if (locks.lock)
        locks.lock(0, lock);
}

void gs_ev_unlock_always(void *lock)
{
    if (locks.unlock)
        locks.unlock(0, lock);
}

bool gs_ev_try_lock(void *lock)
{
    return !lock || !locks.lock || !locks.lock(EVTHREAD_TRY, lock);
}

bool gs_ev_lock_is_held(void *lock)
{
    return !is_debugging || !lock || gs_ev_lock_debug_is_held(lock);
}

void *gs_ev_cond_new(void)
{
    return conditions.alloc_condition ? conditions.alloc_condition(0) : NULL;
}

void gs_ev_cond_free(void *cond)
{
    if (cond && conditions.free_condition)
        conditions.free_condition(cond);
}

void gs_ev_cond_signal(void *cond, bool wakes_all)
{
    if (cond && conditions.signal_condition)
        conditions.signal_condition(cond, wakes_all);
}

int gs_ev_cond_wait(void *cond, void *lock, const struct timeval *timeout)
{
    return cond && conditions.wait_condition ? conditions.wait_condition(cond, lock, timeout) : -1;
}

void gs_ev_locks_shutdown(void)
{
    is_in_use = false;
}
