/* Look-ups for which no kernel thread can be created, and those that need none. */
#include "tests/thread/fixture.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_bool refuses_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *argument)
{
    return atomic_load(&refuses_threads) ? EAGAIN
                                         : __real_pthread_create(thread, attributes, fn, argument);
}

static int look_up(const char *name, const char *service)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int err = gs_resolve(name, service, &hints, GS_NEVER, &found);
    MUST_EQ(found != NULL, err == 0);
    if (found)
        freeaddrinfo(found);
    return err;
}

static void *look_up_without_threads(void *unused)
{
    const char *numbers[] = {"127.0.0.1", "::1", "0x7f000001", "127.1", "fe80::1"};
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found;
    for (int i = 0; i < 5; i++)
        MUST_EQ(look_up(numbers[i], "80"), 0);
    MUST_EQ(look_up("127.0.0.1", NULL), 0);
    MUST_EQ(look_up(NULL, "80"), 0);
    MUST_EQ(gs_resolve("no-number", "80", &hints, GS_NEVER, &found), -GS_ENONAME);
    for (int i = 0; i < 3; i++)
        MUST_EQ(look_up("localhost", "80"), -EAGAIN);
    MUST_EQ(look_up("1.invalid", "80"), -EAGAIN);
    atomic_store(&refuses_threads, false);
    MUST_EQ(look_up("localhost", "80"), 0);
    atomic_store(&refuses_threads, true);
    return unused;
}

TEST(numeric_addresses_need_no_kernel_thread)
{
    const struct gs_threads_options options = {.stuck_ns = GS_NEVER};
    atomic_store(&refuses_threads, true);
    CHECK_EQ(gs_threads_run(&options, look_up_without_threads, NULL, NULL), 0);
    atomic_store(&refuses_threads, false);
}
