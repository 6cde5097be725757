/* The attributes of a thread that exists. */
#include "compiler/runtime/thread.h"

#include <pthread.h>
#include <sys/resource.h>

/* The first worker's has the size that the limit allows it, which glibc reduces by a page. */
static void set_stack_of_worker(pthread_attr_t *attributes)
{
    struct rlimit limit;
    void *lowest;
    size_t size;
    if (pthread_attr_getstack(attributes, &lowest, &size) || getrlimit(RLIMIT_STACK, &limit) ||
        size >= limit.rlim_cur || limit.rlim_cur - size > size)
        return;
    size_t more = limit.rlim_cur - size;
    pthread_attr_setstack(attributes, (char *)lowest - more, size + more);
}

/* The stack on which the thread runs now: its own, or that of a worker, which all threads have in
 * turn. A thread that waits has none. */
int gs_cc_pthread_getattr_np(pthread_t id, pthread_attr_t *ret_attributes)
{
    enum { GUARD = 4096 };
    const struct thread *thread = (const struct thread *)id;
    size_t size;
    void *lowest = gs_cc_sanitizer_stack(thread, &size);
    int err = pthread_getattr_np(pthread_self(), ret_attributes);
    if (err)
        return err;
    if (thread->stack && thread->extra && thread->extra->stack_size)
        pthread_attr_setstack(ret_attributes,
                              thread->extra->end_of_stack - thread->extra->stack_size,
                              thread->extra->stack_size);
    else if (lowest)
        pthread_attr_setstack(ret_attributes, lowest, size);
    else
        set_stack_of_worker(ret_attributes);
    pthread_attr_setguardsize(ret_attributes, GUARD);
    bool is_detached = atomic_load(&thread->join) == JOIN_DETACHED;
    pthread_attr_setdetachstate(ret_attributes,
                                is_detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    return 0;
}
