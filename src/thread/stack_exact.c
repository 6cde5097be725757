/* Stacks of exact sizes, for threads whose need is proven: several share a page, with a canary
 * below each of them. It is compared whenever the thread is about to leave its stack, before
 * another one runs: so such threads are run from the worker's own stack, with a countdown of 0,
 * as those with a TLS base (tls_base.c), and other switches cost nothing more. The checked
 * library gives each a guarded page instead. */
#include "thread/report.h"
#include "thread/stacks.h"

void gs_thread_resume_exact(struct worker *worker, struct runnable *runnable)
{
    int countdown = worker->countdown;
    worker->has_exact_stack = true;
    worker->countdown = 0;
    gs_worker_run_thread(worker, gs_container_of(runnable, struct gs_thread, run));
    worker->has_exact_stack = false;
    worker->countdown = countdown;
}

void gs_stack_check_exact(struct worker *worker)
{
    if (UNLIKELY(!gs_stacks_is_intact(worker->current)))
        gs_report_overflow(worker->current);
}
