/* What shared libraries know of threads: which one it is, its end, and its values. */
#include "compiler/runtime/libraries/library_calls.h"
#include "compiler/runtime/threads/threads.h"

#include <limits.h>
#include <pthread.h>
#include <unistd.h>

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

/* In the order of strcmp. */
static const struct gs_cc_replacement replacements[] = {
    REPLACED(__pthread_register_cancel),
    REPLACED(__pthread_unregister_cancel),
    REPLACED(__pthread_unwind_next),
    REPLACED(fork),
    REPLACED(pthread_cancel),
    REPLACED(pthread_clockjoin_np),
    REPLACED(pthread_detach),
    REPLACED(pthread_exit),
    REPLACED(pthread_getaffinity_np),
    REPLACED(pthread_getattr_np),
    REPLACED(pthread_getcpuclockid),
    REPLACED(pthread_getname_np),
    REPLACED(pthread_getschedparam),
    REPLACED(pthread_getspecific),
    REPLACED(pthread_key_create),
    REPLACED(pthread_key_delete),
    REPLACED(pthread_kill),
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
    {"vfork", (void (*)(void))library_fork},
};
const struct gs_cc_replacements gs_cc_library_threads = REPLACEMENTS(replacements);
