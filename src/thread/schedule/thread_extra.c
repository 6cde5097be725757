/* What few threads have: names, values, scopes, thread pointers. It is allocated when it is first
 * needed, and stays with the control block until that is used for another thread, so that reports
 * know the names of threads that have ended. The memory is never unmapped: others may be reading
 * the name of a thread that is just ending. */
#include "thread/schedule/thread_extra.h"

#include <gossamer/sys.h>
#include <string.h>
#include <sys/mman.h>

#define MAPPED ((size_t)64 << 10)

static struct gs_spin lock; /* acquired by any kernel thread */
static struct thread_extra *free_list;

static void push(struct thread_extra *extra)
{
    extra->next_free = free_list;
    free_list = extra;
}

static void map_some(void)
{
    long memory =
        gs_sys_mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (memory < 0)
        return;
    struct thread_extra *each = (struct thread_extra *)memory;
    sanitizer_root(each, MAPPED);
    for (size_t i = MAPPED / sizeof *each; i--;)
        push(&each[i]);
}

struct thread_extra *gs_thread_extra_new(void)
{
    spin_lock_always(&lock);
    if (!free_list)
        map_some();
    struct thread_extra *extra = free_list;
    if (extra)
        free_list = extra->next_free;
    spin_unlock_always(&lock);
    if (extra)
        memset(extra, 0, sizeof *extra);
    return extra;
}

void gs_thread_extra_free(struct thread_extra *extra)
{
    if (!extra)
        return;
    spin_lock_always(&lock);
    push(extra);
    spin_unlock_always(&lock);
}

struct thread_extra *gs_thread_get_extra(struct gs_thread *thread)
{
    struct thread_extra *present = thread_extra(thread), *extra;
    if (present || !(extra = gs_thread_extra_new()))
        return present;
    if (__atomic_compare_exchange_n(&thread->extra, &present, extra, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return extra;
    gs_thread_extra_free(extra);
    return present;
}

void gs_thread_extra_lock(void)
{
    spin_lock_always(&lock);
}

void gs_thread_extra_unlock(void)
{
    spin_unlock_always(&lock);
}
