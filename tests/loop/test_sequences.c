/* Every order in which a watcher can be stopped and started, and its descriptor closed and its
 * number reused: all sequences of four steps, against a model that knows only the contract. */
#include "tests/loop/fixture.h"

enum act {
    START,      /* as it was last set; by the contract, if the number was not closed untold */
    START_ANEW, /* set first */
    STOP,
    ITERATE,        /* the kernel is told */
    CLOSE_TOLD,     /* the loop is told before the close; the number then means another socket */
    CLOSE_UNTOLD,   /* the watcher is stopped, and must be set anew */
    CLOSE_AND_KEEP, /* the same, while a duplicate of the old socket lives and is readable */
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

/* A new socket under the same number, as the next open would give it. */
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

static void close_and_reuse(bool is_told, bool is_kept)
{
    if (is_told)
        gs_loop_fd_closed(loop, fd);
    gs_io_stop(&io);
    is_active = false;
    must_set = !is_told;
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
    case START_ANEW:
        start(act == START_ANEW);
        break;
    case STOP:
        gs_io_stop(&io);
        is_active = false;
        break;
    case ITERATE:
        step(loop);
        break;
    case CLOSE_TOLD:
    case CLOSE_UNTOLD:
    case CLOSE_AND_KEEP:
        close_and_reuse(act == CLOSE_TOLD, act == CLOSE_AND_KEEP);
        break;
    case ACTS:
        break;
    }
}

/* Nothing was written to the socket that the number means now: no call may come. Then something is:
 * one must, if the watcher is active. */
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

/* sequence: a digit for each act, the first one last. */
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
    perform(START_ANEW);
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
