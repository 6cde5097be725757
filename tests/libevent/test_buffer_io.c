#include "tests/libevent/bytes.h"

#include <event2/util.h>

static int fds[2];
static char many[20000];

static void open_pair(int type)
{
    CHECK_EQ(evutil_socketpair(AF_UNIX, type, 0, fds), 0);
    CHECK_EQ(evutil_make_socket_nonblocking(fds[0]), 0);
    CHECK_EQ(evutil_make_socket_nonblocking(fds[1]), 0);
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = (char)('a' + i % 26);
}

static void close_pair(void)
{
    close(fds[0]);
    close(fds[1]);
}

TEST(a_read_takes_what_is_there_up_to_its_limit)
{
    struct evbuffer *buffer = evbuffer_new();
    open_pair(SOCK_STREAM);
    CHECK_EQ(evbuffer_read(buffer, fds[0], -1), -1);
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(send(fds[1], many, 10000, 0), 10000);
    CHECK_EQ(evbuffer_read(buffer, fds[0], 0), 0);
    CHECK_EQ(evbuffer_read(buffer, fds[0], 100), 100);
    CHECK_EQ(evbuffer_read(buffer, fds[0], 3000), 3000);
    CHECK_EQ(evbuffer_read(buffer, fds[0], 99999), 4096);
    CHECK_EQ(evbuffer_read(buffer, fds[0], -1), 2804);
    CHECK_EQ(evbuffer_get_length(buffer), 10000);
    CHECK_EQ(memcmp(evbuffer_pullup(buffer, -1), many, 10000), 0);
    close(fds[1]);
    CHECK_EQ(evbuffer_read(buffer, fds[0], -1), 0);
    CHECK_EQ(evbuffer_read(buffer, -1, -1), -1);
    CHECK_EQ(errno, EBADF);
    CHECK_EQ(evbuffer_get_length(buffer), 10000);
    close(fds[0]);
    evbuffer_free(buffer);
}

TEST(reads_of_every_size_keep_every_byte)
{
    struct evbuffer *buffer = evbuffer_new();
    open_pair(SOCK_STREAM);
    size_t sent = 0, got = 0;
    for (size_t n = 1; n < 4096; n = n * 5 / 4 + 1) {
        CHECK_EQ(send(fds[1], many + sent % 26, n, 0), n);
        CHECK_EQ(evbuffer_read(buffer, fds[0], -1), n);
        sent += n;
        if (n % 3) {
            char bytes[700];
            int removed = evbuffer_remove(buffer, bytes, sizeof bytes);
            for (int i = 0; i < removed; i++, got++)
                CHECK_EQ(bytes[i], 'a' + (int)(got % 26));
        }
    }
    CHECK_EQ(evbuffer_get_length(buffer), sent - got);
    const unsigned char *bytes = evbuffer_pullup(buffer, -1);
    for (; got < sent; got++)
        CHECK_EQ(*bytes++, 'a' + (int)(got % 26));
    close_pair();
    evbuffer_free(buffer);
}

TEST(a_datagram_is_read_whole)
{
    struct evbuffer *buffer = buffer_with("x");
    open_pair(SOCK_DGRAM);
    CHECK_EQ(send(fds[1], many, 4000, 0), 4000);
    CHECK_EQ(send(fds[1], many, 10, 0), 10);
    CHECK_EQ(evbuffer_read(buffer, fds[0], -1), 4000);
    CHECK_EQ(evbuffer_read(buffer, fds[0], -1), 10);
    CHECK_EQ(evbuffer_get_length(buffer), 4011);
    close_pair();
    evbuffer_free(buffer);
}

TEST(a_write_sends_no_more_than_it_is_told)
{
    struct evbuffer *buffer = scattered("abcdefghij");
    char bytes[32] = "";
    open_pair(SOCK_STREAM);
    CHECK_EQ(evbuffer_write_atmost(buffer, fds[0], 0), -1);
    CHECK_EQ(evbuffer_write_atmost(buffer, fds[0], 3), 3);
    CHECK_EQ(evbuffer_write_atmost(buffer, fds[0], -1), 7);
    CHECK_EQ(evbuffer_write(buffer, fds[0]), -1);
    CHECK_EQ(recv(fds[1], bytes, sizeof bytes, 0), 10);
    CHECK_STR(bytes, "abcdefghij");
    close_pair();
    evbuffer_free(buffer);
}

TEST(a_write_to_a_full_socket_keeps_the_rest)
{
    struct evbuffer *buffer = evbuffer_new();
    open_pair(SOCK_STREAM);
    size_t total = 0, sent = 0, got = 0;
    for (int i = 0; i < 200; i++, total += sizeof many)
        CHECK_EQ(evbuffer_add_reference(buffer, many, sizeof many, NULL, NULL), 0);
    while (got < total) {
        int n = evbuffer_write(buffer, fds[0]);
        if (n > 0) {
            sent += (size_t)n;
        } else if (sent < total) {
            CHECK_EQ(n, -1);
            CHECK_EQ(errno, EAGAIN);
        }
        CHECK_EQ(evbuffer_get_length(buffer), total - sent);
        char bytes[5000];
        ssize_t received = recv(fds[1], bytes, sizeof bytes, 0);
        for (ssize_t i = 0; i < received; i++, got++)
            CHECK_EQ(bytes[i], many[got % sizeof many]);
    }
    close_pair();
    evbuffer_free(buffer);
}

TEST(no_more_extents_are_written_at_once_than_the_system_takes)
{
    struct evbuffer *buffer = evbuffer_new();
    open_pair(SOCK_STREAM);
    for (int i = 0; i < 5000; i++)
        CHECK_EQ(evbuffer_add_reference(buffer, many + i % 26, 1, NULL, NULL), 0);
    size_t got = 0;
    while (got < 5000) {
        char bytes[64];
        evbuffer_write(buffer, fds[0]);
        ssize_t n = recv(fds[1], bytes, sizeof bytes, 0);
        for (ssize_t i = 0; i < n; i++, got++)
            CHECK_EQ(bytes[i], many[got % 26]);
    }
    CHECK_EQ(evbuffer_get_length(buffer), 0);
    close_pair();
    evbuffer_free(buffer);
}
