#include "compiler/runtime/locks/shared_mutex.h"
#include "compiler/runtime/start/memory.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A robust mutex that a thread has. */
struct robust {
    struct robust *next;
    struct shared_mutex mutex;
};

uint64_t gs_cc_shared_number(const struct thread *self)
{
    return ((uint64_t)getpid() << 42) ^ (self ? (uintptr_t)self : 1);
}

static void remember(struct thread *self, struct shared_mutex mutex)
{
    if (!self || !mutex.is_robust)
        return;
    struct extra *extra = gs_cc_extra(self);
    struct robust *robust = gs_cc_allocate(sizeof *robust);
    *robust = (struct robust){extra->robust, mutex};
    extra->robust = robust;
}

static void forget(struct thread *self, struct shared_mutex mutex)
{
    struct robust **at = self && self->extra ? &self->extra->robust : NULL;
    while (at && *at && (*at)->mutex.holder != mutex.holder)
        at = &(*at)->next;
    if (!at || !*at)
        return;
    struct robust *robust = *at;
    *at = robust->next;
    gs_cc_release(robust, sizeof *robust);
}

/* Also a child of this process that nobody has waited for yet. */
static bool is_gone(int pid)
{
    int err = errno;
    siginfo_t ended = {0};
    if (pid == getpid())
        return false;
    bool is_gone = (kill(pid, 0) && errno == ESRCH) ||
                   (!waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) && ended.si_pid);
    errno = err;
    return is_gone;
}

static bool has_died(const struct shared_mutex mutex)
{
    return mutex.is_robust && is_gone(mutex.holder->pid);
}

/* A process may be killed while it holds what it changes. Then another one goes on: whatever was
 * written is that of a mutex, as the owner is written last when it is locked, and when it is
 * unlocked. */
static void hold(const struct shared_mutex mutex)
{
    int pid = getpid(), none = 0;
    for (unsigned turns = 1; !atomic_compare_exchange_strong(mutex.holding, &none, pid); turns++) {
        if (turns % 1024 == 0)
            sched_yield();
        int holding = none;
        if (turns % 65536 == 0 && is_gone(holding) &&
            atomic_compare_exchange_strong(mutex.holding, &holding, pid))
            break;
        none = 0;
    }
}

static void let_go(const struct shared_mutex mutex)
{
    atomic_store(mutex.holding, 0);
}

/* The caller holds it. */
static int take(struct thread *self, struct shared_mutex mutex)
{
    struct shared_holder *holder = mutex.holder;
    uint64_t number = gs_cc_shared_number(self);
    if (holder->is_unrecoverable)
        return ENOTRECOVERABLE;
    if (holder->thread == number && mutex.kind == PTHREAD_MUTEX_RECURSIVE) {
        ++*mutex.count;
        return 0;
    }
    if (holder->thread == number && mutex.kind == PTHREAD_MUTEX_ERRORCHECK)
        return EDEADLK;
    if (holder->thread && has_died(mutex)) {
        holder->thread = 0;
        holder->is_dead = true;
    }
    if (holder->thread)
        return EBUSY;
    *mutex.count = 0;
    holder->pid = getpid();
    __atomic_store_n(&holder->thread, number, __ATOMIC_RELEASE);
    remember(self, mutex);
    return holder->is_dead ? EOWNERDEAD : 0;
}

int gs_cc_shared_trylock(struct thread *self, struct shared_mutex mutex)
{
    hold(mutex);
    int err = take(self, mutex);
    let_go(mutex);
    return err == EDEADLK ? EBUSY : err;
}

bool gs_cc_look_again(struct thread *self, uint64_t deadline_ns)
{
    if (!self) {
        usleep(LOOK_NS / GS_MICROSECOND);
        return false;
    }
    set_phase(self, PHASE_WAITING);
    uint64_t look_ns = gs_clock_after(gs_clock_now(), LOOK_NS);
    return gs_cc_wait_until(self, look_ns < deadline_ns ? look_ns : deadline_ns, true);
}

bool gs_cc_shared_lock(struct thread *self, struct shared_mutex mutex, uint64_t deadline_ns,
                       int *ret_err)
{
    for (;;) {
        hold(mutex);
        *ret_err = take(self, mutex);
        let_go(mutex);
        if (*ret_err == EBUSY && is_late(deadline_ns))
            *ret_err = ETIMEDOUT;
        if (*ret_err != EBUSY || (self && must_leave(self)))
            break;
        if (gs_cc_look_again(self, deadline_ns))
            return true;
    }
    if (self && self->phase != PHASE_NEW)
        gs_cc_complete(self);
    return self && must_leave(self) && gs_cc_test_cancel(self);
}

bool gs_cc_shared_is_unlockable(const struct thread *self, struct shared_mutex mutex)
{
    bool is_checked = mutex.is_robust || mutex.kind != PTHREAD_MUTEX_NORMAL;
    return !is_checked || mutex.holder->thread == gs_cc_shared_number(self);
}

int gs_cc_shared_unlock(struct thread *self, struct shared_mutex mutex)
{
    struct shared_holder *holder = mutex.holder;
    hold(mutex);
    int err = gs_cc_shared_is_unlockable(self, mutex) ? 0 : EPERM;
    if (!err && *mutex.count) {
        --*mutex.count;
    } else if (!err) {
        holder->is_unrecoverable = holder->is_dead;
        __atomic_store_n(&holder->thread, 0, __ATOMIC_RELEASE);
        forget(self, mutex);
    }
    let_go(mutex);
    return err;
}

int gs_cc_shared_make_consistent(struct shared_mutex mutex)
{
    hold(mutex);
    bool is_dead = mutex.holder->is_dead && !mutex.holder->is_unrecoverable;
    int err = mutex.is_robust && is_dead ? 0 : EINVAL;
    if (!err)
        mutex.holder->is_dead = false;
    let_go(mutex);
    return err;
}

static void release_all(struct thread *thread, bool is_owner)
{
    while (thread->extra && thread->extra->robust) {
        struct robust *robust = thread->extra->robust;
        struct shared_mutex mutex = robust->mutex;
        thread->extra->robust = robust->next;
        gs_cc_release(robust, sizeof *robust);
        if (!is_owner)
            continue;
        hold(mutex);
        mutex.holder->is_dead = true;
        mutex.holder->thread = 0;
        let_go(mutex);
    }
}

void gs_cc_shared_after_fork(struct thread *self)
{
    release_all(self, false);
}

void gs_cc_shared_end(struct thread *thread)
{
    release_all(thread, true);
}
