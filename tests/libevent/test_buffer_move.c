#include "tests/libevent/bytes.h"

TEST(a_buffer_is_moved_behind_another)
{
    struct evbuffer *a = buffer_with("abc"), *b = buffer_with("def"), *empty = evbuffer_new();
    CHECK_EQ(evbuffer_add_buffer(a, b), 0);
    CHECK_BYTES(a, "abcdef");
    CHECK_EQ(evbuffer_get_length(b), 0);
    CHECK_EQ(evbuffer_add_buffer(a, empty), 0);
    CHECK_EQ(evbuffer_add_buffer(a, a), 0);
    CHECK_EQ(evbuffer_add_buffer(empty, a), 0);
    CHECK_BYTES(empty, "abcdef");
    CHECK_EQ(evbuffer_add(empty, "g", 1), 0);
    CHECK_EQ(evbuffer_add(a, "new", 3), 0);
    CHECK_BYTES(empty, "abcdefg");
    CHECK_BYTES(a, "new");
    evbuffer_free(a);
    evbuffer_free(b);
    evbuffer_free(empty);
}

TEST(a_buffer_is_moved_before_another)
{
    struct evbuffer *a = buffer_with("abc"), *b = buffer_with("def"), *empty = evbuffer_new();
    CHECK_EQ(evbuffer_prepend_buffer(b, a), 0);
    CHECK_BYTES(b, "abcdef");
    CHECK_EQ(evbuffer_prepend_buffer(b, a), 0);
    CHECK_EQ(evbuffer_prepend_buffer(b, b), 0);
    CHECK_EQ(evbuffer_prepend_buffer(empty, b), 0);
    CHECK_EQ(evbuffer_add(empty, "g", 1), 0);
    CHECK_BYTES(empty, "abcdefg");
    CHECK_EQ(evbuffer_get_length(b), 0);
    evbuffer_free(a);
    evbuffer_free(b);
    evbuffer_free(empty);
}

TEST(as_many_bytes_as_wanted_are_moved)
{
    struct evbuffer *a = scattered("abcdef"), *b = buffer_with("<");
    CHECK_EQ(evbuffer_add(a, "ghijkl", 6), 0);
    CHECK_EQ(evbuffer_remove_buffer(a, b, 0), 0);
    CHECK_EQ(evbuffer_remove_buffer(a, a, 3), 0);
    CHECK_EQ(evbuffer_remove_buffer(a, b, 2), 2);
    CHECK_BYTES(b, "<ab");
    CHECK_EQ(evbuffer_remove_buffer(a, b, 7), 7);
    CHECK_BYTES(b, "<abcdefghi");
    CHECK_BYTES(a, "jkl");
    CHECK_EQ(evbuffer_remove_buffer(a, b, 99), 3);
    CHECK_EQ(evbuffer_remove_buffer(a, b, 99), 0);
    CHECK_BYTES(b, "<abcdefghijkl");
    evbuffer_free(a);
    evbuffer_free(b);
}

TEST(a_reference_to_a_buffer_keeps_its_bytes)
{
    struct evbuffer *a = scattered("abc"), *b = buffer_with("<"), *c = evbuffer_new();
    CHECK_EQ(evbuffer_add(a, "def", 3), 0);
    CHECK_EQ(evbuffer_add_buffer_reference(b, a), 0);
    CHECK_EQ(evbuffer_add_buffer_reference(b, a), 0);
    CHECK_EQ(evbuffer_add_buffer_reference(b, c), 0);
    CHECK_BYTES(a, "abcdef");
    CHECK_BYTES(b, "<abcdefabcdef");
    CHECK_EQ(evbuffer_add(a, "ghi", 3), 0);
    CHECK_EQ(evbuffer_drain(a, 4), 0);
    CHECK_EQ(evbuffer_add(a, "jkl", 3), 0);
    CHECK_BYTES(a, "efghijkl");
    CHECK_BYTES(b, "<abcdefabcdef");
    evbuffer_free(a);
    CHECK_EQ(evbuffer_add(b, ">", 1), 0);
    CHECK_BYTES(b, "<abcdefabcdef>");
    CHECK_EQ(evbuffer_drain(b, 3), 0);
    CHECK_EQ(evbuffer_prepend(b, "12", 2), 0);
    CHECK_EQ(memcmp(evbuffer_pullup(b, -1), "12cdefabcdef>", 13), 0);
    evbuffer_free(b);
    evbuffer_free(c);
}

TEST(references_to_references_and_to_itself_are_refused)
{
    struct evbuffer *a = buffer_with("abc"), *b = evbuffer_new(), *c = evbuffer_new();
    CHECK_EQ(evbuffer_add_buffer_reference(b, a), 0);
    CHECK_EQ(evbuffer_add_buffer_reference(c, b), -1);
    CHECK_EQ(evbuffer_add_buffer_reference(a, a), -1);
    CHECK_EQ(evbuffer_get_length(c), 0);
    CHECK_BYTES(a, "abc");
    evbuffer_free(b);
    evbuffer_free(a);
    evbuffer_free(c);
}

static void count_cleanup(const void *data, size_t n, void *argument)
{
    (void)data;
    *(size_t *)argument += n;
}

TEST(borrowed_memory_is_given_back_after_the_last_reference_to_it)
{
    struct evbuffer *a = evbuffer_new(), *b = evbuffer_new();
    size_t cleaned = 0;
    CHECK_EQ(evbuffer_add_reference(a, "borrowed", 8, count_cleanup, &cleaned), 0);
    CHECK_EQ(evbuffer_add_buffer_reference(b, a), 0);
    evbuffer_free(a);
    CHECK_EQ(cleaned, 0);
    CHECK_BYTES(b, "borrowed");
    CHECK_EQ(evbuffer_drain(b, 8), 0);
    CHECK_EQ(cleaned, 8);
    evbuffer_free(b);
}
