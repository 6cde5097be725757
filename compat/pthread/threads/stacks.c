/* The stacks of threads. The C library maps each with its guard page below it, without access, and
 * makes the rest of it accessible: two mappings for each thread, of which the kernel permits
 * vm.max_map_count. With --stack-policy unguarded, a stack is accessible as a whole from the
 * beginning, and the kernel merges those that are next to each other into one mapping. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* Others may end, and return memory, before the task tries again. */
static long finish(struct task *task, long result)
{
    if (result != -ENOMEM)
        return result;
    if (gs_run.explains)
        gs_explain_mappings();
    gs_task_yield(task);
    return result;
}

long gs_call_mmap(struct task *task, const long *arguments, ucontext_t *context)
{
    const long *a = arguments;
    long protection = a[2];
    (void)context;
    if (gs_run.is_unguarded && a[3] & MAP_STACK && protection == PROT_NONE)
        protection = PROT_READ | PROT_WRITE;
    return finish(task, gs_syscall(SYS_mmap, a[0], a[1], protection, a[3], a[4], a[5]));
}

long gs_call_mprotect(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    const long *a = arguments;
    return finish(task, gs_syscall(SYS_mprotect, a[0], a[1], a[2], 0, 0, 0));
}
