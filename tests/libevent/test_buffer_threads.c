#include "tests/libevent/bytes.h"

#include <event2/thread.h>

#define ROUNDS 2000

static struct evbuffer *shared, *target;
static size_t changes;

static void count_change(struct evbuffer *buffer, const struct evbuffer_cb_info *info,
                         void *argument)
{
    (void)buffer;
    (void)argument;
    changes += info->n_added;
}

/* A line is added as one, because the lock is recursive. */
static void *add_lines(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        evbuffer_lock(shared);
        evbuffer_add(shared, argument, 3);
        evbuffer_add_printf(shared, "%s\n", (const char *)argument);
        evbuffer_unlock(shared);
    }
    return NULL;
}

static void *move_bytes(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2)
            evbuffer_add_buffer(target, shared);
        else
            evbuffer_remove_buffer(shared, target, 10);
    }
    return NULL;
}

/* The other way, so that an order of locks is needed. */
static void *move_nothing(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++)
        evbuffer_remove_buffer(target, shared, 0);
    return NULL;
}

TEST(a_buffer_with_a_lock_is_used_by_several_threads)
{
    CHECK_EQ(evthread_use_pthreads(), 0);
    shared = evbuffer_new();
    target = evbuffer_new();
    CHECK_EQ(evbuffer_enable_locking(shared, NULL), 0);
    CHECK_EQ(evbuffer_enable_locking(shared, NULL), -1);
    CHECK_EQ(evbuffer_enable_locking(target, NULL), 0);
    CHECK(evbuffer_add_cb(shared, count_change, NULL) != NULL);
    static char text[] = "abc";
    void *(*const bodies[])(void *) = {add_lines, add_lines, move_bytes, move_nothing};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, bodies[i], text), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(evbuffer_add_buffer(target, shared), 0);
    CHECK_EQ(changes, 2 * ROUNDS * 7);
    CHECK_EQ(evbuffer_get_length(target), 2 * ROUNDS * 7);
    char *line;
    int lines = 0;
    while ((line = evbuffer_readln(target, NULL, EVBUFFER_EOL_LF))) {
        CHECK_STR(line, "abcabc");
        free(line);
        lines++;
    }
    CHECK_EQ(lines, 2 * ROUNDS);
    evbuffer_free(shared);
    evbuffer_free(target);
}

static void *read_reference(void *argument)
{
    struct evbuffer *buffer = argument;
    char bytes[64];
    size_t total = 0;
    int n;
    while ((n = evbuffer_remove(buffer, bytes, 7)) > 0) {
        for (int i = 0; i < n; i++, total++)
            if (bytes[i] != (char)('a' + total % 26))
                return NULL;
    }
    evbuffer_free(buffer);
    return (void *)total; /* NOLINT: a number */
}

TEST(references_to_a_buffer_are_used_by_other_threads)
{
    struct evbuffer *source = evbuffer_new();
    CHECK_EQ(evthread_use_pthreads(), 0);
    CHECK_EQ(evbuffer_enable_locking(source, NULL), 0);
    for (int i = 0; i < 26 * 200; i++) {
        char byte = (char)('a' + i % 26);
        CHECK_EQ(evbuffer_add(source, &byte, 1), 0);
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        struct evbuffer *buffer = evbuffer_new();
        CHECK_EQ(evbuffer_enable_locking(buffer, NULL), 0);
        CHECK_EQ(evbuffer_add_buffer_reference(buffer, source), 0);
        CHECK_EQ(pthread_create(&threads[i], NULL, read_reference, buffer), 0);
    }
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(evbuffer_drain(source, 5), 0);
        CHECK_EQ(evbuffer_add(source, "more", 4), 0);
    }
    evbuffer_free(source);
    for (int i = 0; i < 4; i++) {
        void *total;
        CHECK_EQ(pthread_join(threads[i], &total), 0);
        CHECK_EQ((size_t)total, 26 * 200);
    }
}
