/* Each allocation of a look-up fails once; those of c-ares itself do not. */
#include "tests/dns/fixture.h"

static atomic_int allocations_left; /* negative: none fails */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

static bool fails(void)
{
    return atomic_load(&allocations_left) >= 0 && atomic_fetch_sub(&allocations_left, 1) == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

static int find_once(void)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME};
    struct addrinfo *found = NULL;
    int err = gs_resolve("n1.test", "80", &hints, GS_NEVER, &found);
    MUST_EQ(found != NULL, err == 0);
    if (found)
        freeaddrinfo(found);
    return err;
}

/* Without memory for a socket's watcher, or for the resolver or its files, another way is tried. */
static void *find_without_memory(void *count)
{
    atomic_store(&allocations_left, (int)(intptr_t)count);
    int err = find_once();
    bool has_failed = atomic_exchange(&allocations_left, -1) < 0;
    MUST(!err || err == -ENOMEM || err == -GS_ENAMESERVER || err == -GS_ENONAME);
    MUST_EQ(find_once(), 0);
    return (void *)(intptr_t)has_failed;
}

static void *fail_each(void *unused)
{
    unsigned count = 0;
    while (find_without_memory((void *)(intptr_t)count))
        count++;
    MUST(count > 3);
    return unused;
}

static void *fail_first(void *unused)
{
    find_without_memory((void *)(intptr_t)0);
    return unused;
}

TEST(look_up_without_memory_fails_and_the_next_one_does_not)
{
    atomic_store(&allocations_left, -1);
    run_dns(1, usual, fail_each);
    run_dns(1, usual, fail_first);
}
