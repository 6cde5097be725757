#include "tests/libevent/bytes.h"

#include <event2/thread.h>

static int frees;

static void print_change(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *name)
{
    (void)buffer;
    printf(" %s:%zu+%zu-%zu", (const char *)name, info->orig_size, info->n_added, info->n_deleted);
}

static void count_free(const void *data, size_t n, void *argument)
{
    (void)data;
    (void)n;
    (void)argument;
    frees++;
}

static void loop(struct event_base *base)
{
    printf(" |");
    int result = event_base_loop(base, EVLOOP_NONBLOCK);
    printf(" loop %d\n", result);
}

TEST(deferred_callbacks_hear_of_all_changes_at_once)
{
    struct event_base *base = event_base_new();
    struct evbuffer *buffer = evbuffer_new();
    CHECK_EQ(evbuffer_defer_callbacks(buffer, base), 0);
    struct evbuffer_cb_entry *first = evbuffer_add_cb(buffer, print_change, "first");
    CHECK(evbuffer_add_cb(buffer, print_change, "second") != NULL);
    CHECK_EQ(evbuffer_add(buffer, "hello", 5), 0);
    CHECK_EQ(evbuffer_drain(buffer, 2), 0);
    CHECK_EQ(evbuffer_prepend(buffer, "1", 1), 0);
    loop(base);
    loop(base);
    CHECK_EQ(evbuffer_cb_clear_flags(buffer, first, EVBUFFER_CB_ENABLED), 0);
    CHECK_EQ(evbuffer_add(buffer, "x", 1), 0);
    loop(base);
    CHECK_EQ(evbuffer_cb_set_flags(buffer, first, EVBUFFER_CB_ENABLED), 0);
    CHECK_EQ(evbuffer_add(buffer, "", 0), 0);
    loop(base);
    evbuffer_free(buffer);
    event_base_free(base);
}

/* The flag of callbacks that are not deferred is not in the headers, but has always been 2. */
TEST(a_callback_can_be_excepted)
{
    struct event_base *base = event_base_new();
    struct evbuffer *buffer = evbuffer_new();
    CHECK_EQ(evbuffer_defer_callbacks(buffer, base), 0);
    struct evbuffer_cb_entry *now = evbuffer_add_cb(buffer, print_change, "now");
    CHECK(evbuffer_add_cb(buffer, print_change, "later") != NULL);
    CHECK_EQ(evbuffer_cb_set_flags(buffer, now, 2), 0);
    CHECK_EQ(evbuffer_add(buffer, "hello", 5), 0);
    CHECK_EQ(evbuffer_drain(buffer, 1), 0);
    loop(base);
    CHECK_EQ(evbuffer_add(buffer, "x", 1), 0);
    loop(base);
    evbuffer_free(buffer);
    event_base_free(base);
}

TEST(a_buffer_that_is_freed_meanwhile_lives_until_its_callbacks)
{
    struct event_base *base = event_base_new();
    struct evbuffer *buffer = evbuffer_new();
    CHECK_EQ(evbuffer_defer_callbacks(buffer, base), 0);
    CHECK(evbuffer_add_cb(buffer, print_change, "late") != NULL);
    CHECK_EQ(evbuffer_add_reference(buffer, "hello", 5, count_free, NULL), 0);
    evbuffer_free(buffer);
    printf(" freed %d", frees);
    loop(base);
    printf(" freed %d\n", frees);
    event_base_free(base);
}
