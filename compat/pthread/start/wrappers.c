/* Functions of the C library that this library defines before it. Those that create a thread begin
 * the runtime; the most frequent calls come here without a signal; those that execute programs keep
 * children under this library.
 *
 * A thread in a wrapper can be canceled as the C library does it: pthread_testcancel is called
 * before the wait, and after one that pthread_cancel has ended. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/start/environment.h"
#include "compat/pthread/start/real.h"
#include "compat/pthread/threads/task.h"

#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <gossamer/sys.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

void *gs_real_function(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function)
        gs_report_refusal("the C library lacks a function that this library wraps");
    return function;
}

const struct gs_real *gs_real(void)
{
    static struct gs_real real;
    if (!real.pthread_cancel) {
        *(void **)&real.pthread_create = gs_real_function("pthread_create");
        *(void **)&real.pthread_cancel = gs_real_function("pthread_cancel");
    }
    return &real;
}

/* ---- Threads ---- */

/* A task may wait for a kernel thread of the runtime, or for what that has locked: it is woken only
 * here. Before the first task runs none does. */
static void look_again(void)
{
    if (atomic_load(&gs_run.has_begun))
        gs_futexes_look_again();
}

struct native {
    void *(*fn)(void *argument);
    void *argument;
};

/* The address sanitizer takes locks to start this one, and a task that changes its user, which is
 * refused, waits for the start first. */
static void *run_native(void *argument)
{
    struct native native = *(struct native *)argument;
    look_again();
    return native.fn(native.argument);
}

/* Of the runtime, which may create a worker while tasks run. A new one frees nothing. */
static int create_native(pthread_t *ret_thread, const pthread_attr_t *attributes,
                         void *(*fn)(void *), void *argument)
{
    struct native *native = malloc(sizeof *native);
    if (!native)
        return EAGAIN;
    *native = (struct native){fn, argument};
    int err = gs_real()->pthread_create(ret_thread, attributes, run_native, native);
    if (err)
        free(native);
    look_again();
    return err;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument)
{
    gs_run_activate();
    if (GS_UNLIKELY(!gs_task) && gs_run.is_active)
        return create_native(thread, attributes, fn, argument);
    return gs_real()->pthread_create(thread, attributes, fn, argument);
}

/* The C library sends a signal only to a thread that is in a call of its own. */
EXPORT int pthread_cancel(pthread_t thread)
{
    int err = gs_real()->pthread_cancel(thread);
    struct task *self = gs_task;
    if (err || !gs_run.is_active || !self || gs_task_is_inside)
        return err;
    gs_task_enter(self);
    gs_run_acquire(&gs_tasks_lock);
    struct task *task = gs_task_find_pointer((const void *)thread);
    if (task) {
        atomic_store(&task->must_cancel, true);
        if (atomic_load(&task->waits_for_signals))
            gs_task_wake(task, WAKE_SIGNAL);
    }
    gs_run_release(&gs_tasks_lock);
    long result = 0;
    gs_task_leave(self, NULL, &result, -1);
    return err;
}

#define NAME_SIZE 16
/* The function that is wrapped. All are looked for at the start: the loader's lock may be held
 * later by a thread that loads a library and waits for others. The wrappers are all in this
 * section. */
struct wrapped {
    const char *name;
    void **real;
};
extern struct wrapped __start_gs_wrapped[], __stop_gs_wrapped[];

#define REAL(name_)                                                                                \
    static __typeof__(name_) *real;                                                                \
    static struct wrapped wrapped                                                                  \
        __attribute__((section("gs_wrapped"), used)) = {#name_, (void **)&real};                   \
    if (GS_UNLIKELY(!real))                                                                        \
    *wrapped.real = gs_real_function(wrapped.name)

/* What the C library lacks, the program does not call. */
void gs_wrappers_start(void)
{
    for (struct wrapped *one = __start_gs_wrapped; one < __stop_gs_wrapped; one++)
        *one->real = dlsym(RTLD_NEXT, one->name);
    (void)gs_real();
}

/* The C library makes these threads by itself: with the first of any kind the runtime begins. */
EXPORT int thrd_create(thrd_t *thread, thrd_start_t fn, void *argument)
{
    REAL(thrd_create);
    gs_run_activate();
    return real(thread, fn, argument);
}

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *ret_timer)
{
    REAL(timer_create);
    if (event && event->sigev_notify == SIGEV_THREAD)
        gs_run_activate();
    return real(clock, event, ret_timer);
}

/* Those by which the C library creates a thread of its own. It would be the kernel's if it was the
 * first, and not wake tasks. */
#define BEGINS_RUNTIME(name_, parameters_, ...)                                                    \
    EXPORT int name_ parameters_                                                                   \
    {                                                                                              \
        REAL(name_);                                                                               \
        gs_run_activate();                                                                         \
        return real(__VA_ARGS__);                                                                  \
    }
BEGINS_RUNTIME(aio_read, (struct aiocb * request), request)
BEGINS_RUNTIME(aio_read64, (struct aiocb64 * request), request)
BEGINS_RUNTIME(aio_write, (struct aiocb * request), request)
BEGINS_RUNTIME(aio_write64, (struct aiocb64 * request), request)
BEGINS_RUNTIME(aio_fsync, (int operation, struct aiocb *request), operation, request)
BEGINS_RUNTIME(aio_fsync64, (int operation, struct aiocb64 *request), operation, request)
BEGINS_RUNTIME(lio_listio,
               (int mode, struct aiocb *const list[restrict], int count,
                struct sigevent *restrict event),
               mode, list, count, event)
BEGINS_RUNTIME(lio_listio64,
               (int mode, struct aiocb64 *const list[restrict], int count,
                struct sigevent *restrict event),
               mode, list, count, event)
BEGINS_RUNTIME(getaddrinfo_a,
               (int mode, struct gaicb *list[restrict], int count, struct sigevent *restrict event),
               mode, list, count, event)

EXPORT int mq_notify(mqd_t queue, const struct sigevent *event)
{
    REAL(mq_notify);
    if (event && event->sigev_notify == SIGEV_THREAD)
        gs_run_activate();
    return real(queue, event);
}

/* ---- Names: the C library would write them into a file of /proc ---- */

/* Returns ESRCH if the thread is no task. new_name NULL: it is copied to ret_name. */
static int exchange_name(pthread_t thread, const char *new_name, char ret_name[NAME_SIZE])
{
    struct task *self = gs_task;
    long result = 0;
    gs_task_enter(self);
    gs_run_acquire(&gs_tasks_lock);
    struct task *task = gs_task_find_pointer((const void *)thread);
    if (task && new_name)
        gs_task_set_name(task, new_name);
    else if (task)
        memcpy(ret_name, task->name, NAME_SIZE);
    gs_run_release(&gs_tasks_lock);
    gs_task_leave(self, NULL, &result, -1);
    return task ? 0 : ESRCH;
}

EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
    REAL(pthread_setname_np);
    if (!gs_is_wrapper_in_task())
        return real(thread, name);
    if (strlen(name) >= NAME_SIZE)
        return ERANGE;
    return exchange_name(thread, name, NULL) ? real(thread, name) : 0;
}

EXPORT int pthread_getname_np(pthread_t thread, char *name, size_t size)
{
    REAL(pthread_getname_np);
    char found[NAME_SIZE];
    if (!gs_is_wrapper_in_task())
        return real(thread, name, size);
    if (size < NAME_SIZE)
        return ERANGE;
    if (exchange_name(thread, NULL, found))
        return real(thread, name, size);
    memcpy(name, found, NAME_SIZE);
    return 0;
}

/* ---- Calls without the signal ---- */

static long result_of(long result)
{
    if (GS_UNLIKELY(result < 0 && result > -4096)) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

/* Not in a task, the call is the C library's own, which may be canceled in it. */
long gs_wait_in_task(long number, gs_call_fn *emulate, const long *arguments)
{
    struct task *task = gs_task;
    task->call = number;
    task->call_arguments = arguments;
    for (;;) {
        pthread_testcancel();
        unsigned handled = task->handled, without_restart = task->handled_without_restart;
        long unused = 0;
        gs_task_enter(task);
        GS_COUNT(wrapped);
        task->was_interrupted = false;
        long result = emulate(task, arguments, NULL);
        gs_task_count_vain(task, result);
        gs_task_leave(task, NULL, &unused, -1);
        if (GS_UNLIKELY(task->was_interrupted && result > 0))
            pthread_testcancel(); /* a part was done: the C library does not return it either */
        bool is_interrupted = result == RESTART_IF_ASKED || result == RESTART_NEVER;
        if (GS_LIKELY(!is_interrupted))
            return result_of(result);
        bool must_fail = result == RESTART_NEVER ? task->handled != handled
                                                 : task->handled_without_restart != without_restart;
        if (must_fail)
            return result_of(-EINTR);
    }
}

#define ARGUMENTS(...) ((const long[6]){__VA_ARGS__})

/* A call of a task is made here, and any other is the C library's. given_: the arguments as they
 * are; the last ones are those of the system call. */
#define WRAPPED(result_, name_, parameters_, given_, call_, ...)                                   \
    EXPORT result_ name_ parameters_                                                               \
    {                                                                                              \
        REAL(name_);                                                                               \
        if (!gs_is_wrapper_in_task())                                                              \
            return real given_;                                                                    \
        return (result_)gs_wait_in_task(SYS_##call_, gs_call_##call_, ARGUMENTS(__VA_ARGS__));     \
    }

WRAPPED(ssize_t, read, (int fd, void *bytes, size_t n), (fd, bytes, n), read, fd, (long)bytes,
        (long)n)

ssize_t __read_chk(int fd, void *bytes, size_t n, size_t size);
EXPORT ssize_t __read_chk(int fd, void *bytes, size_t n, size_t size)
{
    REAL(__read_chk);
    if (!gs_is_wrapper_in_task() || n > size)
        return real(fd, bytes, n, size);
    return gs_wait_in_task(SYS_read, gs_call_read, ARGUMENTS(fd, (long)bytes, (long)n));
}

WRAPPED(ssize_t, write, (int fd, const void *bytes, size_t n), (fd, bytes, n), write, fd,
        (long)bytes, (long)n)
WRAPPED(ssize_t, readv, (int fd, const struct iovec *iov, int count), (fd, iov, count), readv, fd,
        (long)iov, count)
WRAPPED(ssize_t, writev, (int fd, const struct iovec *iov, int count), (fd, iov, count), writev, fd,
        (long)iov, count)
WRAPPED(ssize_t, recv, (int fd, void *bytes, size_t n, int flags), (fd, bytes, n, flags), recvfrom,
        fd, (long)bytes, (long)n, flags)

ssize_t __recv_chk(int fd, void *bytes, size_t n, size_t size, int flags);
EXPORT ssize_t __recv_chk(int fd, void *bytes, size_t n, size_t size, int flags)
{
    REAL(__recv_chk);
    if (!gs_is_wrapper_in_task() || n > size)
        return real(fd, bytes, n, size, flags);
    return gs_wait_in_task(SYS_recvfrom, gs_call_recvfrom,
                           ARGUMENTS(fd, (long)bytes, (long)n, flags));
}

WRAPPED(ssize_t, send, (int fd, const void *bytes, size_t n, int flags), (fd, bytes, n, flags),
        sendto, fd, (long)bytes, (long)n, flags)
WRAPPED(ssize_t, recvfrom,
        (int fd, void *bytes, size_t n, int flags, __SOCKADDR_ARG address, socklen_t *length),
        (fd, bytes, n, flags, address, length), recvfrom, fd, (long)bytes, (long)n, flags,
        (long)address.__sockaddr__, (long)length)
WRAPPED(ssize_t, sendto,
        (int fd, const void *bytes, size_t n, int flags, __CONST_SOCKADDR_ARG address,
         socklen_t length),
        (fd, bytes, n, flags, address, length), sendto, fd, (long)bytes, (long)n, flags,
        (long)address.__sockaddr__, length)
WRAPPED(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags),
        recvmsg, fd, (long)message, flags)
WRAPPED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
        sendmsg, fd, (long)message, flags)
WRAPPED(int, accept, (int fd, __SOCKADDR_ARG address, socklen_t *length), (fd, address, length),
        accept4, fd, (long)address.__sockaddr__, (long)length)
WRAPPED(int, accept4, (int fd, __SOCKADDR_ARG address, socklen_t *length, int flags),
        (fd, address, length, flags), accept4, fd, (long)address.__sockaddr__, (long)length, flags)
WRAPPED(int, poll, (struct pollfd * polls, nfds_t count, int timeout_ms),
        (polls, count, timeout_ms), poll, (long)polls, (long)count, timeout_ms)
WRAPPED(int, epoll_wait, (int fd, struct epoll_event *events, int count, int timeout_ms),
        (fd, events, count, timeout_ms), epoll_wait, fd, (long)events, count, timeout_ms)
WRAPPED(int, nanosleep, (const struct timespec *time, struct timespec *rest), (time, rest),
        nanosleep, (long)time, (long)rest)

EXPORT int sched_yield(void)
{
    REAL(sched_yield);
    struct task *task = gs_task;
    long unused = 0;
    if (!gs_is_wrapper_in_task())
        return real();
    gs_task_enter(task);
    GS_COUNT(wrapped);
    gs_task_yield(task);
    gs_task_leave(task, NULL, &unused, -1);
    return 0;
}

/* ---- Programs that are executed before there is a task ---- */

EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
    REAL(execve);
    char **longer = gs_run.is_active ? NULL : gs_environment_for_child(environment);
    int result = real(path, arguments, longer ? longer : environment);
    gs_environment_free(longer);
    return result;
}

EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    REAL(execvpe);
    char **longer = gs_run.is_active ? NULL : gs_environment_for_child(environment);
    int result = real(file, arguments, longer ? longer : environment);
    gs_environment_free(longer);
    return result;
}

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
                     const posix_spawnattr_t *, char *const[], char *const[]);

struct spawn {
    pid_t *pid;
    const char *path;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    char *const *arguments;
};

static int spawn(spawn_fn *fn, const struct spawn *spawn, char *const environment[])
{
    char **longer = gs_environment_for_child(environment);
    int err = fn(spawn->pid, spawn->path, spawn->actions, spawn->attributes,
                 (char *const *)spawn->arguments, longer ? longer : environment);
    gs_environment_free(longer);
    return err;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const environment[])
{
    REAL(posix_spawn);
    const struct spawn call = {pid, path, actions, attributes, arguments};
    return spawn(real, &call, environment);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[],
                        char *const environment[])
{
    REAL(posix_spawnp);
    const struct spawn call = {pid, file, actions, attributes, arguments};
    return spawn(real, &call, environment);
}
