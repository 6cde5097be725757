#include "compat/libevent/event/lock_debug.h"
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#define SIGNATURE 0xdeb0b10cu

struct checked_lock {
    unsigned signature;
    unsigned type;
    unsigned long holder; /* while count is not 0 */
    int count;
    void *lock; /* the program's */
};

static const struct evthread_lock_callbacks *program_locks;
static const struct evthread_condition_callbacks *program_conditions;

static void must(bool condition, const char *rule)
{
    if (!condition)
        gs_ev_errx(1, "a lock is misused: %s", rule);
}

static void *checked_alloc(unsigned type)
{
    struct checked_lock *checked = gs_ev_calloc(1, sizeof *checked);
    if (!checked)
        return NULL;
    if (program_locks->alloc) {
        checked->lock = program_locks->alloc(type | EVTHREAD_LOCKTYPE_RECURSIVE);
        if (!checked->lock) {
            gs_ev_free(checked);
            return NULL;
        }
    }
    checked->signature = SIGNATURE;
    checked->type = type;
    return checked;
}

static void checked_free(void *lock, unsigned type)
{
    struct checked_lock *checked = lock;
    must(checked->signature == SIGNATURE, "it is none");
    must(checked->type == type, "it is of another type");
    must(!checked->count, "it is freed while it is held");
    if (checked->lock)
        program_locks->free(checked->lock, type | EVTHREAD_LOCKTYPE_RECURSIVE);
    checked->signature = 0;
    gs_ev_free(checked);
}

static void note_locked(struct checked_lock *checked)
{
    unsigned long self = gs_ev_thread_id();
    must(!checked->count || checked->holder == self, "two threads hold it");
    checked->count++;
    checked->holder = self;
    must(checked->count == 1 || checked->type == EVTHREAD_LOCKTYPE_RECURSIVE,
         "it is not recursive");
}

static int checked_lock(unsigned mode, void *lock)
{
    struct checked_lock *checked = lock;
    must(checked->signature == SIGNATURE, "it is none");
    int result = checked->lock ? program_locks->lock(mode, checked->lock) : 0;
    if (!result)
        note_locked(checked);
    return result;
}

static void note_unlocked(struct checked_lock *checked)
{
    must(checked->count > 0, "it is released more often than it was taken");
    must(checked->holder == gs_ev_thread_id(), "another thread holds it");
    if (!--checked->count)
        checked->holder = 0;
}

static int checked_unlock(unsigned mode, void *lock)
{
    struct checked_lock *checked = lock;
    must(checked->signature == SIGNATURE, "it is none");
    note_unlocked(checked);
    return checked->lock ? program_locks->unlock(mode, checked->lock) : 0;
}

static int checked_wait(void *cond, void *lock, const struct timeval *timeout)
{
    struct checked_lock *checked = lock;
    must(checked->signature == SIGNATURE, "it is none");
    note_unlocked(checked);
    int result = program_conditions->wait_condition(cond, checked->lock, timeout);
    note_locked(checked);
    return result;
}

void gs_ev_lock_debug_wrap(const struct evthread_lock_callbacks *locks,
                           const struct evthread_condition_callbacks *conditions,
                           struct evthread_lock_callbacks *ret_locks,
                           struct evthread_condition_callbacks *ret_conditions)
{
    program_locks = locks;
    program_conditions = conditions;
    *ret_locks = (struct evthread_lock_callbacks){
        .lock_api_version = EVTHREAD_LOCK_API_VERSION,
        .supported_locktypes = EVTHREAD_LOCKTYPE_RECURSIVE,
        .alloc = checked_alloc,
        .free = checked_free,
        .lock = checked_lock,
        .unlock = checked_unlock,
    };
    *ret_conditions = *conditions;
    if (conditions->wait_condition)
        ret_conditions->wait_condition = checked_wait;
}

bool gs_ev_lock_debug_is_held(void *lock)
{
    struct checked_lock *checked = lock;
    return checked->signature == SIGNATURE && checked->count > 0 &&
           checked->holder == gs_ev_thread_id();
}
