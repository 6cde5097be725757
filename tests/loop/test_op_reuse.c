/* A descriptor is closed while an operation on it is in progress, and its number refers to another
 * file at once: the operation ends, and the other file is left alone. */
#include "tests/loop/op_fixture.h"

static int fds[2], other[2];
static char bytes[16];

enum file_kind { READABLE, WRITABLE, LISTENER };

/* A function that starts an operation. */
#define START(name_, ...)                                                                          \
    static int name_(void)                                                                         \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }

/* ---- The operations ---- */

START(start_recv, gs_op_recv(&op, fds[0], bytes, sizeof bytes, 0))
START(start_read, gs_op_read(&op, fds[0], bytes, sizeof bytes, GS_OP_CURRENT_OFFSET))
START(start_recv_multishot, gs_op_recv_multishot(&op, fds[0]))
START(start_send, gs_op_send(&op, fds[0], "stray", 5, 0))
START(start_write, gs_op_write(&op, fds[0], "stray", 5, GS_OP_CURRENT_OFFSET))

static int start_sendmsg(void)
{
    static struct iovec part = {"stray", 5};
    static const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return gs_op_sendmsg(&op, fds[0], &message, 0);
}

START(start_accept, gs_op_accept(&op, fds[0], SOCK_CLOEXEC))
START(start_accept_multishot, gs_op_accept_multishot(&op, fds[0], SOCK_CLOEXEC))

static const struct operation {
    const char *name;
    enum file_kind kind;
    int (*start)(void);
} operations[] = {
    {"recv", READABLE, start_recv},
    {"read", READABLE, start_read},
    {"recv_multishot", READABLE, start_recv_multishot},
    {"send", WRITABLE, start_send},
    {"write", WRITABLE, start_write},
    {"sendmsg", WRITABLE, start_sendmsg},
    {"accept", LISTENER, start_accept},
    {"accept_multishot", LISTENER, start_accept_multishot},
};

/* ---- The files ---- */

static void make_pair(int pair[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
}

static int make_listener(struct sockaddr_un *address, socklen_t *length)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    *length = sizeof *address;
    CHECK_EQ(bind(fd, (struct sockaddr *)address, sizeof(sa_family_t)), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)address, length), 0);
    CHECK_EQ(listen(fd, 8), 0);
    return fd;
}

static void make_files(enum file_kind kind)
{
    static const char block[4096];
    struct sockaddr_un address;
    socklen_t length;
    if (kind == LISTENER) {
        fds[0] = make_listener(&address, &length);
        fds[1] = -1;
        other[0] = make_listener(&address, &length);
        other[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(connect(other[1], (struct sockaddr *)&address, length), 0);
        return;
    }
    make_pair(fds);
    make_pair(other);
    put(other[1], "secret");
    while (kind == WRITABLE && write(fds[0], block, sizeof block) > 0)
        ;
}

static void check_untouched(enum file_kind kind)
{
    char some[16];
    if (kind == LISTENER) {
        int fd = accept(other[0], NULL, NULL);
        CHECK(fd >= 0);
        close(fd);
        return;
    }
    CHECK_EQ(recv(other[1], some, sizeof some, MSG_DONTWAIT), -1);
    CHECK_EQ(recv(other[0], some, sizeof some, MSG_DONTWAIT), 6);
}

/* ---- The table ---- */

static void on_end(struct gs_op *each, int64_t result)
{
    (void)each;
    last_result = result;
    ended++;
}

/* iterations: before the close; with none, nothing was submitted to the kernel yet. */
static void check_cell(const struct operation *operation, int iterations)
{
    set_up(on_end);
    make_files(operation->kind);
    CHECK_EQ(operation->start(), 0);
    for (int i = 0; i < iterations; i++)
        step(loop);
    CHECK_EQ(ended, 0);
    gs_loop_fd_closed(loop, fds[0]);
    CHECK_EQ(dup2(other[0], fds[0]), fds[0]);
    ITERATE_UNTIL(ended);
    if (last_result != -ECANCELED)
        fprintf(stderr, "%s: %d\n", operation->name, (int)last_result);
    CHECK_EQ(last_result, -ECANCELED);
    step(loop);
    CHECK_EQ(ended, 1);
    check_untouched(operation->kind);
    close(fds[0]), close(fds[1]), close(other[0]), close(other[1]);
    gs_loop_free(loop);
}

TEST(operation_leaves_the_numbers_next_file_alone)
{
    const struct operation *end = operations + sizeof operations / sizeof *operations;
    for (const struct operation *each = operations; each < end; each++)
        for (int iterations = 0; iterations < 3; iterations++)
            check_cell(each, iterations);
}
