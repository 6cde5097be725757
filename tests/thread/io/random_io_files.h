/* The files of test_random_io.c: how they are made, and how they are closed. */
#ifndef GS_TESTS_THREAD_RANDOM_IO_FILES_H
#define GS_TESTS_THREAD_RANDOM_IO_FILES_H

#include "tests/thread/io/random_io.h"

#include <pty.h>
#include <sys/eventfd.h>
#include <termios.h>

static struct pair pairs[PAIRS_MAX];
static atomic_uint pair_count;
static struct pair *_Atomic slots[SLOTS];
static struct gs_mutex slot_locks[SLOTS];

/* ---- Making ---- */

static int make_listener(int flags, struct sockaddr_in *ret_address)
{
    socklen_t length = sizeof *ret_address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    *ret_address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST_EQ(bind(fd, (struct sockaddr *)ret_address, length), 0);
    MUST_EQ(listen(fd, 64), 0);
    MUST_EQ(getsockname(fd, (struct sockaddr *)ret_address, &length), 0);
    return fd;
}

static void make_tcp(int flags, int fds[2])
{
    struct sockaddr_in address;
    int listener = make_listener(flags, &address);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    uint64_t deadline_ns = after(SLACK_S * GS_SECOND);
    MUST_EQ(gs_connect(fds[0], (struct sockaddr *)&address, sizeof address, deadline_ns), 0);
    fds[1] = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, deadline_ns);
    HOLDS(fds[1] >= 0, "gs_accept", fds[1]);
    MUST_EQ(gs_close(listener), 0);
}

static void make_fifo(int flags, int fds[2])
{
    char path[64];
    static atomic_uint count;
    snprintf(path, sizeof path, "/var/tmp/gossamer-random-%d-%u", (int)getpid(),
             atomic_fetch_add(&count, 1));
    MUST_EQ(mkfifo(path, 0600), 0);
    fds[0] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    fds[1] = open(path, O_WRONLY | O_CLOEXEC | (flags ? O_NONBLOCK : 0));
    unlink(path);
    MUST_EQ(fcntl(fds[0], F_SETFL, flags ? O_NONBLOCK : 0), 0);
}

static void make_terminal(int flags, int fds[2])
{
    struct termios raw;
    MUST_EQ(openpty(&fds[0], &fds[1], NULL, NULL, NULL), 0);
    MUST_EQ(tcgetattr(fds[1], &raw), 0);
    cfmakeraw(&raw);
    MUST_EQ(tcsetattr(fds[1], TCSANOW, &raw), 0);
    for (int i = 0; i < 2; i++) {
        MUST_EQ(fcntl(fds[i], F_SETFL, flags ? O_NONBLOCK : 0), 0);
        MUST_EQ(fcntl(fds[i], F_SETFD, FD_CLOEXEC), 0);
    }
}

/* Its contents are those of its stream. */
static int make_regular(struct stream *stream)
{
    char path[] = "/var/tmp/gossamer-random-XXXXXX", bytes[STREAM_BYTES];
    int fd = mkostemp(path, O_CLOEXEC);
    MUST(fd >= 0);
    unlink(path);
    mark(stream, 0, bytes, sizeof bytes);
    MUST_EQ(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    atomic_store(&stream->limit, sizeof bytes);
    atomic_store(&stream->written, sizeof bytes);
    return fd;
}

/* flags: SOCK_NONBLOCK or 0. */
static void open_files(struct pair *pair, unsigned kind, int flags, int fds[2])
{
    struct sockaddr_in address;
    switch (kind) {
    case PIPE:
        MUST_EQ(pipe2(fds, O_CLOEXEC | (flags ? O_NONBLOCK : 0)), 0);
        break;
    case FIFO:
        make_fifo(flags, fds);
        break;
    case UNIX:
        MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, fds), 0);
        break;
    case TCP:
        make_tcp(flags, fds);
        break;
    case TERMINAL:
        make_terminal(flags, fds);
        break;
    case EVENTS:
        fds[0] = eventfd(0, EFD_CLOEXEC | (flags ? EFD_NONBLOCK : 0));
        break;
    case REGULAR:
        fds[0] = make_regular(&pair->streams[0]);
        break;
    default:
        fds[0] = make_listener(flags, &address);
    }
}

/* Returns NULL if there were enough. */
static struct pair *make_pair(struct actor *actor, unsigned kind)
{
    unsigned index = atomic_fetch_add(&pair_count, 1);
    struct pair *pair = &pairs[index];
    int fds[2] = {-1, -1};
    if (index >= PAIRS_MAX)
        return NULL;
    memset(pair, 0, sizeof *pair);
    for (unsigned i = 0; i < 2; i++)
        pair->streams[i] = (struct stream){.id = 1 + 2 * index + i + (uint32_t)seed * 1024,
                                           .is_shared = kind <= FIFO || kind >= EVENTS};
    open_files(pair, kind, draw(actor, 2) ? SOCK_NONBLOCK : 0, fds);
    for (unsigned i = 0; i < 2; i++) {
        MUST(fds[i] >= 0 || i);
        pair->ends[i].fd = fds[i];
        pair->ends[i].kind = (enum kind)kind;
        pair->ends[i].peer = kind <= TERMINAL ? &pair->ends[!i] : NULL;
        pair->ends[i].in = &pair->streams[i];
        pair->ends[i].out = &pair->streams[!i];
    }
    if (kind <= FIFO)
        pair->ends[0].out = pair->ends[1].in = NULL;
    return pair;
}

/* ---- Closing ---- */

/* Returns whether the caller is to close the descriptor: no call on it begins any more. */
static bool begin_close(struct end *end)
{
    if (end->fd < 0 || !take(&end->is_closing))
        return false;
    for (unsigned i = 0; i < ACTORS; i++)
        while (workers > 1 && may_begin(&actors[i], end))
            gs_thread_yield();
    return true;
}

static void close_end(struct end *end)
{
    if (begin_close(end))
        HOLDS(gs_close(end->fd) == 0, "gs_close", end->fd);
}

/* Another file gets the number. */
static void replace_end(struct end *end, struct end *by)
{
    if (!begin_close(end))
        return;
    gs_forget(end->fd);
    MUST_EQ(dup3(by->fd, end->fd, O_CLOEXEC), end->fd);
    gs_close(by->fd);
    by->fd = end->fd;
}

/* Close the files of a slot, and make others, which may get the numbers. */
static void renew(struct actor *actor)
{
    unsigned slot = draw(actor, SLOTS);
    if (gs_mutex_lock(&slot_locks[slot], 0))
        return;
    struct pair *old = atomic_load(&slots[slot]);
    unsigned way = old ? draw(actor, 3) : 0;
    if (way == 2)
        close_end(&old->ends[draw(actor, 2)]);
    struct pair *new = way == 1 ? make_pair(actor, draw(actor, KINDS)) : NULL;
    if (new)
        replace_end(&old->ends[0], &new->ends[0]);
    if (old && way < 2) {
        close_end(&old->ends[0]);
        close_end(&old->ends[1]);
    }
    if (!way)
        new = make_pair(actor, draw(actor, KINDS));
    if (new)
        atomic_store(&slots[slot], new);
    gs_mutex_unlock(&slot_locks[slot]);
}

#endif
