#include "serve/accept/addresses.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of a kernel thread, where the limit of the process (ulimit -s) is usually 8 MiB. Most run HTTP
 * code or wait for the kernel, which takes a few pages. */
#define STACK_SIZE ((size_t)512 << 10)

static void shrink_stacks(void)
{
#ifndef __SANITIZE_THREAD__ /* gcc's: with another default no kernel thread can be created */
    pthread_attr_t attributes;
    long least = sysconf(_SC_THREAD_STACK_MIN); /* with what is thread-local */
    if (pthread_attr_init(&attributes))
        return;
    /* Where this fails, they have the usual size. */
    if (!pthread_attr_setstacksize(&attributes, STACK_SIZE + (size_t)(least > 0 ? least : 0)))
        (void)pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
#endif
}

void serve_addresses_save(void)
{
    struct rlimit limit;
    shrink_stacks();
    /* The C library's malloc reserves 64 MiB for each of its arenas, up to eight for a processor:
     * kernel threads then share one. */
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY)
        (void)mallopt(M_ARENA_MAX, 1);
}
