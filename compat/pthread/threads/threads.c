/* System calls that make, end or name threads. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

long gs_call_clone(struct task *task, const long *arguments, ucontext_t *context)
{
    if (!context)
        return -ENOSYS;
    if (arguments[0] & CLONE_THREAD)
        return gs_clone(task, context);
    return gs_task_fork(task, arguments[0], arguments, context);
}

long gs_call_clone3(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)arguments;
    return context ? gs_clone3(task, context) : -ENOSYS;
}

long gs_call_fork(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)arguments;
    const long none[6] = {SIGCHLD};
    return gs_task_fork(task, SIGCHLD, none, context);
}

/* The child gets a copy of the memory: it would return through our frames on the parent's stack. */
long gs_call_vfork(struct task *task, const long *arguments, ucontext_t *context)
{
    return gs_call_fork(task, arguments, context);
}

long gs_call_exec(struct task *task, const long *arguments, ucontext_t *context)
{
    long number = context ? context->uc_mcontext.gregs[REG_RAX] : SYS_execve;
    return gs_exec(task, number, arguments);
}

long gs_call_exit(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)arguments, (void)context;
    gs_task_exit(task);
}

long gs_call_exit_group(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)context;
    gs_advise();
    gs_report_stats();
    gs_tasks_release_robust();
    return gs_syscall(SYS_exit_group, arguments[0], 0, 0, 0, 0, 0);
}

/* ---- Ids ---- */

long gs_call_gettid(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)arguments, (void)context;
    return task->tid;
}

long gs_call_set_tid_address(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    task->clear_tid = (unsigned *)arguments[0];
    return task->tid;
}

long gs_call_set_robust_list(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if ((size_t)arguments[1] != 24)
        return -EINVAL;
    task->robust_list = (void *)arguments[0];
    task->robust_size = (size_t)arguments[1];
    return 0;
}

long gs_call_get_robust_list(struct task *task, const long *arguments, ucontext_t *context)
{
    unsigned tid = (unsigned)arguments[0];
    (void)context;
    if (!tid)
        tid = task->tid;
    gs_run_acquire(&gs_tasks_lock);
    const struct task *found = gs_task_find(tid);
    if (found) {
        *(void **)arguments[1] = found->robust_list;
        *(size_t *)arguments[2] = found->robust_list ? found->robust_size : 24;
    }
    gs_run_release(&gs_tasks_lock);
    return found ? 0 : gs_syscall(SYS_get_robust_list, tid, arguments[1], arguments[2], 0, 0, 0);
}

/* A task has no kernel thread whose restartable sequences the kernel could watch. */
long gs_call_rseq(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)arguments, (void)context;
    return -ENOSYS;
}

static long set_own_name(struct task *task, const char *name)
{
    char copy[sizeof task->name] = "";
    for (unsigned i = 0; i < sizeof copy - 1; i++) {
        if (gs_run_copy(&copy[i], name + i, 1))
            return -EFAULT;
        if (!copy[i])
            break;
    }
    gs_task_set_name(task, copy);
    return 0;
}

/* A program that uses the dispatch itself would not see its own calls. */
long gs_call_prctl(struct task *task, const long *arguments, ucontext_t *context)
{
    enum { SET_DISPATCH = 59 };
    (void)context;
    if (arguments[0] == PR_SET_NAME)
        return set_own_name(task, (const char *)arguments[1]);
    if (arguments[0] == PR_GET_NAME)
        return gs_run_copy((void *)arguments[1], task->name, sizeof task->name);
    if (arguments[0] == PR_GET_TID_ADDRESS)
        return gs_run_copy((void *)arguments[1], &task->clear_tid, sizeof task->clear_tid);
    if (arguments[0] == SET_DISPATCH)
        gs_report_refusal("the program uses Syscall User Dispatch itself");
    return gs_syscall(SYS_prctl, arguments[0], arguments[1], arguments[2], arguments[3],
                      arguments[4], 0);
}

long gs_call_arch_prctl(struct task *task, const long *arguments, ucontext_t *context)
{
    enum { SET_GS = 0x1001, SET_FS = 0x1002, GET_GS = 0x1004 };
    (void)context;
    if (arguments[0] == SET_GS)
        gs_report_refusal("the program sets the GS base, which the workers use");
    if (arguments[0] == SET_FS)
        gs_report_refusal("the program sets the FS base of a thread");
    if (arguments[0] == GET_GS) {
        *(unsigned long *)arguments[1] = 0;
        return 0;
    }
    (void)task;
    return gs_syscall(SYS_arch_prctl, arguments[0], arguments[1], 0, 0, 0, 0);
}
