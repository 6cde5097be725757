#include "tests/libevent/bytes.h"

#include <event2/util.h>

static int file_with(const char *text)
{
    int fd = memfd_create("segment", MFD_CLOEXEC);
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void print_end(struct evbuffer_file_segment const *segment, int flags, void *argument)
{
    (void)segment;
    printf("%s ends, flags %d\n", (const char *)argument, flags);
}

static const unsigned ways[] = {0, EVBUF_FS_DISABLE_SENDFILE, EVBUF_FS_DISABLE_MMAP,
                                EVBUF_FS_DISABLE_SENDFILE | EVBUF_FS_DISABLE_MMAP,
                                EVBUF_FS_DISABLE_LOCKING};

TEST(a_segment_gives_its_bytes_in_every_way)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int fd = file_with("0123456789");
        struct evbuffer *buffer = buffer_with("<");
        struct evbuffer_file_segment *segment =
            evbuffer_file_segment_new(fd, 2, 6, ways[i] | EVBUF_FS_CLOSE_ON_FREE);
        CHECK(segment != NULL);
        evbuffer_file_segment_add_cleanup_cb(segment, print_end, "segment");
        CHECK_EQ(evbuffer_add_file_segment(buffer, segment, 0, -1), 0);
        CHECK_EQ(evbuffer_add_file_segment(buffer, segment, 2, 3), 0);
        CHECK_EQ(evbuffer_add_file_segment(buffer, segment, 6, 0), 0);
        evbuffer_file_segment_free(segment);
        CHECK_EQ(evbuffer_add(buffer, ">", 1), 0);
        CHECK_BYTES(buffer, "<234567456>");
        CHECK_EQ(evbuffer_search(buffer, "745", 3, NULL).pos, 6);
        CHECK(is_open(fd));
        CHECK_EQ(memcmp(evbuffer_pullup(buffer, -1), "<234567456>", 11), 0);
        CHECK_EQ(evbuffer_drain(buffer, 11), 0);
        CHECK(!is_open(fd));
        evbuffer_free(buffer);
    }
}

TEST(the_end_of_a_file_is_found)
{
    int fd = file_with("0123456789");
    struct evbuffer *buffer = evbuffer_new();
    struct evbuffer_file_segment *segment = evbuffer_file_segment_new(fd, 0, -1, 0);
    CHECK(segment != NULL);
    CHECK_EQ(evbuffer_add_file_segment(buffer, segment, 4, -1), 0);
    CHECK_BYTES(buffer, "456789");
    evbuffer_file_segment_free(segment);
    evbuffer_free(buffer);
    CHECK(is_open(fd));
    close(fd);
}

TEST(parts_that_a_file_does_not_have_are_refused)
{
    int fd = file_with("0123456789");
    int pipe_fds[2];
    CHECK_EQ(pipe(pipe_fds), 0);
    const unsigned in_memory = EVBUF_FS_DISABLE_SENDFILE | EVBUF_FS_DISABLE_MMAP;
    CHECK(!evbuffer_file_segment_new(fd, -1, 5, 0));
    CHECK(!evbuffer_file_segment_new(fd, 0, -5, 0));
    CHECK(!evbuffer_file_segment_new(fd, EV_INT64_MAX, 5, 0));
    CHECK(!evbuffer_file_segment_new(-1, 0, -1, 0));
    CHECK(!evbuffer_file_segment_new(fd, 0, 11, in_memory));
    CHECK(!evbuffer_file_segment_new(fd, 10, 1, in_memory));
    CHECK(!evbuffer_file_segment_new(fd, 0, 0, in_memory));
    CHECK(!evbuffer_file_segment_new(pipe_fds[0], 0, 5, EVBUF_FS_DISABLE_SENDFILE));
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    close(fd);
}

TEST(a_file_is_closed_when_the_buffer_is_done_with_it)
{
    int fd = file_with("0123456789");
    struct evbuffer *buffer = buffer_with("<");
    CHECK_EQ(evbuffer_add_file(buffer, fd, 3, 4), 0);
    CHECK_BYTES(buffer, "<3456");
    CHECK_EQ(evbuffer_drain(buffer, 4), 0);
    CHECK(is_open(fd));
    CHECK_EQ(evbuffer_drain(buffer, 1), 0);
    CHECK(!is_open(fd));
    CHECK_EQ(evbuffer_add_file(buffer, -1, 0, -1), -1);
    evbuffer_free(buffer);

    fd = file_with("0123456789");
    buffer = evbuffer_new();
    CHECK_EQ(evbuffer_add_file(buffer, fd, 0, -1), 0);
    evbuffer_free(buffer);
    CHECK(!is_open(fd));

    fd = file_with("0123456789");
    buffer = evbuffer_new();
    CHECK_EQ(evbuffer_add_file(buffer, fd, -1, 3), -1);
    CHECK_EQ(evbuffer_add_file(buffer, fd, 0, 0), -1);
    CHECK(is_open(fd));
    close(fd);
    evbuffer_free(buffer);
}

/* Write the whole buffer to a socket, and print what arrives. */
static void send_and_print(struct evbuffer *buffer)
{
    int fds[2];
    char bytes[64];
    CHECK_EQ(evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    size_t length = evbuffer_get_length(buffer);
    while (evbuffer_get_length(buffer) > 0)
        CHECK(evbuffer_write(buffer, fds[0]) > 0);
    CHECK_EQ(evbuffer_write(buffer, fds[0]), -1);
    CHECK_EQ(recv(fds[1], bytes, sizeof bytes, MSG_WAITALL | MSG_DONTWAIT), length);
    printf("%.*s\n", (int)length, bytes);
    close(fds[0]);
    close(fds[1]);
}

TEST(files_are_sent_between_memory)
{
    for (int drains = 0; drains < 2; drains++) {
        struct evbuffer *buffer = evbuffer_new();
        if (drains)
            evbuffer_set_flags(buffer, EVBUFFER_FLAG_DRAINS_TO_FD);
        CHECK_EQ(evbuffer_add(buffer, "before ", 7), 0);
        CHECK_EQ(evbuffer_add_file(buffer, file_with("0123456789"), 3, 4), 0);
        CHECK_EQ(evbuffer_add(buffer, " between ", 9), 0);
        CHECK_EQ(evbuffer_add_file(buffer, file_with("abcdef"), 0, -1), 0);
        CHECK_EQ(evbuffer_get_length(buffer), 26);
        send_and_print(buffer);
        evbuffer_free(buffer);
    }
}

TEST(a_partly_drained_file_is_sent_from_there)
{
    struct evbuffer *buffer = evbuffer_new(), *other = evbuffer_new();
    evbuffer_set_flags(buffer, EVBUFFER_FLAG_DRAINS_TO_FD);
    CHECK_EQ(evbuffer_add_file(buffer, file_with("0123456789"), 1, 8), 0);
    CHECK_EQ(evbuffer_drain(buffer, 3), 0);
    CHECK_EQ(evbuffer_add_buffer(other, buffer), 0);
    CHECK_EQ(evbuffer_prepend(other, "<", 1), 0);
    send_and_print(other);
    evbuffer_free(buffer);
    evbuffer_free(other);
}

TEST(the_end_of_a_file_that_has_become_shorter_is_no_progress)
{
    int fds[2], fd = file_with("0123456789");
    CHECK_EQ(evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct evbuffer *buffer = evbuffer_new();
    evbuffer_set_flags(buffer, EVBUFFER_FLAG_DRAINS_TO_FD);
    CHECK_EQ(evbuffer_add_file(buffer, fd, 0, 10), 0);
    CHECK_EQ(ftruncate(fd, 4), 0);
    CHECK_EQ(evbuffer_write(buffer, fds[0]), 4);
    CHECK_EQ(evbuffer_write(buffer, fds[0]), 0);
    CHECK_EQ(evbuffer_get_length(buffer), 6);
    evbuffer_free(buffer);
    close(fds[0]);
    close(fds[1]);
}
