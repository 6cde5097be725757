#include "tests/libevent/bytes.h"

TEST(formatted_text_of_any_length_is_added)
{
    struct evbuffer *buffer = evbuffer_new();
    CHECK_EQ(evbuffer_add_printf(buffer, "%s-%d", "text", 42), 7);
    CHECK_EQ(evbuffer_add_printf(buffer, "%s", ""), 0);
    CHECK_BYTES(buffer, "text-42");
    CHECK_EQ(evbuffer_drain(buffer, 7), 0);
    CHECK_EQ(evbuffer_add_printf(buffer, "%20000d|", 7), 20001);
    CHECK_EQ(evbuffer_add_printf(buffer, "%70d", 7), 70);
    CHECK_EQ(evbuffer_get_length(buffer), 20071);
    CHECK_EQ(evbuffer_drain(buffer, 19999), 0);
    CHECK_EQ(evbuffer_pullup(buffer, -1)[1], '|');
    evbuffer_free(buffer);
}

TEST(extents_are_added_in_order)
{
    struct evbuffer *buffer = evbuffer_new();
    struct evbuffer_iovec extents[3] = {{"one ", 4}, {"", 0}, {"two", 3}};
    CHECK_EQ(evbuffer_add_iovec(buffer, extents, 3), 7);
    CHECK_EQ(evbuffer_add_iovec(buffer, extents, 0), 0);
    CHECK_BYTES(buffer, "one two");
    evbuffer_free(buffer);
}

TEST(expanded_space_is_enough)
{
    struct evbuffer *buffer = buffer_with("abc");
    struct evbuffer_iovec extents[1];
    CHECK_EQ(evbuffer_expand(buffer, 5000), 0);
    CHECK_EQ(evbuffer_reserve_space(buffer, 5000, extents, 1), 1);
    CHECK(extents[0].iov_len >= 5000);
    CHECK_EQ(evbuffer_expand(buffer, 0), 0);
    CHECK_BYTES(buffer, "abc");
    evbuffer_free(buffer);
}

TEST(space_is_reserved_filled_and_committed)
{
    struct evbuffer *buffer = buffer_with("head ");
    struct evbuffer_iovec extents[2];
    CHECK_EQ(evbuffer_reserve_space(buffer, 10, extents, 1), 1);
    CHECK(extents[0].iov_len >= 10);
    memcpy(extents[0].iov_base, "tail", 4);
    extents[0].iov_len = 4;
    CHECK_EQ(evbuffer_commit_space(buffer, extents, 1), 0);
    CHECK_BYTES(buffer, "head tail");

    int count = evbuffer_reserve_space(buffer, 100000, extents, 2);
    CHECK(count == 1 || count == 2);
    size_t room = 0;
    for (int i = 0; i < count; i++) {
        memset(extents[i].iov_base, 'x', extents[i].iov_len);
        room += extents[i].iov_len;
    }
    CHECK(room >= 100000);
    CHECK_EQ(evbuffer_commit_space(buffer, extents, count), 0);
    CHECK_EQ(evbuffer_get_length(buffer), 9 + room);
    CHECK_EQ(evbuffer_drain(buffer, 8 + room), 0);
    CHECK_BYTES(buffer, "x");
    evbuffer_free(buffer);
}

TEST(no_space_is_no_extent)
{
    struct evbuffer *buffer = evbuffer_new();
    struct evbuffer_iovec extents[2];
    CHECK_EQ(evbuffer_reserve_space(buffer, 0, extents, 2), 0);
    CHECK_EQ(evbuffer_reserve_space(buffer, 0, extents, 1), 1);
    CHECK_EQ(evbuffer_commit_space(buffer, extents, 0), 0);
    CHECK_EQ(evbuffer_get_length(buffer), 0);
    evbuffer_free(buffer);
}

TEST(a_commit_of_nothing_leaves_the_buffer_as_it_was)
{
    struct evbuffer *buffer = buffer_with("abc");
    struct evbuffer_iovec extents[2];
    int count = evbuffer_reserve_space(buffer, 3000, extents, 2);
    CHECK(count > 0);
    for (int i = 0; i < count; i++)
        extents[i].iov_len = 0;
    CHECK_EQ(evbuffer_commit_space(buffer, extents, count), 0);
    CHECK_EQ(evbuffer_add(buffer, "def", 3), 0);
    CHECK_BYTES(buffer, "abcdef");
    evbuffer_free(buffer);
}

TEST(a_commit_of_other_memory_is_refused)
{
    struct evbuffer *buffer = buffer_with("abc");
    struct evbuffer_iovec extents[1];
    char other[10];
    CHECK_EQ(evbuffer_reserve_space(buffer, 5, extents, 1), 1);
    struct evbuffer_iovec longer = {extents[0].iov_base, extents[0].iov_len + 1};
    CHECK_EQ(evbuffer_commit_space(buffer, &longer, 1), -1);
    extents[0].iov_base = other;
    extents[0].iov_len = 5;
    CHECK_EQ(evbuffer_commit_space(buffer, extents, 1), -1);
    CHECK_BYTES(buffer, "abc");
    evbuffer_free(buffer);
}

static int cleanups;
static size_t cleaned;

static void clean(const void *data, size_t n, void *argument)
{
    (void)data;
    cleaned = n;
    cleanups += *(int *)argument;
}

TEST(borrowed_memory_is_given_back_when_its_last_byte_is_gone)
{
    struct evbuffer *buffer = buffer_with("a"), *other = evbuffer_new();
    int weight = 1;
    cleanups = 0;
    CHECK_EQ(evbuffer_add_reference(buffer, "borrowed", 8, clean, &weight), 0);
    CHECK_EQ(evbuffer_add(buffer, "z", 1), 0);
    CHECK_BYTES(buffer, "aborrowedz");
    CHECK_EQ(evbuffer_drain(buffer, 8), 0);
    CHECK_EQ(cleanups, 0);
    CHECK_EQ(evbuffer_drain(buffer, 1), 0);
    CHECK_EQ(cleanups, 1);
    CHECK_EQ(cleaned, 8);
    CHECK_BYTES(buffer, "z");

    CHECK_EQ(evbuffer_add_reference(buffer, "moved", 5, clean, &weight), 0);
    CHECK_EQ(evbuffer_add_buffer(other, buffer), 0);
    evbuffer_free(buffer);
    CHECK_EQ(cleanups, 1);
    CHECK(evbuffer_pullup(other, -1) != NULL);
    CHECK_EQ(cleanups, 2);
    CHECK_EQ(evbuffer_add_reference(other, "freed", 5, clean, &weight), 0);
    CHECK_EQ(evbuffer_add_reference(other, "", 0, clean, &weight), 0);
    CHECK_BYTES(other, "zmovedfreed");
    evbuffer_free(other);
    CHECK_EQ(cleanups, 4);
}

TEST(borrowed_memory_that_cannot_be_added_stays_the_callers)
{
    struct evbuffer *buffer = evbuffer_new();
    int weight = 1;
    cleanups = 0;
    CHECK_EQ(evbuffer_freeze(buffer, 0), 0);
    CHECK_EQ(evbuffer_add_reference(buffer, "borrowed", 8, clean, &weight), -1);
    evbuffer_free(buffer);
    CHECK_EQ(cleanups, 0);
}
