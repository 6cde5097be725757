/* The least that io_uring needs for a request, of what was tried (docs/design/history/loop.md): a
 * multishot receive for each connection, into buffers that the kernel selects, and sends to
 * registered descriptors, submitted by the call that waits. */
#include "bench/baseline_ring.h"

#include "base/ring.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/socket.h>

#define CONNECTIONS_MAX 16384
#define BUFFERS 512
#define BUFFER_SIZE 2048

/* The lowest bits of user_data; the others are the descriptor. */
enum { ACCEPT, RECEIVE, SEND, KIND_MASK = 3 };

struct server {
    struct gs_ring ring;
    struct gs_ring_buffers buffers;
    const char *response;
    size_t length;
};

static struct io_uring_sqe *get_entry(struct server *server, unsigned kind, int fd)
{
    struct io_uring_sqe *entry = gs_ring_get_sqe(&server->ring);
    while (!entry && !gs_ring_enter(&server->ring, 0, 0))
        entry = gs_ring_get_sqe(&server->ring);
    if (entry)
        entry->user_data = (uint64_t)(uint32_t)fd << 2 | kind;
    return entry;
}

static void start_accept(struct server *server, int listener)
{
    struct io_uring_sqe *entry = get_entry(server, ACCEPT, listener);
    if (!entry)
        return;
    gs_ring_prep(entry, IORING_OP_ACCEPT, listener, NULL, 0);
    entry->ioprio = IORING_ACCEPT_MULTISHOT;
    entry->accept_flags = SOCK_NONBLOCK;
}

static void start_receive(struct server *server, int fd)
{
    struct io_uring_sqe *entry = get_entry(server, RECEIVE, fd);
    if (!entry)
        return;
    gs_ring_prep(entry, IORING_OP_RECV, fd, NULL, 0);
    entry->ioprio = IORING_RECV_MULTISHOT;
    entry->flags = IOSQE_BUFFER_SELECT | IOSQE_FIXED_FILE;
    entry->buf_group = server->buffers.group;
}

static void start_send(struct server *server, int fd)
{
    struct io_uring_sqe *entry = get_entry(server, SEND, fd);
    if (!entry)
        return;
    gs_ring_prep(entry, IORING_OP_SEND, fd, server->response, (uint32_t)server->length);
    entry->msg_flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    entry->flags = IOSQE_FIXED_FILE;
}

/* Register fd at its own number; -1: remove what is there. */
static int set_registered(struct server *server, int number, int fd)
{
    struct io_uring_files_update update = {.offset = (uint32_t)number, .fds = (uintptr_t)&fd};
    return gs_sys_io_uring_register(server->ring.fd, IORING_REGISTER_FILES_UPDATE, &update, 1);
}

static void close_connection(struct server *server, int fd)
{
    set_registered(server, fd, -1);
    gs_sys_close(fd);
}

static void take_connection(struct server *server, int fd)
{
    if (fd < 0)
        return;
    if (set_registered(server, fd, fd) == 1)
        start_receive(server, fd);
    else
        gs_sys_close(fd);
}

static void take_bytes(struct server *server, int fd, const struct io_uring_cqe *completion)
{
    if (completion->res > 0) {
        gs_ring_return_buffer(&server->buffers, completion->flags >> IORING_CQE_BUFFER_SHIFT);
        start_send(server, fd);
    }
    if (completion->flags & IORING_CQE_F_MORE)
        return;
    if (completion->res > 0 || completion->res == -ENOBUFS)
        start_receive(server, fd);
    else
        close_connection(server, fd);
}

static void complete(struct server *server, const struct io_uring_cqe *completion)
{
    int fd = (int)(completion->user_data >> 2);
    unsigned kind = completion->user_data & KIND_MASK;
    if (kind == RECEIVE)
        take_bytes(server, fd, completion);
    else if (kind == SEND && completion->res < (int)server->length)
        gs_sys_shutdown(fd, SHUT_RDWR);
    else if (kind == ACCEPT) {
        take_connection(server, completion->res);
        if (!(completion->flags & IORING_CQE_F_MORE))
            start_accept(server, fd);
    }
}

static int open_ring(struct server *server)
{
    struct io_uring_rsrc_register files = {.nr = CONNECTIONS_MAX,
                                           .flags = IORING_RSRC_REGISTER_SPARSE};
    int err = gs_ring_init(&server->ring, 1024, GS_RING_SINGLE_ISSUER);
    if (!err)
        err = gs_ring_new_buffers(&server->buffers);
    if (!err)
        err = gs_ring_register_buffers(&server->ring, &server->buffers);
    if (!err)
        err =
            gs_sys_io_uring_register(server->ring.fd, IORING_REGISTER_FILES2, &files, sizeof files);
    for (unsigned i = 0; !err && i < BUFFERS; i++)
        gs_ring_return_buffer(&server->buffers, i);
    return err;
}

void respond_by_ring(int listener, const char *response, size_t length)
{
    static struct server server = {.buffers = {.size = BUFFER_SIZE, .count = BUFFERS}};
    server.response = response;
    server.length = length;
    if (open_ring(&server))
        return;
    start_accept(&server, listener);
    while (!gs_ring_enter(&server.ring, 1, UINT64_MAX))
        for (struct io_uring_cqe *completion; (completion = gs_ring_peek_cqe(&server.ring));
             gs_ring_cqe_seen(&server.ring))
            complete(&server, completion);
}
