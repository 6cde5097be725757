#include "tests/libevent/bytes.h"

TEST(bytes_that_were_added_are_removed_in_order)
{
    struct evbuffer *buffer = evbuffer_new();
    char bytes[32] = "";
    CHECK_EQ(evbuffer_add(buffer, "hello", 5), 0);
    CHECK_EQ(evbuffer_add(buffer, "", 0), 0);
    CHECK_EQ(evbuffer_add(buffer, " world", 6), 0);
    CHECK_EQ(evbuffer_remove(buffer, bytes, 7), 7);
    CHECK_STR(bytes, "hello w");
    CHECK_EQ(evbuffer_remove(buffer, bytes, sizeof bytes), 4);
    CHECK_EQ(evbuffer_remove(buffer, bytes, sizeof bytes), 0);
    CHECK_EQ(evbuffer_drain(buffer, 1), 0);
    evbuffer_free(buffer);
}

TEST(a_large_buffer_keeps_every_byte)
{
    struct evbuffer *buffer = evbuffer_new();
    unsigned char piece[777], out[777];
    size_t total = 0;
    for (int i = 0; i < 2000; i++) {
        size_t n = (size_t)(i * 31 % 777);
        for (size_t k = 0; k < n; k++)
            piece[k] = (unsigned char)((total + k) * 7);
        CHECK_EQ(evbuffer_add(buffer, piece, n), 0);
        total += n;
    }
    CHECK_EQ(evbuffer_get_length(buffer), total);
    size_t position = 0;
    int n;
    while ((n = evbuffer_remove(buffer, out, 1 + position % sizeof out)) > 0) {
        for (int k = 0; k < n; k++, position++)
            CHECK_EQ(out[k], (unsigned char)(position * 7));
    }
    CHECK_EQ(position, total);
    evbuffer_free(buffer);
}

TEST(bytes_are_prepended_before_the_others)
{
    struct evbuffer *buffer = buffer_with("c");
    CHECK_EQ(evbuffer_prepend(buffer, "b", 1), 0);
    CHECK_EQ(evbuffer_prepend(buffer, "a", 1), 0);
    CHECK_EQ(evbuffer_prepend(buffer, "", 0), 0);
    CHECK_BYTES(buffer, "abc");
    CHECK_EQ(evbuffer_drain(buffer, 2), 0);
    CHECK_EQ(evbuffer_prepend(buffer, "12345", 5), 0);
    CHECK_BYTES(buffer, "12345c");
    evbuffer_free(buffer);

    char many[3000];
    memset(many, 'm', sizeof many);
    buffer = evbuffer_new();
    CHECK_EQ(evbuffer_prepend(buffer, many, sizeof many), 0);
    CHECK_EQ(evbuffer_prepend(buffer, many, sizeof many), 0);
    CHECK_EQ(evbuffer_add(buffer, "end", 3), 0);
    CHECK_EQ(evbuffer_drain(buffer, 6000), 0);
    CHECK_BYTES(buffer, "end");
    evbuffer_free(buffer);
}

TEST(pullup_makes_the_first_bytes_contiguous)
{
    struct evbuffer *buffer = scattered("abcdefgh");
    CHECK(!evbuffer_pullup(buffer, 0));
    CHECK(!evbuffer_pullup(buffer, 9));
    CHECK_EQ(memcmp(evbuffer_pullup(buffer, 3), "abc", 3), 0);
    CHECK(evbuffer_get_contiguous_space(buffer) >= 3);
    CHECK_BYTES(buffer, "abcdefgh");
    CHECK_EQ(memcmp(evbuffer_pullup(buffer, -1), "abcdefgh", 8), 0);
    CHECK_EQ(evbuffer_get_contiguous_space(buffer), 8);
    CHECK_EQ(evbuffer_drain(buffer, 8), 0);
    CHECK(!evbuffer_pullup(buffer, -1));
    CHECK_EQ(evbuffer_get_contiguous_space(buffer), 0);
    evbuffer_free(buffer);
}

TEST(bytes_are_copied_out_from_a_position)
{
    struct evbuffer *buffer = scattered("abcdefgh");
    struct evbuffer_ptr position;
    char bytes[9] = "";
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 5, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(evbuffer_copyout_from(buffer, &position, bytes, 2), 2);
    CHECK_STR(bytes, "fg");
    CHECK_EQ(evbuffer_copyout_from(buffer, &position, bytes, 9), 3);
    CHECK_STR(bytes, "fgh");
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 3, EVBUFFER_PTR_ADD), 0);
    CHECK_EQ(evbuffer_copyout_from(buffer, &position, bytes, 9), 0);
    CHECK_EQ(evbuffer_copyout(buffer, bytes, 0), 0);
    evbuffer_free(buffer);
}

TEST(peek_gives_the_extents_without_copying)
{
    struct evbuffer *buffer = scattered("abcd");
    struct evbuffer_iovec extents[8];
    struct evbuffer_ptr position;
    CHECK_EQ(evbuffer_peek(buffer, -1, NULL, NULL, 0), 4);
    CHECK_EQ(evbuffer_peek(buffer, 0, NULL, extents, 8), 0);
    CHECK_EQ(evbuffer_peek(buffer, 3, NULL, NULL, 0), 3);
    CHECK_EQ(evbuffer_peek(buffer, 3, NULL, extents, 1), 3);
    CHECK_EQ(evbuffer_peek(buffer, -1, NULL, extents, 2), 2);
    CHECK_EQ(evbuffer_peek(buffer, 99, NULL, extents, 8), 4);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(extents[i].iov_len, 1);
        CHECK_EQ(*(char *)extents[i].iov_base, 'a' + i);
    }
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 2, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(evbuffer_peek(buffer, 1, &position, extents, 8), 1);
    CHECK_EQ(*(char *)extents[0].iov_base, 'c');
    CHECK_EQ(evbuffer_peek(buffer, -1, &position, extents, 8), 2);
    CHECK_EQ(evbuffer_peek(buffer, -1, &position, NULL, 0), 2);
    CHECK_EQ(evbuffer_peek(buffer, 0, &position, extents, 8), 1);
    CHECK_EQ(evbuffer_ptr_set(buffer, &position, 4, EVBUFFER_PTR_SET), 0);
    CHECK_EQ(evbuffer_peek(buffer, -1, &position, extents, 8), 0);
    evbuffer_free(buffer);
}

TEST(a_frozen_front_keeps_its_bytes)
{
    struct evbuffer *buffer = buffer_with("abc\n"), *other = buffer_with("x");
    char bytes[4];
    CHECK_EQ(evbuffer_freeze(buffer, 1), 0);
    CHECK_EQ(evbuffer_drain(buffer, 1), -1);
    CHECK_EQ(evbuffer_remove(buffer, bytes, 1), -1);
    CHECK_EQ(evbuffer_copyout(buffer, bytes, 1), -1);
    CHECK_EQ(evbuffer_copyout(buffer, bytes, 0), 0);
    CHECK_EQ(evbuffer_prepend(buffer, "x", 1), -1);
    CHECK_EQ(evbuffer_prepend(buffer, "", 0), 0);
    CHECK_EQ(evbuffer_prepend_buffer(buffer, other), -1);
    CHECK_EQ(evbuffer_add_buffer(other, buffer), -1);
    CHECK_EQ(evbuffer_remove_buffer(buffer, other, 1), -1);
    CHECK_EQ(evbuffer_remove_buffer(buffer, other, 0), 0);
    CHECK_EQ(evbuffer_write(buffer, 1), -1);
    CHECK(!evbuffer_readln(buffer, NULL, EVBUFFER_EOL_LF));
    CHECK(evbuffer_pullup(buffer, 2) != NULL);
    CHECK_EQ(evbuffer_add(buffer, "d", 1), 0);
    CHECK_EQ(evbuffer_unfreeze(buffer, 1), 0);
    CHECK_BYTES(buffer, "abc\nd");
    CHECK_BYTES(other, "x");
    evbuffer_free(buffer);
    evbuffer_free(other);
}

TEST(a_frozen_back_gets_no_bytes)
{
    struct evbuffer *buffer = buffer_with("abc"), *other = buffer_with("x");
    struct evbuffer_iovec extents[2] = {{"y", 1}};
    CHECK_EQ(evbuffer_freeze(buffer, 0), 0);
    CHECK_EQ(evbuffer_add(buffer, "x", 1), -1);
    CHECK_EQ(evbuffer_add(buffer, "x", 0), -1);
    CHECK_EQ(evbuffer_add_reference(buffer, "x", 1, NULL, NULL), -1);
    CHECK_EQ(evbuffer_add_printf(buffer, "%d", 7), -1);
    CHECK_EQ(evbuffer_add_iovec(buffer, extents, 1), 0);
    CHECK_EQ(evbuffer_reserve_space(buffer, 3, extents, 1), -1);
    CHECK_EQ(evbuffer_reserve_space(buffer, 3, extents, 2), -1);
    CHECK_EQ(evbuffer_commit_space(buffer, extents, 0), -1);
    CHECK_EQ(evbuffer_add_buffer(buffer, other), -1);
    CHECK_EQ(evbuffer_add_buffer_reference(buffer, other), -1);
    CHECK_EQ(evbuffer_remove_buffer(other, buffer, 1), -1);
    CHECK_EQ(evbuffer_read(buffer, 0, 1), -1);
    CHECK_EQ(evbuffer_expand(buffer, 10), 0);
    CHECK_EQ(evbuffer_prepend(buffer, "-", 1), 0);
    CHECK_EQ(evbuffer_unfreeze(buffer, 0), 0);
    CHECK_BYTES(buffer, "-abc");
    CHECK_BYTES(other, "x");
    evbuffer_free(buffer);
    evbuffer_free(other);
}

TEST(sizes_out_of_range_are_refused)
{
    struct evbuffer *buffer = buffer_with("abc");
    struct evbuffer_iovec extents[2];
    CHECK_EQ(evbuffer_expand(buffer, SIZE_MAX - 1), -1);
    CHECK_EQ(evbuffer_expand(buffer, (size_t)EV_SSIZE_MAX - 10), -1);
    CHECK_EQ(evbuffer_reserve_space(buffer, -1, extents, 1), -1);
    CHECK_EQ(evbuffer_reserve_space(buffer, -1, extents, 2), -1);
    CHECK_EQ(evbuffer_reserve_space(buffer, EV_SSIZE_MAX, extents, 2), -1);
    CHECK_EQ(evbuffer_reserve_space(buffer, 10, extents, 0), -1);
    CHECK_EQ(evbuffer_add(buffer, "x", SIZE_MAX - 1), -1);
    CHECK_EQ(evbuffer_prepend(buffer, "x", SIZE_MAX - 1), -1);
    CHECK_BYTES(buffer, "abc");
    evbuffer_free(buffer);
}

TEST(flags_are_accepted)
{
    struct evbuffer *buffer = evbuffer_new();
    CHECK_EQ(evbuffer_set_flags(buffer, EVBUFFER_FLAG_DRAINS_TO_FD), 0);
    CHECK_EQ(evbuffer_clear_flags(buffer, EVBUFFER_FLAG_DRAINS_TO_FD), 0);
    evbuffer_free(buffer);
}

TEST(without_threads_there_is_no_lock)
{
    struct evbuffer *buffer = buffer_with("abc");
    CHECK_EQ(evbuffer_enable_locking(buffer, NULL), -1);
    evbuffer_lock(buffer);
    CHECK_BYTES(buffer, "abc");
    evbuffer_unlock(buffer);
    evbuffer_free(buffer);
}
