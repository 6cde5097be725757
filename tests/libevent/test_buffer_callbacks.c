#include "tests/libevent/bytes.h"

#include <event2/buffer_compat.h>

static void print_change(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *name)
{
    (void)buffer;
    printf(" %s:%zu+%zu-%zu", (const char *)name, info->orig_size, info->n_added, info->n_deleted);
}

static void print_sizes(struct evbuffer *buffer, size_t before, size_t after, void *name)
{
    (void)buffer;
    printf(" %s:%zu>%zu", (const char *)name, before, after);
}

/* Print an operation, its result, and the callbacks that it has caused. */
#define DO(operation)                                                                              \
    do {                                                                                           \
        printf("%s:", #operation);                                                                 \
        long long result_ = (long long)(operation);                                                \
        printf(" = %lld\n", result_);                                                              \
    } while (0)

TEST(every_operation_tells_how_the_buffer_has_changed)
{
    struct evbuffer *a = evbuffer_new(), *b = evbuffer_new();
    struct evbuffer_iovec extents[2] = {{"one", 3}, {"four", 4}};
    char bytes[8];
    CHECK(evbuffer_add_cb(a, print_change, "a") != NULL);
    CHECK(evbuffer_add_cb(b, print_change, "b") != NULL);
    DO(evbuffer_add(a, "hello", 5));
    DO(evbuffer_add(a, "", 0));
    DO(evbuffer_prepend(a, "123", 3));
    DO(evbuffer_add_printf(a, "%d", 4711));
    DO(evbuffer_add_printf(a, "%s", ""));
    DO(evbuffer_add_iovec(a, extents, 2));
    DO(evbuffer_add_reference(a, "borrowed", 8, NULL, NULL));
    DO(evbuffer_remove(a, bytes, 4));
    DO(evbuffer_drain(a, 2));
    DO(evbuffer_drain(a, 0));
    DO(evbuffer_remove_buffer(a, b, 3));
    DO(evbuffer_add_buffer_reference(b, a));
    DO(evbuffer_add_buffer(b, a));
    DO(evbuffer_add_buffer(b, a));
    DO(evbuffer_prepend_buffer(a, b));
    DO(evbuffer_remove_buffer(a, b, 99));
    DO(evbuffer_drain(b, 999));
    DO(evbuffer_drain(b, 999));
    DO(evbuffer_add(a, "line\r\n\nline", 11));
    for (int i = 0; i < 3; i++) {
        char *line = NULL;
        DO((line = evbuffer_readln(a, NULL, EVBUFFER_EOL_CRLF)) != NULL);
        free(line);
    }
    DO(evbuffer_reserve_space(a, 5, extents, 1));
    extents[0].iov_len = 2;
    memcpy(extents[0].iov_base, "xy", 2);
    DO(evbuffer_commit_space(a, extents, 1));
    DO(evbuffer_pullup(a, -1) != NULL);
    DO(evbuffer_expand(a, 9999));
    evbuffer_free(a);
    evbuffer_free(b);
}

TEST(the_latest_callback_is_called_first)
{
    struct evbuffer *buffer = evbuffer_new();
    struct evbuffer_cb_entry *one = evbuffer_add_cb(buffer, print_change, "one");
    struct evbuffer_cb_entry *two = evbuffer_add_cb(buffer, print_change, "two");
    CHECK(evbuffer_add_cb(buffer, print_change, "three") != NULL);
    DO(evbuffer_add(buffer, "x", 1));
    DO(evbuffer_cb_clear_flags(buffer, two, EVBUFFER_CB_ENABLED));
    DO(evbuffer_add(buffer, "x", 1));
    DO(evbuffer_cb_set_flags(buffer, two, EVBUFFER_CB_ENABLED));
    DO(evbuffer_remove_cb_entry(buffer, one));
    DO(evbuffer_add(buffer, "x", 1));
    DO(evbuffer_remove_cb(buffer, print_change, "four"));
    DO(evbuffer_remove_cb(buffer, print_change, "three"));
    DO(evbuffer_add(buffer, "x", 1));
    DO(evbuffer_setcb(buffer, print_sizes, "old"));
    DO(evbuffer_drain(buffer, 2));
    DO(evbuffer_setcb(buffer, NULL, NULL));
    DO(evbuffer_drain(buffer, 2));
    evbuffer_free(buffer);
}

/* What a callback does when it is called for the first time. */
struct task {
    int calls;
    struct evbuffer_cb_entry *own;
    const char *added;
};

static void run_task(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *argument)
{
    struct task *task = argument;
    printf(" %zu+%zu-%zu", info->orig_size, info->n_added, info->n_deleted);
    if (task->calls++)
        return;
    if (task->own)
        CHECK_EQ(evbuffer_remove_cb_entry(buffer, task->own), 0);
    if (task->added)
        CHECK_EQ(evbuffer_add(buffer, task->added, strlen(task->added)), 0);
}

TEST(a_callback_may_remove_itself_and_change_the_buffer)
{
    struct evbuffer *buffer = evbuffer_new();
    struct task last = {0}, removes = {0}, adds = {.added = "more"};
    CHECK(evbuffer_add_cb(buffer, run_task, &last) != NULL);
    removes.own = evbuffer_add_cb(buffer, run_task, &removes);
    CHECK(evbuffer_add_cb(buffer, run_task, &adds) != NULL);
    CHECK_EQ(evbuffer_cb_clear_flags(buffer, removes.own, EVBUFFER_CB_ENABLED), 0);
    DO(evbuffer_add(buffer, "text", 4));
    CHECK_EQ(evbuffer_cb_set_flags(buffer, removes.own, EVBUFFER_CB_ENABLED), 0);
    DO(evbuffer_drain(buffer, 3));
    DO(evbuffer_drain(buffer, 3));
    CHECK_EQ(removes.calls, 1);
    CHECK_EQ(adds.calls, 4);
    CHECK_EQ(last.calls, 4);
    evbuffer_free(buffer);
}

static void print_cleanup(const void *data, size_t n, void *argument)
{
    (void)data;
    (void)argument;
    printf(" cleanup %zu", n);
}

TEST(borrowed_memory_is_given_back_before_the_callback)
{
    struct evbuffer *buffer = evbuffer_new();
    CHECK(evbuffer_add_cb(buffer, print_change, "a") != NULL);
    DO(evbuffer_add_reference(buffer, "borrowed", 8, print_cleanup, NULL));
    DO(evbuffer_drain(buffer, 7));
    DO(evbuffer_drain(buffer, 1));
    DO(evbuffer_add_reference(buffer, "", 0, print_cleanup, NULL));
    DO(evbuffer_add_reference(buffer, "x", 1, print_cleanup, NULL));
    DO(evbuffer_drain(buffer, 1));
    evbuffer_free(buffer);
}
