/* The model of test_random_kinds.c: watchers of every kind except descriptors and timers, the
 * random operations on them, and the expected state of each. */
#ifndef GS_TESTS_LOOP_KINDS_MODEL_H
#define GS_TESTS_LOOP_KINDS_MODEL_H

#include "tests/loop/fixture.h"
#include "tests/loop/spawn.h"

#define EACH 5 /* watchers of each kind */
#define KINDS 10

enum { PERIODIC, SIGNAL, ASYNC, FILES, CHILD, EMBEDDED, IDLE, PREPARE, CHECKS, FORK };

static struct model {
    union {
        struct gs_watcher watcher;
        struct gs_periodic periodic;
        struct gs_signal signal;
        struct gs_async async;
        struct gs_file file;
        struct gs_child child;
        struct gs_embed embed;
        struct gs_idle idle;
        struct gs_prepare prepare;
        struct gs_check check;
        struct gs_fork fork;
    };
    bool is_active, is_due; /* is_due: was fed or sent, or its child has ended */
    bool is_expected;       /* expected in this iteration */
    uint64_t at_ns, interval_ns;
    bool existed;     /* for a file: at the last check */
    bool was_touched; /* for a file: since the last check */
    bool is_polled;   /* for a file: will be checked in the next iteration */
    pid_t pid;
    bool has_ended; /* for a child: and it was not reaped */
    struct gs_loop *inner;
    struct gs_timer inner_timer;
} models[KINDS][EACH];

static const int signal_numbers[] = {SIGUSR1, SIGUSR2};
static bool is_raised[2];

static struct gs_loop *loop;
static uint64_t wall_ns = 1000 * GS_SECOND, seed = 7;
static int mistakes, calls_made;
static int8_t last_priority;
static bool is_iterating;
static char directory[] = "/tmp/gossamer-kinds-XXXXXX", paths[EACH][40];
static bool exists[EACH];

static inline unsigned random_below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % n;
}

static inline uint64_t read_wall(void *data)
{
    (void)data;
    return wall_ns;
}

static inline int index_of(const struct model *m, int kind)
{
    return (int)(m - models[kind]);
}

/* ---- Starting and stopping ---- */

static inline void start_periodic(struct model *m)
{
    m->interval_ns = random_below(3) ? 1 + random_below(300) : 0;
    uint64_t offset_ns = m->interval_ns ? random_below(1000) : wall_ns + random_below(300);
    m->at_ns = offset_ns;
    if (m->interval_ns) {
        mistakes += gs_periodic_start_repeat(&m->periodic, offset_ns, m->interval_ns) != 0;
        m->at_ns = wall_ns - wall_ns % m->interval_ns + offset_ns % m->interval_ns;
        while (m->at_ns > wall_ns)
            m->at_ns -= m->interval_ns;
        m->at_ns += m->interval_ns;
    } else {
        mistakes += gs_periodic_start(&m->periodic, offset_ns) != 0;
    }
    m->is_due = false;
}

static inline void start_file(struct model *m)
{
    int index = index_of(m, FILES);
    mistakes += gs_file_start(&m->file, paths[index], 0) != 0;
    m->existed = exists[index];
    m->was_touched = false;
}

static inline void start_child(struct model *m)
{
    if (!m->pid)
        m->pid = spawn_paused();
    mistakes += gs_child_start(&m->child, m->pid) != 0;
    m->is_due = false;
}

static inline void start(struct model *m, int kind)
{
    if (m->is_active && kind != PERIODIC)
        return;
    if (!m->is_active && random_below(2))
        gs_watcher_set_priority(&m->watcher, (int)random_below(5) - 2);
    m->is_expected = false;
    switch (kind) {
    case PERIODIC:
        start_periodic(m);
        break;
    case SIGNAL:
        mistakes += gs_signal_start(&m->signal, signal_numbers[index_of(m, kind) % 2]) != 0;
        break;
    case ASYNC:
        gs_async_start(&m->async);
        break;
    case FILES:
        start_file(m);
        break;
    case CHILD:
        start_child(m);
        break;
    case EMBEDDED:
        mistakes += gs_embed_start(&m->embed) != 0;
        break;
    case IDLE:
        gs_idle_start(&m->idle);
        break;
    case PREPARE:
        gs_prepare_start(&m->prepare);
        break;
    case CHECKS:
        gs_check_start(&m->check);
        break;
    case FORK:
        gs_fork_start(&m->fork);
        break;
    }
    m->is_active = true;
}

/* A signal is discarded when its last watcher is stopped. */
static inline void forget_signal(int which)
{
    for (int i = which; i < EACH; i += 2)
        if (models[SIGNAL][i].is_active)
            return;
    is_raised[which] = false;
}

static inline void stop(struct model *m, int kind)
{
    gs_loop_stop_watcher(&m->watcher);
    m->is_active = m->is_expected = m->is_due = false;
    if (kind == SIGNAL)
        forget_signal(index_of(m, kind) % 2);
}

/* ---- Events ---- */

/* A file watcher may be pending although it is not due; feeding it then would call it. */
static inline void feed(struct model *m, int kind)
{
    if (kind == EMBEDDED && random_below(2))
        gs_timer_start(&m->inner_timer, 1);
    if (!m->is_active || kind >= IDLE || (kind == FILES && is_iterating))
        return;
    if (kind == ASYNC)
        gs_async_send(&m->async);
    else
        gs_watcher_feed(&m->watcher, 0);
    m->is_due = !m->is_expected; /* otherwise it is pending already */
}

static inline void send_signal(int which)
{
    for (int i = which; i < EACH; i += 2)
        is_raised[which] |= models[SIGNAL][i].is_active;
    if (is_raised[which])
        raise(signal_numbers[which]);
}

static inline void change_file(int index)
{
    int fd;
    switch (random_below(3)) {
    case 0:
        fd = open(paths[index], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        put_byte(fd);
        close(fd);
        exists[index] = true;
        break;
    case 1:
        unlink(paths[index]);
        exists[index] = false;
        break;
    case 2:
        return;
    }
    models[FILES][index].was_touched = true;
}

static inline void end_child(struct model *m)
{
    siginfo_t info;
    if (!m->pid)
        return;
    kill(m->pid, SIGKILL);
    mistakes += waitid(P_PID, (id_t)m->pid, &info, WEXITED | WNOWAIT) != 0;
    m->has_ended = true;
}

static inline void jump_clock(void)
{
    wall_ns += random_below(4) ? random_below(1000) : 100000;
    if (!random_below(3))
        wall_ns -= random_below(100000);
}

static inline void count_visit(struct gs_watcher *watcher, void *data)
{
    (void)watcher;
    ++*(int *)data;
}

static inline void walk(void)
{
    int active = 0, visits = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < EACH; i++)
            active += models[kind][i].is_active;
    mistakes += gs_loop_walk(loop, GS_WATCHERS_ALL, count_visit, &visits) != active;
    mistakes += visits != active;
}

static inline void do_anything(void)
{
    int kind = (int)random_below(KINDS);
    struct model *m = &models[kind][random_below(EACH)];
    switch (random_below(5)) {
    case 0:
    case 1:
        start(m, kind);
        break;
    case 2:
        stop(m, kind);
        break;
    case 3:
        feed(m, kind);
        break;
    case 4:
        send_signal((int)random_below(2));
        break;
    }
}

#endif
