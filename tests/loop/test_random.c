/* 100,000 random operations are compared with a model that is independent of epoll: it determines
 * which watchers each iteration must call, and with which events. */
#include "tests/loop/fixture.h"

#define OPERATIONS 100000
#define SOCKETS 10
#define WATCHERS 24
#define TIMERS 12
#define DUPLICATES 8

static struct gs_loop *loop;

static struct socket_model {
    int fd, peer;
    bool is_readable, is_full;
} sockets[SOCKETS];

static struct io_model {
    struct gs_io io;
    int on;        /* index of its socket */
    bool must_set; /* its descriptor was closed without notice to the loop */
    unsigned wanted, expected;
    bool is_active;
} watchers[WATCHERS];

static struct timer_model {
    struct gs_timer timer;
    bool is_active, is_expected;
    uint64_t deadline_ns, interval_ns;
} timers[TIMERS];

static int duplicates[DUPLICATES];
static uint64_t clock_ns = 1000, seed = 42;
static int mistakes;

static unsigned random_below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % n;
}

static uint64_t read_clock(void *data)
{
    (void)data;
    return clock_ns;
}

/* ---- Operations, also done in callbacks ---- */

static void start_watcher(struct io_model *w)
{
    if (w->is_active)
        return;
    if (w->must_set || random_below(4) == 0) {
        w->on = (int)random_below(SOCKETS);
        w->wanted = random_below(4);
        w->must_set = false;
        gs_io_set(&w->io, sockets[w->on].fd, w->wanted);
    }
    mistakes += gs_io_start(&w->io) != 0;
    w->is_active = true;
}

static void stop_watcher(struct io_model *w)
{
    gs_io_stop(&w->io);
    w->is_active = false;
    w->expected = 0;
}

static void change_wanted(struct io_model *w)
{
    w->wanted = random_below(4);
    w->expected &= w->wanted;
    gs_io_set_events(&w->io, w->wanted);
}

static void start_timer(struct timer_model *t)
{
    t->deadline_ns = clock_ns + random_below(400);
    t->interval_ns = random_below(3) ? 0 : 1 + random_below(100);
    mistakes += t->interval_ns
                    ? gs_timer_start_repeat(&t->timer, t->deadline_ns, t->interval_ns) != 0
                    : gs_timer_start(&t->timer, t->deadline_ns) != 0;
    t->is_active = true;
    t->is_expected = false;
}

static void stop_timer(struct timer_model *t)
{
    gs_timer_stop(&t->timer);
    t->is_active = t->is_expected = false;
}

static void do_anything(void)
{
    struct io_model *w = &watchers[random_below(WATCHERS)];
    struct timer_model *t = &timers[random_below(TIMERS)];
    switch (random_below(8)) {
    case 0:
    case 1:
        start_watcher(w);
        break;
    case 2:
        stop_watcher(w);
        break;
    case 3:
        stop_watcher(w);
        start_watcher(w);
        break;
    case 4:
        change_wanted(w);
        break;
    case 5:
    case 6:
        start_timer(t);
        break;
    case 7:
        stop_timer(t);
        break;
    }
}

static void on_io(struct gs_io *io, unsigned events)
{
    struct io_model *w = gs_container_of(io, struct io_model, io);
    mistakes += events != w->expected || !events;
    w->expected = 0;
    if (random_below(3) == 0)
        do_anything();
}

static void on_timer(struct gs_timer *timer)
{
    struct timer_model *t = gs_container_of(timer, struct timer_model, timer);
    mistakes += !t->is_expected;
    t->is_expected = false;
    t->is_active = t->interval_ns;
    if (random_below(3) == 0)
        do_anything();
}

/* ---- Operations on sockets, between iterations ---- */

static void change_readiness(struct socket_model *s)
{
    switch (random_below(4)) {
    case 0:
        put_byte(s->peer);
        s->is_readable = true;
        break;
    case 1:
        drain(s->fd);
        s->is_readable = false;
        break;
    case 2:
        fill(s->fd);
        s->is_full = true;
        break;
    case 3:
        drain(s->peer);
        s->is_full = false;
        break;
    }
}

/* Close the socket and give its number to a new one. At random, keep a duplicate, and call
 * gs_loop_fd_closed before or after the close. */
static void replace(struct socket_model *s)
{
    unsigned notice = random_below(3);
    int *duplicate = &duplicates[random_below(DUPLICATES)];
    if (*duplicate >= 0)
        close(*duplicate);
    *duplicate = random_below(2) ? dup(s->fd) : -1;
    if (random_below(2))
        put_byte(s->peer);
    if (notice == 1)
        gs_loop_fd_closed(loop, s->fd);
    for (int i = 0; i < WATCHERS; i++) {
        if (watchers[i].on != s - sockets)
            continue;
        stop_watcher(&watchers[i]);
        watchers[i].must_set |= !notice;
    }
    close(s->fd);
    close(s->peer);
    if (notice == 2)
        gs_loop_fd_closed(loop, s->fd);
    int pair[2], fd = s->fd;
    connect_pair(pair);
    *s = (struct socket_model){.fd = pair[0], .peer = pair[1]};
    if (pair[0] == fd)
        return;
    if (pair[1] == fd)
        s->peer = dup(pair[1]);
    dup2(pair[0], fd);
    close(pair[0]);
    s->fd = fd;
}

static void expect_all(void)
{
    for (int i = 0; i < WATCHERS; i++) {
        struct io_model *w = &watchers[i];
        const struct socket_model *s = &sockets[w->on];
        unsigned ready = (s->is_readable ? GS_READ : 0u) | (s->is_full ? 0u : GS_WRITE);
        w->expected = w->is_active ? ready & w->wanted : 0;
    }
    for (int i = 0; i < TIMERS; i++) {
        struct timer_model *t = &timers[i];
        t->is_expected = t->is_active && t->deadline_ns <= clock_ns;
        while (t->is_expected && t->interval_ns && t->deadline_ns <= clock_ns)
            t->deadline_ns += t->interval_ns;
    }
}

static void iterate(void)
{
    clock_ns += random_below(100);
    expect_all();
    mistakes += gs_loop_run_once(loop, 0) < 0;
    gs_loop_check(loop);
    for (int i = 0; i < WATCHERS; i++)
        mistakes += watchers[i].expected != 0;
    for (int i = 0; i < TIMERS; i++)
        mistakes += timers[i].is_expected;
}

static void set_up(void)
{
    loop = new_loop();
    gs_loop_set_clock(loop, read_clock, NULL);
    memset(duplicates, -1, sizeof duplicates);
    for (int i = 0; i < SOCKETS; i++) {
        int pair[2];
        connect_pair(pair);
        sockets[i] = (struct socket_model){.fd = pair[0], .peer = pair[1]};
    }
    for (int i = 0; i < WATCHERS; i++) {
        gs_io_init(&watchers[i].io, loop, on_io);
        watchers[i].must_set = true;
    }
    for (int i = 0; i < TIMERS; i++)
        gs_timer_init(&timers[i].timer, loop, on_timer);
}

static void tear_down(void)
{
    gs_loop_free(loop);
    for (int i = 0; i < SOCKETS; i++)
        close_pair((int[]){sockets[i].fd, sockets[i].peer});
    for (int i = 0; i < DUPLICATES; i++)
        if (duplicates[i] >= 0)
            close(duplicates[i]);
}

TEST(random_operations_agree_with_the_model)
{
    set_up();
    for (int i = 0; i < OPERATIONS; i++) {
        unsigned what = random_below(16);
        if (what < 8)
            do_anything();
        else if (what < 12)
            change_readiness(&sockets[random_below(SOCKETS)]);
        else if (what < 13)
            replace(&sockets[random_below(SOCKETS)]);
        else
            iterate();
        if (mistakes)
            TEST_FAIL("operation %d differs from the model", i);
    }
    struct gs_loop_counts counts;
    gs_loop_counts(loop, &counts);
    CHECK(counts.callbacks > OPERATIONS / 10);
    tear_down();
}
