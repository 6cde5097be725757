/* The functions that shared libraries get in place of the C library's (libraries.h).
 *
 * What waits for descriptors or for time is the runtime's. Objects of synchronisation stay as the C
 * library has them, because kernel threads that a library has made use them, too: a thread that
 * finds one locked tries again later. The values of keys belong to the thread of the program.
 * Closing is the C library's: a library may do so in the child of a fork of its own, where the
 * loops are the parent's. */
#include "compiler/runtime/libraries.h"
#include "compiler/runtime/thread.h"
#include "compiler/runtime/threads.h"

#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* The thread on whose stack the library runs. NULL: a kernel thread, or code that must not wait. */
static struct thread *thread_on_stack(void)
{
    struct thread *self = thread_self();
    return self && self->stack ? self : NULL;
}

/* ---- Descriptors and time: the functions of the runtime have the same names ---- */

#define RUNTIME(result_, name_, parameters_, ...)                                                  \
    result_ gs_cc_##name_ parameters_;                                                             \
    static result_ library_##name_ parameters_                                                     \
    {                                                                                              \
        return thread_on_stack() ? gs_cc_##name_(__VA_ARGS__) : name_(__VA_ARGS__);                \
    }

RUNTIME(ssize_t, read, (int fd, void *bytes, size_t n), fd, bytes, n)
RUNTIME(ssize_t, write, (int fd, const void *bytes, size_t n), fd, bytes, n)
RUNTIME(ssize_t, readv, (int fd, const struct iovec *parts, int count), fd, parts, count)
RUNTIME(ssize_t, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
RUNTIME(ssize_t, recv, (int fd, void *bytes, size_t n, int flags), fd, bytes, n, flags)
RUNTIME(ssize_t, send, (int fd, const void *bytes, size_t n, int flags), fd, bytes, n, flags)
RUNTIME(ssize_t, recvfrom,
        (int fd, void *bytes, size_t n, int flags, struct sockaddr *from, socklen_t *length), fd,
        bytes, n, flags, from, length)
RUNTIME(ssize_t, sendto,
        (int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to,
         socklen_t length),
        fd, bytes, n, flags, to, length)
RUNTIME(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)
RUNTIME(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
RUNTIME(int, accept, (int fd, struct sockaddr *from, socklen_t *length), fd, from, length)
RUNTIME(int, accept4, (int fd, struct sockaddr *from, socklen_t *length, int flags), fd, from,
        length, flags)
RUNTIME(int, connect, (int fd, const struct sockaddr *to, socklen_t length), fd, to, length)
RUNTIME(int, poll, (struct pollfd * fds, nfds_t count, int wait_ms), fds, count, wait_ms)
RUNTIME(int, ppoll,
        (struct pollfd * fds, nfds_t count, const struct timespec *time, const sigset_t *mask), fds,
        count, time, mask)
RUNTIME(int, select,
        (int count, fd_set *reading, fd_set *writing, fd_set *other, struct timeval *time), count,
        reading, writing, other, time)
RUNTIME(int, pselect,
        (int count, fd_set *reading, fd_set *writing, fd_set *other, const struct timespec *time,
         const sigset_t *mask),
        count, reading, writing, other, time, mask)
RUNTIME(int, epoll_wait, (int fd, struct epoll_event *events, int max, int wait_ms), fd, events,
        max, wait_ms)
RUNTIME(int, epoll_pwait,
        (int fd, struct epoll_event *events, int max, int wait_ms, const sigset_t *mask), fd,
        events, max, wait_ms, mask)
RUNTIME(unsigned, sleep, (unsigned seconds), seconds)
RUNTIME(int, usleep, (useconds_t microseconds), microseconds)
RUNTIME(int, nanosleep, (const struct timespec *time, struct timespec *ret_left), time, ret_left)
RUNTIME(int, clock_nanosleep,
        (clockid_t clock, int flags, const struct timespec *time, struct timespec *ret_left), clock,
        flags, time, ret_left)
RUNTIME(int, sched_yield, (void), )
RUNTIME(int, getaddrinfo,
        (const char *node, const char *service, const struct addrinfo *hints,
         struct addrinfo **ret_addresses),
        node, service, hints, ret_addresses)

/* With _FORTIFY_SOURCE: the size of the memory follows. */
#define FORTIFIED(result_, name_, parameters_, is_valid_, plain_, ...)                             \
    static result_ library_##name_ parameters_                                                     \
    {                                                                                              \
        if (!(is_valid_))                                                                          \
            abort();                                                                               \
        return library_##plain_(__VA_ARGS__);                                                      \
    }

FORTIFIED(ssize_t, __read_chk, (int fd, void *bytes, size_t n, size_t size), n <= size, read, fd,
          bytes, n)
FORTIFIED(ssize_t, __recv_chk, (int fd, void *bytes, size_t n, size_t size, int flags), n <= size,
          recv, fd, bytes, n, flags)
FORTIFIED(ssize_t, __recvfrom_chk,
          (int fd, void *bytes, size_t n, size_t size, int flags, struct sockaddr *from,
           socklen_t *length),
          n <= size, recvfrom, fd, bytes, n, flags, from, length)
FORTIFIED(int, __poll_chk, (struct pollfd * fds, nfds_t count, int wait_ms, size_t size),
          count <= size / sizeof *fds, poll, fds, count, wait_ms)

/* ---- Waits for objects of the C library ----
 * The thread looks again, like one that waits for an object that processes share.
 */

#define LOOK_NS (500 * GS_MICROSECOND)
#define YIELDS 4

static void nap(struct thread *self, unsigned looks)
{
    int err = errno;
    leave_stack(self);
    if (looks < YIELDS || gs_thread_sleep(gs_clock_after(gs_clock_now(), LOOK_NS)))
        gs_thread_yield();
    return_to_stack(self);
    errno = err;
}

typedef int try_fn(struct thread *self, void *object);

/* Returns what the function does that is not EBUSY, or ETIMEDOUT. */
static int try_until(struct thread *self, try_fn *try, void *object, uint64_t deadline_ns)
{
    for (unsigned looks = 0;; looks++) {
        int err = try(self, object);
        if (err != EBUSY)
            return err;
        if (deadline_ns != GS_NEVER && gs_clock_now() >= deadline_ns)
            return ETIMEDOUT;
        nap(self, looks);
    }
}

/* ---- Mutexes ---- */

static int try_mutex(struct thread *self, void *object)
{
    pthread_mutex_t *mutex = object;
    return gs_cc_has_owner(mutex) ? gs_cc_owned_trylock(mutex, self) : pthread_mutex_trylock(mutex);
}

static int library_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct thread *self = thread_on_stack();
    return self ? try_until(self, try_mutex, mutex, GS_NEVER) : pthread_mutex_lock(mutex);
}

static int library_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    struct thread *self = thread_on_stack();
    if (!self)
        return pthread_mutex_trylock(mutex);
    int err = try_mutex(self, mutex);
    return err == EDEADLK ? EBUSY : err;
}

static int library_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                           const struct timespec *time)
{
    struct thread *self = thread_on_stack();
    if (!self || !is_valid_time(time))
        return pthread_mutex_clocklock(mutex, clock, time);
    return try_until(self, try_mutex, mutex, gs_cc_from_clock(clock, time));
}

static int library_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
    return library_pthread_mutex_clocklock(mutex, CLOCK_REALTIME, time);
}

static int library_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct thread *self = thread_on_stack();
    return self && gs_cc_has_owner(mutex) ? gs_cc_owned_unlock(mutex, self)
                                          : pthread_mutex_unlock(mutex);
}

/* ---- Conditions: a wait ends soon, as it may at any time ---- */

static int library_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    struct thread *self = thread_on_stack();
    if (!self)
        return pthread_cond_wait(cond, mutex);
    int err = library_pthread_mutex_unlock(mutex);
    if (err)
        return err;
    nap(self, YIELDS);
    return library_pthread_mutex_lock(mutex);
}

static int library_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                          clockid_t clock, const struct timespec *time)
{
    if (!thread_on_stack() || !is_valid_time(time))
        return pthread_cond_clockwait(cond, mutex, clock, time);
    uint64_t deadline_ns = gs_cc_from_clock(clock, time);
    int err = library_pthread_cond_wait(cond, mutex);
    return !err && gs_clock_now() >= deadline_ns ? ETIMEDOUT : err;
}

/* Which clock it is, the attributes have told the C library, in this bit. */
#define IS_MONOTONIC 2u

static int library_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                          const struct timespec *time)
{
    if (!thread_on_stack() || !is_valid_time(time))
        return pthread_cond_timedwait(cond, mutex, time);
    clockid_t clock = cond->__data.__wrefs & IS_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return library_pthread_cond_clockwait(cond, mutex, clock, time);
}

/* ---- Reader-writer locks, semaphores, and the end of kernel threads ---- */

static int try_read(struct thread *self, void *lock)
{
    (void)self;
    return pthread_rwlock_tryrdlock(lock);
}

static int try_write(struct thread *self, void *lock)
{
    (void)self;
    return pthread_rwlock_trywrlock(lock);
}

static int library_pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    struct thread *self = thread_on_stack();
    return self ? try_until(self, try_read, lock, GS_NEVER) : pthread_rwlock_rdlock(lock);
}

static int library_pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    struct thread *self = thread_on_stack();
    return self ? try_until(self, try_write, lock, GS_NEVER) : pthread_rwlock_wrlock(lock);
}

static int try_semaphore(struct thread *self, void *semaphore)
{
    (void)self;
    if (!sem_trywait(semaphore))
        return 0;
    return errno == EAGAIN ? EBUSY : errno;
}

static int failed_with(int err)
{
    if (!err)
        return 0;
    errno = err;
    return -1;
}

static int library_sem_wait(sem_t *semaphore)
{
    struct thread *self = thread_on_stack();
    return self ? failed_with(try_until(self, try_semaphore, semaphore, GS_NEVER))
                : sem_wait(semaphore);
}

static int library_sem_timedwait(sem_t *semaphore, const struct timespec *time)
{
    struct thread *self = thread_on_stack();
    if (!self || !is_valid_time(time))
        return sem_timedwait(semaphore, time);
    uint64_t deadline_ns = gs_cc_from_clock(CLOCK_REALTIME, time);
    return failed_with(try_until(self, try_semaphore, semaphore, deadline_ns));
}

int gs_cc_pthread_join(pthread_t thread, void **ret_result);

struct join {
    pthread_t thread;
    void *result;
};

static int try_join(struct thread *self, void *argument)
{
    struct join *join = argument;
    (void)self;
    return pthread_tryjoin_np(join->thread, &join->result);
}

static int library_pthread_join(pthread_t thread, void **ret_result)
{
    struct thread *self = thread_on_stack();
    struct join join = {.thread = thread};
    if (gs_cc_is_thread(thread))
        return gs_cc_pthread_join(thread, ret_result);
    if (!self)
        return pthread_join(thread, ret_result);
    int err = try_until(self, try_join, &join, GS_NEVER);
    if (!err && ret_result)
        *ret_result = join.result;
    return err;
}

/* ---- Which thread it is ----
 * That of the program, also for those of a worker that must know each other apart. What else is
 * called with a thread may be called with a kernel thread of a library, too.
 */

static pthread_t library_pthread_self(void)
{
    struct thread *self = thread_self();
    return self ? (pthread_t)self : pthread_self();
}

#define OF_THREAD(name_, parameters_, thread_, ...)                                                \
    int gs_cc_##name_ parameters_;                                                                 \
    static int library_##name_ parameters_                                                         \
    {                                                                                              \
        return gs_cc_is_thread(thread_) ? gs_cc_##name_(thread_, ##__VA_ARGS__)                    \
                                        : name_(thread_, ##__VA_ARGS__);                           \
    }

OF_THREAD(pthread_detach, (pthread_t thread), thread)
OF_THREAD(pthread_kill, (pthread_t thread, int number), thread, number)
OF_THREAD(pthread_sigqueue, (pthread_t thread, int number, const union sigval value), thread,
          number, value)
OF_THREAD(pthread_cancel, (pthread_t thread), thread)
OF_THREAD(pthread_tryjoin_np, (pthread_t thread, void **ret_result), thread, ret_result)
OF_THREAD(pthread_timedjoin_np, (pthread_t thread, void **ret_result, const struct timespec *time),
          thread, ret_result, time)
OF_THREAD(pthread_clockjoin_np,
          (pthread_t thread, void **ret_result, clockid_t clock, const struct timespec *time),
          thread, ret_result, clock, time)
OF_THREAD(pthread_getattr_np, (pthread_t thread, pthread_attr_t *ret_attributes), thread,
          ret_attributes)
OF_THREAD(pthread_setname_np, (pthread_t thread, const char *name), thread, name)
OF_THREAD(pthread_getname_np, (pthread_t thread, char *ret_name, size_t size), thread, ret_name,
          size)
OF_THREAD(pthread_setschedparam,
          (pthread_t thread, int policy, const struct sched_param *parameter), thread, policy,
          parameter)
OF_THREAD(pthread_getschedparam,
          (pthread_t thread, int *ret_policy, struct sched_param *ret_parameter), thread,
          ret_policy, ret_parameter)
OF_THREAD(pthread_setschedprio, (pthread_t thread, int priority), thread, priority)
OF_THREAD(pthread_setaffinity_np, (pthread_t thread, size_t size, const cpu_set_t *cpus), thread,
          size, cpus)
OF_THREAD(pthread_getaffinity_np, (pthread_t thread, size_t size, cpu_set_t *ret_cpus), thread,
          size, ret_cpus)
OF_THREAD(pthread_getcpuclockid, (pthread_t thread, clockid_t *ret_clock), thread, ret_clock)

/* ---- The process: in the child, no other thread runs, whatever the library waits for ---- */

pid_t gs_cc_fork(void);

static pid_t library_fork(void)
{
    return thread_on_stack() ? gs_cc_fork() : fork();
}

/* ---- Cancellation, and the end of a thread in a library (cancel.c) ---- */

RUNTIME(int, pthread_setcancelstate, (int state, int *ret_old), state, ret_old)
RUNTIME(int, pthread_setcanceltype, (int type, int *ret_old), type, ret_old)

void gs_cc_pthread_testcancel(void);
static void library_pthread_testcancel(void)
{
    if (thread_on_stack())
        gs_cc_pthread_testcancel();
    else
        pthread_testcancel();
}

static void library_pthread_exit(void *result)
{
    struct thread *self = thread_on_stack();
    if (self)
        gs_cc_exit(self, result);
    pthread_exit(result);
}

static void library___pthread_register_cancel(__pthread_unwind_buf_t *buffer)
{
    struct thread *self = thread_on_stack();
    if (self)
        gs_cc_register_cleanup(self, buffer);
    else
        __pthread_register_cancel(buffer);
}

static void library___pthread_unregister_cancel(__pthread_unwind_buf_t *buffer)
{
    struct thread *self = thread_on_stack();
    if (self)
        gs_cc_unregister_cleanup(self, buffer);
    else
        __pthread_unregister_cancel(buffer);
}

static void library___pthread_unwind_next(__pthread_unwind_buf_t *buffer)
{
    struct thread *self = thread_on_stack();
    if (self)
        gs_cc_exit(self, self->argument);
    __pthread_unwind_next(buffer);
}

/* ---- The values of keys: each key of the C library has one of the runtime beside it ---- */

int gs_cc_pthread_key_create(pthread_key_t *ret_key, void (*destroy)(void *));
int gs_cc_pthread_key_delete(pthread_key_t key);
void *gs_cc_pthread_getspecific(pthread_key_t key);
int gs_cc_pthread_setspecific(pthread_key_t key, const void *value);

static _Atomic(uint32_t) beside[PTHREAD_KEYS_MAX]; /* the key plus one; 0: none */

static int make_beside(pthread_key_t key, void (*destroy)(void *))
{
    pthread_key_t other;
    int err = gs_cc_pthread_key_create(&other, destroy);
    if (!err)
        atomic_store(&beside[key], other + 1);
    return err;
}

static int library_pthread_key_create(pthread_key_t *ret_key, void (*destroy)(void *))
{
    int err = pthread_key_create(ret_key, destroy);
    if (err)
        return err;
    err = make_beside(*ret_key, destroy);
    if (err)
        pthread_key_delete(*ret_key);
    return err;
}

static int library_pthread_key_delete(pthread_key_t key)
{
    uint32_t other = key < PTHREAD_KEYS_MAX ? atomic_exchange(&beside[key], 0) : 0;
    if (other)
        gs_cc_pthread_key_delete(other - 1);
    return pthread_key_delete(key);
}

static void *library_pthread_getspecific(pthread_key_t key)
{
    if (!thread_self() || key >= PTHREAD_KEYS_MAX)
        return pthread_getspecific(key);
    uint32_t other = atomic_load_explicit(&beside[key], memory_order_relaxed);
    return other ? gs_cc_pthread_getspecific(other - 1) : pthread_getspecific(key);
}

static int library_pthread_setspecific(pthread_key_t key, const void *value)
{
    if (!thread_self() || key >= PTHREAD_KEYS_MAX)
        return pthread_setspecific(key, value);
    uint32_t other = atomic_load_explicit(&beside[key], memory_order_relaxed);
    return other ? gs_cc_pthread_setspecific(other - 1, value) : pthread_setspecific(key, value);
}

/* ---- All of them, in the order of strcmp ---- */

#define REPLACED(name_) {#name_, (void (*)(void))library_##name_}

static const struct gs_cc_replacement replacements[] = {
    REPLACED(__poll_chk),
    REPLACED(__pthread_register_cancel),
    REPLACED(__pthread_unregister_cancel),
    REPLACED(__pthread_unwind_next),
    REPLACED(__read_chk),
    REPLACED(__recv_chk),
    REPLACED(__recvfrom_chk),
    REPLACED(accept),
    REPLACED(accept4),
    REPLACED(clock_nanosleep),
    REPLACED(connect),
    REPLACED(epoll_pwait),
    REPLACED(epoll_wait),
    REPLACED(fork),
    REPLACED(getaddrinfo),
    REPLACED(nanosleep),
    REPLACED(poll),
    REPLACED(ppoll),
    REPLACED(pselect),
    REPLACED(pthread_cancel),
    REPLACED(pthread_clockjoin_np),
    REPLACED(pthread_cond_clockwait),
    REPLACED(pthread_cond_timedwait),
    REPLACED(pthread_cond_wait),
    REPLACED(pthread_detach),
    REPLACED(pthread_exit),
    REPLACED(pthread_getaffinity_np),
    REPLACED(pthread_getattr_np),
    REPLACED(pthread_getcpuclockid),
    REPLACED(pthread_getname_np),
    REPLACED(pthread_getschedparam),
    REPLACED(pthread_getspecific),
    REPLACED(pthread_join),
    REPLACED(pthread_key_create),
    REPLACED(pthread_key_delete),
    REPLACED(pthread_kill),
    REPLACED(pthread_mutex_clocklock),
    REPLACED(pthread_mutex_lock),
    REPLACED(pthread_mutex_timedlock),
    REPLACED(pthread_mutex_trylock),
    REPLACED(pthread_mutex_unlock),
    REPLACED(pthread_rwlock_rdlock),
    REPLACED(pthread_rwlock_wrlock),
    REPLACED(pthread_self),
    REPLACED(pthread_setaffinity_np),
    REPLACED(pthread_setcancelstate),
    REPLACED(pthread_setcanceltype),
    REPLACED(pthread_setname_np),
    REPLACED(pthread_setschedparam),
    REPLACED(pthread_setschedprio),
    REPLACED(pthread_setspecific),
    REPLACED(pthread_sigqueue),
    REPLACED(pthread_testcancel),
    REPLACED(pthread_timedjoin_np),
    REPLACED(pthread_tryjoin_np),
    REPLACED(read),
    REPLACED(readv),
    REPLACED(recv),
    REPLACED(recvfrom),
    REPLACED(recvmsg),
    REPLACED(sched_yield),
    REPLACED(select),
    REPLACED(sem_timedwait),
    REPLACED(sem_wait),
    REPLACED(send),
    REPLACED(sendmsg),
    REPLACED(sendto),
    REPLACED(sleep),
    REPLACED(usleep),
    {"vfork", (void (*)(void))library_fork},
    REPLACED(write),
    REPLACED(writev),
    {NULL, NULL},
};
#define COUNT (sizeof replacements / sizeof *replacements - 1)
_Static_assert(COUNT <= GS_CC_MAX_REPLACEMENTS, "the originals of all have room");

const struct gs_cc_replacement *gs_cc_replacement_at(unsigned i)
{
    return &replacements[i];
}

static int compare(const void *name, const void *replacement)
{
    return strcmp(name, ((const struct gs_cc_replacement *)replacement)->name);
}

const struct gs_cc_replacement *gs_cc_find_replacement(const char *name)
{
    return bsearch(name, replacements, COUNT, sizeof *replacements, compare);
}
