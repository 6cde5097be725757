/* New processes. A forked child has one thread, the caller's, and no runtime: it is a plain process
 * until it creates a thread itself. A child that shares the memory until it executes a program
 * (posix_spawn) has a stack of its own, and is left alone. */
#include "compat/pthread/start/dump.h"
#include "compat/pthread/start/environment.h"
#include "compat/pthread/start/memory.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/syscall.h>

struct fork_call {
    long flags;
    const long *arguments;
};

static long fork_process(void *argument)
{
    const struct fork_call *call = argument;
    const long *a = call->arguments;
    long pid = gs_syscall(SYS_clone, call->flags, 0, a[2], a[3], a[4], 0);
    /* The child frees memory before gs_fork_leaving returns. */
    if (!pid)
        gs_memory_unlock();
    return pid;
}

void gs_run_deactivate(struct task *task)
{
    gs_run.is_active = gs_run.has_begun = false;
    gs_run.main_task = NULL;
    gs_receiver_start(0);
    gs_kernel_threads_forget();
    gs_pool_forget();
    gs_timers_forget();
    gs_futexes_forget();
    gs_descriptors_forget();
    gs_signals_forget(task);
    gs_dump_forget();
    gs_tasks_forget();
    gs_carriers_forget();
    gs_task = NULL;
    gs_task_is_inside = false;
}

long gs_task_fork(struct task *task, long flags, const long *arguments, ucontext_t *context)
{
    struct fork_call call = {flags & ~(long)(CLONE_VM | CLONE_VFORK), arguments};
    if (flags & CLONE_VM && arguments[1])
        return gs_run_clone(flags, (void *)arguments[1], (void *)arguments[2], (void *)arguments[3],
                            arguments[4], (void *)context->uc_mcontext.gregs[REG_RIP]);
    gs_memory_lock();
    long pid = gs_fork_leaving(fork_process, &call);
    if (pid) {
        gs_memory_unlock();
        return pid;
    }
    gs_signals mask = atomic_load(&task->mask);
    gs_run_deactivate(task);
    if (context)
        memcpy(&context->uc_sigmask, &mask, sizeof mask);
    return 0;
}

/* The program that is executed begins with the mask of the task. */
long gs_exec(struct task *task, long number, const long *arguments)
{
    gs_signals mask = atomic_load(&task->mask), kernel_mask;
    long changed[6];
    memcpy(changed, arguments, sizeof changed);
    long *environment = number == SYS_execveat ? &changed[3] : &changed[2];
    char **longer = gs_environment_for_child((char *const *)*environment);
    if (longer)
        *environment = (long)longer;
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)&kernel_mask, sizeof mask, 0, 0);
    long err = gs_syscall(number, changed[0], changed[1], changed[2], changed[3], changed[4], 0);
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&kernel_mask, 0, sizeof mask, 0, 0);
    gs_environment_free(longer);
    return err;
}
