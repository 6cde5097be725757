/* The checked library gives each thread that promises that nobody else uses its stack while it
 * waits (gs_thread_attributes.stack_is_shared) a stack of its own, which is inaccessible whenever
 * the thread does not run: so who uses it is found at once. Where there are too many mappings, it
 * stays accessible. The thread is run from the worker's own stack, like one with a thread pointer
 * (tls_base.c), and stays on its worker. */
#include "thread/stack/shared_stack.h"

#ifdef GS_CHECKED
#include <gossamer/sys.h>
#include <sys/mman.h>

/* Held while a stack becomes accessible or inaccessible, and by reports that read stacks. */
static struct gs_spin access_lock;

/* The whole pages up to the end of the slot. */
static void set_access(const struct gs_thread *thread, int access)
{
    char *bottom = gs_stack_bottom(thread);
    size_t size = (size_t)(thread->stack_top - bottom);
    (void)gs_sys_mprotect(bottom, (size + gs_page_size - 1) & ~(gs_page_size - 1), access);
}

static void protect(struct gs_thread *thread)
{
    if (!gs_guard_take_mappings(thread))
        return;
    spin_lock_always(&access_lock);
    thread->is_protected = true;
    set_access(thread, PROT_NONE);
    spin_unlock_always(&access_lock);
}

static void unprotect(struct gs_thread *thread)
{
    if (!thread->is_protected)
        return;
    spin_lock_always(&access_lock);
    thread->is_protected = false;
    set_access(thread, PROT_READ | PROT_WRITE);
    spin_unlock_always(&access_lock);
    gs_guard_return_mappings(thread);
}

void gs_protected_init_thread(struct gs_thread *thread)
{
    if (thread->stack_class == CLASS_USER_STACK)
        return;
    unprotect(thread); /* its former thread was abandoned, if it is not */
    if (!thread->shares_stack || gs_runtime.tells_asan)
        return;
    thread->migrates = false;
    thread->run.resume = gs_thread_resume_protected;
}

void gs_thread_resume_protected(struct worker *worker, struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, run);
    int countdown = worker->countdown;
    uint64_t ended = count_read(&worker->ended);
    unprotect(thread);
    worker->runs_protected = true;
    worker->countdown = 0; /* each switch returns to the worker's own stack */
    gs_worker_run_thread(worker, thread);
    worker->runs_protected = false;
    worker->countdown = countdown;
    if (count_read(&worker->ended) == ended)
        protect(thread);
}

/* Another worker may have held the lock at the fork, for a stack that is not used again. */
void gs_protected_after_fork(void)
{
    access_lock = (struct gs_spin){0};
}

/* ---- For reports ---- */

bool gs_stack_is_protected(const struct gs_thread *thread)
{
    return thread->shares_stack && thread->is_protected;
}

struct gs_spin *gs_stack_reading_lock(const struct gs_thread *thread)
{
    if (!thread->shares_stack)
        return NULL;
    spin_lock_always(&access_lock);
    if (thread->is_protected)
        set_access(thread, PROT_READ | PROT_WRITE);
    return &access_lock;
}

void gs_stack_reading_unlock(struct gs_spin *lock, const struct gs_thread *thread)
{
    if (!lock)
        return;
    if (thread->is_protected)
        set_access(thread, PROT_NONE);
    spin_unlock_always(lock);
}

bool gs_stack_with(struct gs_thread *thread, void (*fn)(void *), void *argument)
{
    struct gs_spin *held = gs_stack_reading_lock(thread);
    fn(argument);
    gs_stack_reading_unlock(held, thread);
    return true;
}
#endif
