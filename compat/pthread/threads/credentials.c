/* Users, groups and capabilities are those of a kernel thread, which here runs one task after
 * another: a task that changed them would change them for others, and lose the change when it is
 * continued by another worker or its call is made by the pool. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <gossamer/sys.h>
#include <sys/syscall.h>

_Noreturn void gs_credentials_refuse(void)
{
    gs_report_refusal("the program changes its user or groups when it has threads");
}

long gs_call_set_credentials(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)arguments, (void)context;
    gs_credentials_refuse();
}

/* With -1 they tell the user or group, and change nothing. */
long gs_call_setfsuid(struct task *task, const long *arguments, ucontext_t *context)
{
    if ((int)arguments[0] != -1)
        return gs_call_set_credentials(task, arguments, context);
    return gs_syscall(SYS_setfsuid, -1, 0, 0, 0, 0, 0);
}

long gs_call_setfsgid(struct task *task, const long *arguments, ucontext_t *context)
{
    if ((int)arguments[0] != -1)
        return gs_call_set_credentials(task, arguments, context);
    return gs_syscall(SYS_setfsgid, -1, 0, 0, 0, 0, 0);
}
