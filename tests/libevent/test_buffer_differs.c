/* What buffers do otherwise than libevent 2.1.12, whose results are wrong or undefined. */
#include "tests/libevent/bytes.h"

#include <event2/util.h>

static int file_with(const char *text)
{
    int fd = memfd_create("segment", MFD_CLOEXEC);
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static void count_end(struct evbuffer_file_segment const *segment, int flags, void *argument)
{
    (void)segment;
    (void)flags;
    ++*(int *)argument;
}

TEST(a_segment_that_cannot_be_added_stays_the_callers)
{
    struct evbuffer *buffer = evbuffer_new();
    struct evbuffer_file_segment *segment =
        evbuffer_file_segment_new(file_with("0123456789"), 0, 10, EVBUF_FS_CLOSE_ON_FREE);
    int ends = 0;
    evbuffer_file_segment_add_cleanup_cb(segment, count_end, &ends);
    CHECK_EQ(evbuffer_add_file_segment(buffer, segment, 0, 11), -1);
    CHECK_EQ(evbuffer_add_file_segment(buffer, segment, 11, -1), -1);
    CHECK_EQ(evbuffer_add_file_segment(buffer, segment, -1, 5), -1);
    CHECK_EQ(ends, 0);
    CHECK_EQ(evbuffer_add_file_segment(buffer, segment, 10, -1), 0);
    CHECK_EQ(evbuffer_add_file_segment(buffer, segment, 3, -1), 0);
    CHECK_BYTES(buffer, "3456789");
    evbuffer_file_segment_free(segment);
    evbuffer_free(buffer);
    CHECK_EQ(ends, 1);
}

TEST(a_file_that_cannot_be_added_stays_open)
{
    struct evbuffer *buffer = evbuffer_new();
    int fd = file_with("0123456789");
    CHECK_EQ(evbuffer_freeze(buffer, 0), 0);
    CHECK_EQ(evbuffer_add_file(buffer, fd, 0, -1), -1);
    CHECK_EQ(close(fd), 0);
    evbuffer_free(buffer);
}

TEST(a_segment_to_the_end_of_a_file_ends_there)
{
    struct evbuffer *buffer = evbuffer_new();
    CHECK_EQ(evbuffer_add_file(buffer, file_with("0123456789"), 4, -1), 0);
    CHECK_BYTES(buffer, "456789");
    evbuffer_free(buffer);
}

TEST(pages_beyond_the_end_of_a_file_are_not_mapped)
{
    int fd = file_with("0123456789");
    CHECK(!evbuffer_file_segment_new(fd, 0, 100000, EVBUF_FS_DISABLE_SENDFILE));
    CHECK(!evbuffer_file_segment_new(fd, 100000, 1, EVBUF_FS_DISABLE_SENDFILE));
    close(fd);
}

TEST(bytes_of_a_file_that_is_to_be_sent_can_be_read)
{
    struct evbuffer *buffer = buffer_with("<"), *other = evbuffer_new();
    char *line;
    evbuffer_set_flags(buffer, EVBUFFER_FLAG_DRAINS_TO_FD);
    CHECK_EQ(evbuffer_add_file(buffer, file_with("one\ntwo\nthree"), 0, -1), 0);
    CHECK_EQ(evbuffer_add(buffer, ">", 1), 0);
    CHECK_EQ(evbuffer_search(buffer, "wo", 2, NULL).pos, 6);
    line = evbuffer_readln(buffer, NULL, EVBUFFER_EOL_LF);
    CHECK_STR(line, "<one");
    free(line);
    CHECK_EQ(evbuffer_remove_buffer(buffer, other, 3), 3);
    CHECK_BYTES(other, "two");
    CHECK_EQ(evbuffer_peek(buffer, -1, NULL, NULL, 0), 2);
    CHECK_EQ(memcmp(evbuffer_pullup(buffer, -1), "\nthree>", 7), 0);
    evbuffer_free(buffer);
    evbuffer_free(other);
}

TEST(no_more_of_a_file_is_sent_than_told)
{
    int fds[2];
    struct evbuffer *buffer = evbuffer_new();
    CHECK_EQ(evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    evbuffer_set_flags(buffer, EVBUFFER_FLAG_DRAINS_TO_FD);
    CHECK_EQ(evbuffer_add_file(buffer, file_with("0123456789"), 0, -1), 0);
    CHECK_EQ(evbuffer_write_atmost(buffer, fds[0], 3), 3);
    CHECK_EQ(evbuffer_write_atmost(buffer, fds[0], -1), 7);
    close(fds[0]);
    close(fds[1]);
    evbuffer_free(buffer);
}

TEST(what_other_buffers_refer_to_is_not_overwritten)
{
    struct evbuffer *source = buffer_with("0123456789"), *reader = evbuffer_new();
    CHECK_EQ(evbuffer_add_buffer_reference(reader, source), 0);
    CHECK_EQ(evbuffer_drain(source, 5), 0);
    CHECK_EQ(evbuffer_prepend(source, "abc", 3), 0);
    CHECK_EQ(evbuffer_drain(source, 4), 0);
    CHECK_EQ(evbuffer_expand(source, 970), 0);
    CHECK_BYTES(source, "6789");
    CHECK_BYTES(reader, "0123456789");
    evbuffer_free(source);
    evbuffer_free(reader);
}

static bool is_out_of_memory;

static void *fail_malloc(size_t size)
{
    return is_out_of_memory ? NULL : malloc(size);
}

TEST(a_reference_without_memory_is_refused)
{
    event_set_mem_functions(fail_malloc, realloc, free);
    struct evbuffer *source = scattered("abc"), *reader = evbuffer_new();
    is_out_of_memory = true;
    CHECK_EQ(evbuffer_add_buffer_reference(reader, source), -1);
    is_out_of_memory = false;
    CHECK_EQ(evbuffer_get_length(reader), 0);
    CHECK_EQ(evbuffer_add_buffer_reference(reader, source), 0);
    CHECK_BYTES(reader, "abc");
    evbuffer_free(reader);
    evbuffer_free(source);
}

/* A callback that removes another one, which the outer walk has yet to call. */
struct task {
    struct evbuffer_cb_entry *removed;
    int calls;
};

static void remove_once(struct evbuffer *buffer, const struct evbuffer_cb_info *info,
                        void *argument)
{
    struct task *task = argument;
    (void)info;
    task->calls++;
    if (task->removed)
        CHECK_EQ(evbuffer_remove_cb_entry(buffer, task->removed), 0);
    task->removed = NULL;
}

TEST(a_callback_may_remove_another)
{
    struct evbuffer *buffer = evbuffer_new();
    struct task first = {0}, second = {0};
    first.removed = evbuffer_add_cb(buffer, remove_once, &second);
    CHECK(evbuffer_add_cb(buffer, remove_once, &first) != NULL);
    CHECK_EQ(evbuffer_add(buffer, "a", 1), 0);
    CHECK_EQ(evbuffer_add(buffer, "b", 1), 0);
    CHECK_EQ(first.calls, 2);
    CHECK_EQ(second.calls, 0);
    evbuffer_free(buffer);
}

TEST(malformed_addresses_are_refused)
{
    unsigned char bytes[16];
    CHECK_EQ(evutil_inet_pton(AF_INET, " 1.2.3.4", bytes), 0);
    CHECK_EQ(evutil_inet_pton(AF_INET, "+1.2.3.4", bytes), 0);
    CHECK_EQ(evutil_inet_pton(AF_INET, "4294967297.2.3.4", bytes), 0);
    CHECK_EQ(evutil_inet_pton(AF_INET6, "::1:", bytes), 0);
    char text[8];
    const unsigned char address[16] = {0x20, 0x01};
    CHECK(!evutil_inet_ntop(AF_INET6, address, text, 5));
}

TEST(a_buffer_with_deferred_callbacks_may_be_freed_after_its_base)
{
    struct event_base *base = event_base_new();
    struct evbuffer *buffer = evbuffer_new();
    CHECK_EQ(evbuffer_defer_callbacks(buffer, base), 0);
    event_base_free(base);
    evbuffer_free(buffer);
}
