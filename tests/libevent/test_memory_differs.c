/* Allocations that fail where libevent crashes, or goes on without what was to be allocated. */
#include "tests/libevent/bev.h"

#include <event2/thread.h>
#include <stdlib.h>

/* How many allocations succeed before all others fail; -1: no limit. */
static int allowed = -1;
static int blocks;

static bool is_allowed(void)
{
    if (allowed > 0)
        allowed--;
    return allowed != 0;
}

static void *count_malloc(size_t size)
{
    void *memory = is_allowed() ? malloc(size) : NULL;
    blocks += memory != NULL;
    return memory;
}

static void *count_realloc(void *memory, size_t size)
{
    void *moved = is_allowed() ? realloc(memory, size) : NULL;
    blocks += !memory && moved;
    return moved;
}

static void count_free(void *memory)
{
    blocks -= memory != NULL;
    free(memory);
}

/* Returns whether the filter was made. */
static bool make_filter(int limit)
{
    struct event_base *base = event_base_new();
    struct bufferevent *pair[2];
    CHECK_EQ(bufferevent_pair_new(base, 0, pair), 0);
    note_all(pair[0], "below");
    allowed = limit;
    struct bufferevent *filter =
        bufferevent_filter_new(pair[0], NULL, NULL, BEV_OPT_CLOSE_ON_FREE, NULL, NULL);
    allowed = -1;
    if (!filter) { /* what is below is as it was */
        bufferevent_enable(pair[0], EV_READ);
        bufferevent_write(pair[1], "abc", 3);
        settle(base);
        CHECK_TRACE("below:read 3;");
    }
    bufferevent_free(filter ? filter : pair[0]);
    bufferevent_free(pair[1]);
    event_base_free(base);
    return filter;
}

TEST(a_filter_without_memory_is_not_made)
{
    event_set_mem_functions(count_malloc, count_realloc, count_free);
    int before = blocks, limit = 0;
    while (!make_filter(limit)) {
        CHECK_EQ(blocks, before);
        limit++;
    }
    CHECK_EQ(blocks, before);
    CHECK(limit >= 5);
}

TEST(a_base_without_memory_for_its_lock_is_not_made)
{
    event_set_mem_functions(count_malloc, count_realloc, count_free);
    CHECK_EQ(evthread_use_pthreads(), 0);
    int before = blocks, limit = 0;
    struct event_base *base = NULL;
    for (; !base; limit++) {
        allowed = limit;
        base = event_base_new();
        CHECK(!base || allowed > 0);
        allowed = -1;
        CHECK(base || blocks == before);
    }
    event_base_free(base);
    CHECK_EQ(blocks, before);
}
