/* Users and groups: the kernel keeps them for each kernel thread, POSIX for the process. The C
 * library sends a signal to each of its threads, whose handler makes the same system call there,
 * and makes it itself at the end.
 *
 * Here the signals end in gs_credentials_signal: a kernel thread that lives for this only calls the
 * handler for the C library's record of the thread, with its thread pointer, and so makes a system
 * call which changes nobody else. The sender must not: some calls do more when they are made
 * again, as setuid does once it has made the user root. The last call, by the sender,
 * is made by all kernel threads: by ours a signal has it made, which only they receive. Without
 * signals before it, it is a call for one thread (syscall(2)), which is the worker's only.
 *
 * Kernel threads inherit the credentials of those that create them. So the list of those that
 * exist is read again until it has no new one. */
#include "compat/pthread/threads/credentials.h"

#include "compat/pthread/start/call_sites.h"
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_AGAIN_NS (5 * GS_MILLISECOND)

/* A kernel thread that shall make the call. */
struct member {
    int tid;
    atomic_bool has_changed;
};

static struct gs_run_lock lock; /* guards what follows */
static struct member *members;
static unsigned count, room;
static long call_number;
static const long *call_arguments;
static uint32_t changes; /* a futex */
/* The program may change its root, or have no descriptor left, before it changes its user. */
static int directory = -1;

static struct gs_run_lock natives_lock;
static struct gs_native_thread *natives;

/* ---- Kernel threads that the C library has made for the runtime ---- */

void gs_native_thread_begins(struct gs_native_thread *thread)
{
    const gs_signals signal = GS_SIGNAL(GS_SET_USER);
    __asm__ volatile("movq %%fs:0, %0" : "=r"(thread->thread_pointer));
    thread->tid = (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    gs_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&signal, 0, sizeof signal, 0, 0);
    gs_run_acquire(&natives_lock);
    thread->next = natives;
    natives = thread;
    gs_run_release(&natives_lock);
}

static void *thread_pointer_of(unsigned tid)
{
    gs_run_acquire(&gs_tasks_lock);
    struct task *task = gs_task_find(tid);
    void *pointer = task ? task->thread_pointer : NULL;
    gs_run_release(&gs_tasks_lock);
    if (pointer)
        return pointer;
    gs_run_acquire(&natives_lock);
    struct gs_native_thread *thread = natives;
    while (thread && thread->tid != (int)tid)
        thread = thread->next;
    gs_run_release(&natives_lock);
    return thread ? thread->thread_pointer : NULL;
}

/* ---- The C library's signal ---- */

struct handler_call {
    void *thread_pointer, *handler;
    siginfo_t info;
    uint32_t is_done; /* a futex */
};

/* In a kernel thread of its own. Nothing here may use thread-local storage: it is the other
 * thread's. */
static __attribute__((noinline)) void call_with(void *argument)
{
    struct handler_call *call = argument;
    unsigned long own;
    __asm__ volatile("rdfsbase %0" : "=r"(own));
    __asm__ volatile("wrfsbase %0" : : "r"(call->thread_pointer) : "memory");
    ((void (*)(int, siginfo_t *, void *))call->handler)(GS_SET_USER, &call->info, NULL);
    __asm__ volatile("wrfsbase %0" : : "r"(own) : "memory");
    __atomic_store_n(&call->is_done, 1, __ATOMIC_RELEASE);
    gs_syscall(SYS_futex, (long)&call->is_done, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

long gs_credentials_signal(struct task *task, unsigned tid)
{
    const struct kernel_action action = gs_action_of(GS_SET_USER);
    struct handler_call call = {.thread_pointer = thread_pointer_of(tid),
                                .handler = action.handler,
                                .info = {.si_signo = GS_SET_USER, .si_code = SI_TKILL}};
    call.info.si_pid = gs_run.process_id;
    if (!call.thread_pointer)
        return -ESRCH;
    if (action.handler == (void *)SIG_DFL || action.handler == (void *)SIG_IGN)
        gs_report_refusal("the C library changes users and groups in an unknown way");
    task->sets_credentials = true;
    gs_call_sites_suspend();
    if (gs_kernel_thread_start(call_with, &call))
        gs_report_refusal("there is no memory to change the user of all kernel threads");
    while (!__atomic_load_n(&call.is_done, __ATOMIC_ACQUIRE))
        gs_syscall(SYS_futex, (long)&call.is_done, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    gs_call_sites_resume();
    /* One that begins or ends may wait for that. */
    gs_futexes_look_again();
    return 0;
}

/* ---- The call of all kernel threads ---- */

/* In any of them, which may be anywhere. */
void gs_credentials_change(void)
{
    const long *a = call_arguments;
    int tid = (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    gs_syscall(call_number, a[0], a[1], a[2], 0, 0, 0);
    for (unsigned i = 0; i < count; i++)
        if (members[i].tid == tid)
            atomic_store(&members[i].has_changed, true);
    __atomic_fetch_add(&changes, 1, __ATOMIC_SEQ_CST);
    gs_syscall(SYS_futex, (long)&changes, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static bool send_signal(int tid, int number)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = number;
    info.si_code = -GS_SET_USER;
    return gs_syscall(SYS_rt_tgsigqueueinfo, gs_run.process_id, tid, number, (long)&info, 0, 0) !=
           -ESRCH;
}

static bool is_member(int tid)
{
    unsigned i = 0;
    while (i < count && members[i].tid != tid)
        i++;
    return i < count;
}

/* Signals are sent only while the array stays where it is. */
static void add_member(int tid)
{
    if (count == room) {
        unsigned more = room ? 2 * room : 64;
        struct member *larger = realloc(members, more * sizeof *larger);
        if (!larger)
            gs_report_refusal("there is no memory to change the user of all kernel threads");
        members = larger;
        room = more;
    }
    members[count].tid = tid;
    atomic_store(&members[count++].has_changed, false);
}

struct directory_entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

static int number_of(const char *name)
{
    int number = 0;
    for (; *name >= '0' && *name <= '9'; name++)
        number = number * 10 + (*name - '0');
    return number;
}

/* A worker of io_uring's receives no signals, and executes each request with the credentials of the
 * task that submitted it. The flags follow the seventh blank after the name, which is in
 * parentheses. */
static bool is_worker_of_io_uring(const char *name)
{
    enum { IO_WORKER = 0x10, BLANKS_BEFORE_FLAGS = 7 };
    char path[32], line[256];
    snprintf(path, sizeof path, "%.16s/stat", name);
    long fd = gs_syscall(SYS_openat, directory, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return false;
    long n = gs_syscall(SYS_read, fd, (long)line, sizeof line - 1, 0, 0, 0);
    gs_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    line[n > 0 ? n : 0] = 0;
    const char *at = strrchr(line, ')');
    for (int i = 0; at && i < BLANKS_BEFORE_FLAGS; i++)
        at = strchr(at + 1, ' ');
    return at && strtoul(at, NULL, 10) & IO_WORKER;
}

/* Returns whether there are new ones. */
static bool list_threads(void)
{
    _Alignas(8) static char buffer[4096];
    bool is_any_new = false;
    long n;
    if (gs_syscall(SYS_lseek, directory, 0, SEEK_SET, 0, 0, 0))
        gs_report_refusal("the program changes its user when it has threads, without /proc");
    while ((n = gs_syscall(SYS_getdents64, directory, (long)buffer, sizeof buffer, 0, 0, 0)) > 0)
        for (long at = 0; at < n;) {
            const struct directory_entry *entry = (const struct directory_entry *)(buffer + at);
            int tid = number_of(entry->name);
            if (tid && !is_member(tid) && !is_worker_of_io_uring(entry->name)) {
                add_member(tid);
                is_any_new = true;
            }
            at += entry->length;
        }
    return is_any_new;
}

static bool has_changed(struct member *member)
{
    if (!atomic_load(&member->has_changed) && !send_signal(member->tid, 0))
        atomic_store(&member->has_changed, true); /* it has ended */
    return atomic_load(&member->has_changed);
}

static void await_members(unsigned from)
{
    const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    for (unsigned i = from; i < count;) {
        uint32_t seen = __atomic_load_n(&changes, __ATOMIC_SEQ_CST);
        if (has_changed(&members[i]))
            i++;
        else
            gs_syscall(SYS_futex, (long)&changes, FUTEX_WAIT_PRIVATE, (long)seen, (long)&pause, 0,
                       0);
    }
}

static void change_others(long number, const long *arguments)
{
    gs_run_acquire(&lock);
    call_number = number;
    call_arguments = arguments;
    count = 0;
    add_member((int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0));
    for (unsigned next = 1; list_threads(); next = count) {
        for (unsigned i = next; i < count; i++)
            send_signal(members[i].tid, GS_SET_USER);
        await_members(next);
    }
    gs_run_release(&lock);
}

static long change(struct task *task, long number, const long *arguments)
{
    bool is_for_all = task->sets_credentials;
    task->sets_credentials = false;
    long result = gs_syscall(number, arguments[0], arguments[1], arguments[2], 0, 0, 0);
    if (!result && is_for_all)
        change_others(number, arguments);
    return result;
}

#define CALL(name_)                                                                                \
    long gs_call_##name_(struct task *task, const long *arguments, ucontext_t *context)            \
    {                                                                                              \
        (void)context;                                                                             \
        return change(task, SYS_##name_, arguments);                                               \
    }
CALL(setuid)
CALL(setgid)
CALL(setreuid)
CALL(setregid)
CALL(setresuid)
CALL(setresgid)
CALL(setgroups)

void gs_credentials_start(void)
{
    long fd = gs_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/task",
                         O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
    directory = gs_own_descriptor((int)fd);
}

/* The descriptor is one of the runtime's, which are closed together. */
void gs_credentials_forget(void)
{
    directory = -1;
    lock = natives_lock = (struct gs_run_lock){0};
    natives = NULL;
}
