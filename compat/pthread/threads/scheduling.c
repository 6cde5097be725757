/* What the kernel keeps for each thread, and we for each task: its name, the processors on which
 * it may run, policy, priority and CPU time. Workers get a task's processors when they resume it.
 * Policies and priorities are stored, and checked as the kernel does, but are not in force: a
 * worker runs tasks of several. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define PROCESSORS_SIZE 128 /* bytes: 1024 processors */

struct gs_processors {
    unsigned char bits[PROCESSORS_SIZE];
};
static struct gs_processors initial;
static atomic_uint last_version;
static uint64_t start_cycles, start_ns;

/* ---- Tasks named by an id ---- */

/* 0 names the caller. The caller holds gs_tasks_lock. */
static struct task *find(struct task *task, unsigned tid)
{
    return tid ? gs_task_find(tid) : task;
}

/* Whether the id is of a kernel thread that is no task, of which the kernel knows. */
static bool is_foreign(long id)
{
    return id && !gs_task_is_tid((unsigned)id);
}

static bool is_task(unsigned tid)
{
    gs_run_acquire(&gs_tasks_lock);
    bool is_found = gs_task_find(tid);
    gs_run_release(&gs_tasks_lock);
    return is_found;
}

static uint64_t ns_of(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * GS_SECOND + (uint64_t)time->tv_nsec;
}

/* ---- Start ---- */

void gs_scheduling_start(struct task *main_task)
{
    struct timespec used = {0};
    struct sched_param parameters = {0};
    gs_syscall(SYS_sched_getaffinity, 0, sizeof initial, (long)&initial, 0, 0, 0);
    gs_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&used, 0, 0, 0, 0);
    gs_syscall(SYS_prctl, 16 /* PR_GET_NAME */, (long)main_task->name, 0, 0, 0, 0);
    gs_syscall(SYS_sched_getparam, 0, (long)&parameters, 0, 0, 0, 0);
    long policy = gs_syscall(SYS_sched_getscheduler, 0, 0, 0, 0, 0, 0);
    long nice = gs_syscall(SYS_getpriority, PRIO_PROCESS, 0, 0, 0, 0, 0);
    atomic_store(&main_task->cpu_ns, ns_of(&used));
    main_task->policy = policy > 0 ? (unsigned char)policy : 0;
    main_task->priority = (unsigned char)parameters.sched_priority;
    main_task->nice = nice > 0 ? (signed char)(20 - nice) : 0;
    start_cycles = __builtin_ia32_rdtsc();
    start_ns = gs_clock_now();
}

void gs_scheduling_inherit(struct task *task, const struct task *parent)
{
    memcpy(task->name, parent->name, sizeof task->name);
    task->policy = parent->policy;
    task->priority = parent->priority;
    task->nice = parent->nice;
    gs_run_acquire(&gs_tasks_lock);
    struct gs_processors *copy = parent->processors ? malloc(sizeof *copy) : NULL;
    if (copy) {
        *copy = *parent->processors;
        task->processors = copy;
        task->processors_version = parent->processors_version;
    }
    gs_run_release(&gs_tasks_lock);
}

/* The caller holds gs_tasks_lock, without which others may look at them. */
void gs_scheduling_free(struct task *task)
{
    free(task->processors);
    task->processors = NULL;
    task->processors_version = 0;
}

/* ---- Names ---- */

/* The first thread's is the name of the process, too. */
void gs_task_set_name(struct task *task, const char *name)
{
    char copy[sizeof task->name] = "";
    for (unsigned i = 0; i < sizeof copy - 1 && name[i]; i++)
        copy[i] = name[i];
    memcpy(task->name, copy, sizeof copy);
    if (task != gs_run.main_task)
        return;
    long fd =
        gs_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/comm", O_WRONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return;
    gs_syscall(SYS_write, fd, (long)copy, sizeof copy, 0, 0, 0);
    gs_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static const char *skip(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return text && !strncmp(text, prefix, n) ? text + n : NULL;
}

const char *gs_proc_path(struct task *task, const char *path, char buffer[PROC_PATH_MAX],
                         struct task **ret_task)
{
    char own[32], copy[PROC_PATH_MAX];
    *ret_task = NULL;
    if (gs_run_copy(copy, path, 6) || memcmp(copy, "/proc/", 6) != 0)
        return path;
    for (unsigned i = 6; i == 6 || copy[i - 1]; i++)
        if (i == sizeof copy || gs_run_copy(&copy[i], path + i, 1))
            return path;
    snprintf(own, sizeof own, "/proc/%d/task/", gs_run.process_id);
    const char *rest = skip(copy, "/proc/self/task/");
    rest = rest ? rest : skip(copy, own);
    const char *of_caller = skip(copy, "/proc/thread-self");
    if (!rest && !of_caller)
        return path;
    char *end = (char *)of_caller;
    unsigned tid = of_caller ? task->tid : (unsigned)strtoul(rest, &end, 10);
    gs_run_acquire(&gs_tasks_lock);
    struct task *found = gs_task_find(tid);
    gs_run_release(&gs_tasks_lock);
    if (!found)
        return path;
    if (!strcmp(end, "/comm"))
        *ret_task = found;
    int kernel_tid = found == task ? gs_carrier()->tid : gs_run.process_id;
    snprintf(buffer, PROC_PATH_MAX, "/proc/self/task/%d%s", kernel_tid, end);
    return buffer;
}

/* ---- Processors ---- */

void gs_processors_apply(struct carrier *carrier, const struct task *task)
{
    struct gs_processors set = initial;
    gs_run_acquire(&gs_tasks_lock);
    if (task->processors)
        set = *task->processors;
    carrier->processors_version = task->processors_version;
    gs_run_release(&gs_tasks_lock);
    gs_syscall(SYS_sched_setaffinity, 0, sizeof set, (long)&set, 0, 0, 0);
}

/* The kernel's answer for the worker is the task's; it may leave processors out. */
long gs_call_setaffinity(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if (is_foreign((int)arguments[0]))
        return gs_syscall(SYS_sched_setaffinity, arguments[0], arguments[1], arguments[2], 0, 0, 0);
    if ((int)arguments[0] && !is_task((unsigned)arguments[0]))
        return -ESRCH;
    long err = gs_syscall(SYS_sched_setaffinity, 0, arguments[1], arguments[2], 0, 0, 0);
    if (err)
        return err;
    struct gs_processors *set = calloc(1, sizeof *set);
    if (!set)
        return -ENOMEM;
    gs_syscall(SYS_sched_getaffinity, 0, sizeof *set, (long)set, 0, 0, 0);
    unsigned version = atomic_fetch_add(&last_version, 1) + 1;
    gs_carrier()->processors_version = version;
    gs_run_acquire(&gs_tasks_lock);
    struct task *found = find(task, (unsigned)arguments[0]);
    if (found) {
        struct gs_processors *before = found->processors;
        found->processors = set;
        found->processors_version = version;
        set = before;
    }
    gs_run_release(&gs_tasks_lock);
    free(set);
    gs_carrier_attach(task);
    return found ? 0 : -ESRCH;
}

long gs_call_getaffinity(struct task *task, const long *arguments, ucontext_t *context)
{
    struct gs_processors set = initial;
    (void)context;
    long id = is_foreign((int)arguments[0]) ? arguments[0] : 0;
    long n = gs_syscall(SYS_sched_getaffinity, id, arguments[1], arguments[2], 0, 0, 0);
    if (n < 0 || id)
        return n;
    gs_run_acquire(&gs_tasks_lock);
    const struct task *found = find(task, (unsigned)arguments[0]);
    if (found && found->processors)
        set = *found->processors;
    gs_run_release(&gs_tasks_lock);
    if (!found)
        return -ESRCH;
    memcpy((void *)arguments[2], &set, (size_t)n < sizeof set ? (size_t)n : sizeof set);
    return n;
}

/* ---- Policies ---- */

struct policy {
    int policy, priority;
};

/* Returns 0 or -ESRCH; *policy is in or out. */
static long exchange(struct task *task, unsigned tid, struct policy *policy, bool stores)
{
    gs_run_acquire(&gs_tasks_lock);
    struct task *found = find(task, tid);
    if (found && stores) {
        found->policy = (unsigned char)policy->policy;
        found->priority = (unsigned char)policy->priority;
    } else if (found) {
        *policy = (struct policy){found->policy, found->priority};
    }
    gs_run_release(&gs_tasks_lock);
    return found ? 0 : -ESRCH;
}

/* The kernel says whether it would accept it. */
static long set_policy(struct task *task, long tid, int number, const void *program_parameters)
{
    struct sched_param parameters, normal = {0};
    if (!program_parameters || (int)tid < 0)
        return -EINVAL;
    if (gs_run_copy(&parameters, program_parameters, sizeof parameters))
        return -EFAULT;
    struct policy policy = {number & ~SCHED_RESET_ON_FORK, parameters.sched_priority};
    if (is_foreign((int)tid))
        return gs_syscall(SYS_sched_setscheduler, tid, number, (long)&parameters, 0, 0, 0);
    if (tid && !is_task((unsigned)tid))
        return -ESRCH;
    long err = gs_syscall(SYS_sched_setscheduler, 0, number, (long)&parameters, 0, 0, 0);
    if (err)
        return err;
    gs_syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&normal, 0, 0, 0);
    return exchange(task, (unsigned)tid, &policy, true);
}

long gs_call_setscheduler(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if ((int)arguments[1] < 0)
        return -EINVAL;
    return set_policy(task, (int)arguments[0], (int)arguments[1], (const void *)arguments[2]);
}

long gs_call_setparam(struct task *task, const long *arguments, ucontext_t *context)
{
    struct policy policy;
    (void)context;
    if (is_foreign((int)arguments[0]))
        return gs_syscall(SYS_sched_setparam, arguments[0], arguments[1], 0, 0, 0, 0);
    long err = exchange(task, (unsigned)arguments[0], &policy, false);
    return err ? err
               : set_policy(task, (int)arguments[0], policy.policy, (const void *)arguments[1]);
}

long gs_call_getscheduler(struct task *task, const long *arguments, ucontext_t *context)
{
    struct policy policy;
    (void)context;
    if (is_foreign((int)arguments[0]))
        return gs_syscall(SYS_sched_getscheduler, arguments[0], 0, 0, 0, 0, 0);
    long err = exchange(task, (unsigned)arguments[0], &policy, false);
    return err ? err : policy.policy;
}

long gs_call_getparam(struct task *task, const long *arguments, ucontext_t *context)
{
    struct policy policy;
    (void)context;
    if (is_foreign((int)arguments[0]))
        return gs_syscall(SYS_sched_getparam, arguments[0], arguments[1], 0, 0, 0, 0);
    if (!arguments[1])
        return -EINVAL;
    long err = exchange(task, (unsigned)arguments[0], &policy, false);
    if (err)
        return err;
    const struct sched_param parameters = {.sched_priority = policy.priority};
    return gs_run_copy((void *)arguments[1], &parameters, sizeof parameters);
}

long gs_call_rr_interval(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)context;
    if (!is_foreign((int)arguments[0]) && arguments[0] && !is_task((unsigned)arguments[0]))
        return -ESRCH;
    return gs_syscall(SYS_sched_rr_get_interval, is_foreign((int)arguments[0]) ? arguments[0] : 0,
                      arguments[1], 0, 0, 0, 0);
}

/* As the kernel's, which is in no header of the C library before 2.41. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

long gs_call_setattr(struct task *task, const long *arguments, ucontext_t *context)
{
    struct attributes attributes;
    const struct sched_param normal = {0};
    (void)context;
    if (is_foreign((int)arguments[0]))
        return gs_syscall(SYS_sched_setattr, arguments[0], arguments[1], arguments[2], 0, 0, 0);
    long err = gs_syscall(SYS_sched_setattr, 0, arguments[1], arguments[2], 0, 0, 0);
    if (err)
        return err;
    gs_syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&normal, 0, 0, 0);
    if (gs_run_copy(&attributes, (const void *)arguments[1], sizeof attributes))
        return -EFAULT;
    struct policy policy = {(int)attributes.policy, (int)attributes.priority};
    return exchange(task, (unsigned)arguments[0], &policy, true);
}

long gs_call_getattr(struct task *task, const long *arguments, ucontext_t *context)
{
    struct policy policy;
    (void)context;
    bool foreign = is_foreign((int)arguments[0]);
    long err = gs_syscall(SYS_sched_getattr, foreign ? arguments[0] : 0, arguments[1], arguments[2],
                          arguments[3], 0, 0);
    if (err || foreign)
        return err;
    err = exchange(task, (unsigned)arguments[0], &policy, false);
    if (err)
        return err;
    struct attributes *attributes = (struct attributes *)arguments[1];
    attributes->policy = (uint32_t)policy.policy;
    attributes->priority = (uint32_t)policy.priority;
    return 0;
}

/* ---- Nice values ---- */

static bool may_lower_to(int nice)
{
    struct rlimit limit = {0};
    gs_syscall(SYS_prlimit64, 0, RLIMIT_NICE, 0, (long)&limit, 0, 0);
    return limit.rlim_cur >= (rlim_t)(20 - nice) || !gs_syscall(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

long gs_call_setpriority(struct task *task, const long *arguments, ucontext_t *context)
{
    int nice = (int)arguments[2];
    (void)context;
    if (arguments[0] != PRIO_PROCESS || is_foreign((int)arguments[1]))
        return gs_syscall(SYS_setpriority, arguments[0], arguments[1], arguments[2], 0, 0, 0);
    nice = nice > 19 ? 19 : nice < -20 ? -20 : nice;
    gs_run_acquire(&gs_tasks_lock);
    struct task *found = find(task, (unsigned)arguments[1]);
    long err = !found ? -ESRCH : nice < found->nice && !may_lower_to(nice) ? -EACCES : 0;
    if (!err)
        found->nice = (signed char)nice;
    gs_run_release(&gs_tasks_lock);
    return err;
}

long gs_call_getpriority(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if (arguments[0] != PRIO_PROCESS || is_foreign((int)arguments[1]))
        return gs_syscall(SYS_getpriority, arguments[0], arguments[1], 0, 0, 0, 0);
    gs_run_acquire(&gs_tasks_lock);
    const struct task *found = find(task, (unsigned)arguments[1]);
    long result = found ? 20 - found->nice : -ESRCH;
    gs_run_release(&gs_tasks_lock);
    return result;
}

/* Of the worker. The first argument says what the id in the second names. */
long gs_call_ioprio(struct task *task, const long *arguments, ucontext_t *context)
{
    long number = context ? context->uc_mcontext.gregs[REG_RAX] : SYS_ioprio_get;
    (void)task;
    bool foreign = is_foreign((int)arguments[1]);
    if (!foreign && arguments[1] && !is_task((unsigned)arguments[1]))
        return -ESRCH;
    return gs_syscall(number, arguments[0], foreign ? arguments[1] : 0, arguments[2], 0, 0, 0);
}

/* ---- CPU time ---- */

static uint64_t ns_of_cycles(uint64_t cycles)
{
    enum { SHORTEST_NS = 20000 };
    uint64_t ns;
    while ((ns = gs_clock_now() - start_ns) < SHORTEST_NS)
        __builtin_ia32_pause();
    return (uint64_t)((unsigned __int128)cycles * ns / (__builtin_ia32_rdtsc() - start_cycles));
}

/* Of a kernel thread. */
static uint64_t kernel_time(int tid)
{
    struct timespec time = {0};
    long clock = tid ? (long)(int)((~(unsigned)tid << 3) | 6) : CLOCK_THREAD_CPUTIME_ID;
    gs_syscall(SYS_clock_gettime, clock, (long)&time, 0, 0, 0, 0);
    return ns_of(&time);
}

void gs_task_count_exactly(struct task *task, bool begins)
{
    uint64_t now = kernel_time(0), since = atomic_load(&task->since_ns);
    if (since && !begins)
        atomic_fetch_add(&task->cpu_ns, now - since);
    atomic_store(&task->counted_tid, gs_carrier()->tid);
    atomic_store(&task->since_ns, begins ? now : 0);
}

/* From the first question on, the time of each task is counted exactly. */
static void begin_to_count(struct task *task)
{
    if (!atomic_exchange(&gs_run.counts_exactly, true) || atomic_load(&task->since_cycles)) {
        gs_task_count_until(task);
        gs_task_count_exactly(task, true);
    }
}

/* Another worker may be about to store what is read. */
static uint64_t cpu_time(const struct task *task)
{
    uint64_t since = atomic_load(&task->since_cycles), since_ns = atomic_load(&task->since_ns);
    uint64_t cycles = atomic_load(&task->cycles), ns = atomic_load(&task->cpu_ns);
    if (since)
        cycles += __builtin_ia32_rdtsc() - since;
    uint64_t now_ns = since_ns ? kernel_time(atomic_load(&task->counted_tid)) : 0;
    return ns + ns_of_cycles(cycles) + (now_ns > since_ns ? now_ns - since_ns : 0);
}

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / GS_SECOND), (long)(ns % GS_SECOND)};
}

/* The clock of a thread's CPU time has the thread's id in it. */
static bool is_of_task(clockid_t clock, unsigned *ret_tid)
{
    *ret_tid = clock < 0 ? ~(unsigned)(clock >> 3) : 0;
    return clock == CLOCK_THREAD_CPUTIME_ID ||
           (clock < 0 && (clock & 7) == 6 && !is_foreign((int)*ret_tid));
}

long gs_call_clock_gettime(struct task *task, const long *arguments, ucontext_t *context)
{
    unsigned tid;
    (void)context;
    if (!is_of_task((clockid_t)arguments[0], &tid))
        return gs_syscall(SYS_clock_gettime, arguments[0], arguments[1], 0, 0, 0, 0);
    begin_to_count(task);
    gs_run_acquire(&gs_tasks_lock);
    const struct task *found = find(task, tid);
    uint64_t ns = found ? cpu_time(found) : 0;
    gs_run_release(&gs_tasks_lock);
    if (!found)
        return -EINVAL;
    const struct timespec time = time_of(ns);
    return gs_run_copy((void *)arguments[1], &time, sizeof time);
}

long gs_call_clock_getres(struct task *task, const long *arguments, ucontext_t *context)
{
    unsigned tid;
    (void)context, (void)task;
    bool is_own = is_of_task((clockid_t)arguments[0], &tid);
    if (is_own && tid && !is_task(tid))
        return -EINVAL;
    return gs_syscall(SYS_clock_getres, is_own ? CLOCK_THREAD_CPUTIME_ID : arguments[0],
                      arguments[1], 0, 0, 0, 0);
}

/* All of a task's time counts as the program's own. */
long gs_call_getrusage(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    long err = gs_syscall(SYS_getrusage, arguments[0], arguments[1], 0, 0, 0, 0);
    if (err || arguments[0] != RUSAGE_THREAD)
        return err;
    struct rusage *usage = (struct rusage *)arguments[1];
    begin_to_count(task);
    const struct timespec time = time_of(cpu_time(task));
    usage->ru_utime = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
    usage->ru_stime = (struct timeval){0};
    return 0;
}
