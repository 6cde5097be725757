/* Every order of stopping and starting a watcher, closing its descriptor and reusing its number:
 * all sequences of four steps are compared with a model of the contract. */
#include "tests/loop/fixture.h"

enum act {
    START,     /* start without setting; allowed unless the descriptor was closed without notice */
    SET_START, /* set and start */
    STOP,
    ITERATE,        /* run an iteration, which applies changes */
    CLOSE_NOTIFIED, /* close after gs_loop_fd_closed; another socket reuses the number */
    CLOSE_SILENT,   /* close without notice; the watcher is stopped, and must be set again */
    CLOSE_AND_KEEP, /* like CLOSE_SILENT, but a readable duplicate stays open */
    ACTS,
};

static struct gs_loop *loop;
static struct gs_io io;
static int fd, peer, duplicate, duplicate_peer, calls_of_io;
static bool is_active, must_set;

static void on_io(struct gs_io *of, unsigned events)
{
    (void)of, (void)events;
    calls_of_io++;
}

/* Open a new socket with the same number. */
static void reuse(void)
{
    int pair[2];
    connect_pair(pair);
    if (pair[0] != fd) {
        if (pair[1] == fd)
            pair[1] = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
        dup2(pair[0], fd);
        close(pair[0]);
    }
    peer = pair[1];
}

static void forget_duplicate(void)
{
    if (duplicate < 0)
        return;
    close(duplicate);
    close(duplicate_peer);
    duplicate = -1;
}

static void close_and_reuse(bool is_notified, bool is_kept)
{
    if (is_notified)
        gs_loop_fd_closed(loop, fd);
    gs_io_stop(&io);
    is_active = false;
    must_set = !is_notified;
    if (is_kept) {
        forget_duplicate();
        duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 200);
        put_byte(peer);
        duplicate_peer = fcntl(peer, F_DUPFD_CLOEXEC, 200);
    }
    close(fd);
    close(peer);
    reuse();
}

static void start(bool is_set)
{
    if (is_active || (must_set && !is_set))
        return;
    if (is_set)
        gs_io_set(&io, fd, GS_READ);
    if (gs_io_start(&io))
        abort();
    is_active = true;
    must_set = false;
}

static void perform(enum act act)
{
    switch (act) {
    case START:
    case SET_START:
        start(act == SET_START);
        break;
    case STOP:
        gs_io_stop(&io);
        is_active = false;
        break;
    case ITERATE:
        step(loop);
        break;
    case CLOSE_NOTIFIED:
    case CLOSE_SILENT:
    case CLOSE_AND_KEEP:
        close_and_reuse(act == CLOSE_NOTIFIED, act == CLOSE_AND_KEEP);
        break;
    case ACTS:
        break;
    }
}

/* Nothing was written to the socket that has the number now, so the watcher must not be called.
 * After a byte is written, it must be called if it is active. */
static void verify(void)
{
    for (int i = 0; i < 3; i++)
        step(loop);
    if (calls_of_io)
        TEST_FAIL("an old event was delivered");
    put_byte(peer);
    step(loop);
    if (calls_of_io != is_active)
        TEST_FAIL(is_active ? "a new event was lost" : "a stopped watcher was called");
}

/* Each digit of `sequence` is a step; the lowest digit is the first step. */
static void run(unsigned sequence, int length)
{
    loop = new_loop();
    gs_io_init(&io, loop, on_io);
    is_active = false;
    must_set = true;
    duplicate = -1;
    calls_of_io = 0;
    int pair[2];
    connect_pair(pair);
    fd = pair[0];
    peer = pair[1];
    perform(SET_START);
    for (int i = 0; i < length; i++, sequence /= ACTS)
        perform(sequence % ACTS);
    verify();
    gs_loop_free(loop);
    forget_duplicate();
    close(fd);
    close(peer);
}

TEST(every_sequence_delivers_no_old_event_and_loses_no_new_one)
{
    for (unsigned i = 0; i < ACTS * ACTS * ACTS * ACTS; i++)
        run(i, 4);
}

TEST(every_sequence_with_iterations_between_does_the_same)
{
    for (unsigned i = 0; i < ACTS * ACTS * ACTS; i++) {
        unsigned first = i % ACTS, second = i / ACTS % ACTS, third = i / ACTS / ACTS;
        run((((third * ACTS + ITERATE) * ACTS + second) * ACTS + ITERATE) * ACTS + first, 5);
    }
}
