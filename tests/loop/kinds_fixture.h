/* Fixture: one active watcher of each kind except embedded loops, each with a letter. */
#ifndef GS_TESTS_LOOP_KINDS_FIXTURE_H
#define GS_TESTS_LOOP_KINDS_FIXTURE_H

#include "tests/loop/fixture.h"
#include "tests/loop/spawn.h"

static struct gs_loop *loop;

static struct all {
    struct gs_io io;
    struct gs_child child;
    struct gs_timer timer;
    struct gs_periodic periodic;
    struct gs_signal signal;
    struct gs_file file;
    struct gs_idle idle;
    struct gs_prepare prepare;
    struct gs_check check;
    struct gs_async async;
    struct gs_fork fork;
    struct gs_loop_cleanup cleanup;
    struct gs_op op;
    char byte;
    int pair[2], other[2];
    pid_t pid;
} all;

/* the watcher whose callback stops the run */
static const struct gs_watcher *stopper;

static inline void called(const struct gs_watcher *watcher)
{
    log_call(watcher);
    if (watcher == stopper)
        gs_loop_stop(loop);
}

static inline void on_io(struct gs_io *io, unsigned events)
{
    (void)events;
    called(&io->watcher);
}

static inline void on_child(struct gs_child *child, const struct gs_child_exit *exit)
{
    (void)exit;
    called(&child->watcher);
}

static inline void on_timer(struct gs_timer *timer)
{
    called(&timer->watcher);
}

static inline void on_periodic(struct gs_periodic *periodic)
{
    called(&periodic->watcher);
}

static inline void on_signal(struct gs_signal *signal)
{
    called(&signal->watcher);
}

static inline void on_file(struct gs_file *file, unsigned events)
{
    (void)events;
    called(&file->watcher);
}

static inline void on_idle(struct gs_idle *idle)
{
    called(&idle->watcher);
}

static inline void on_prepare(struct gs_prepare *prepare)
{
    called(&prepare->watcher);
}

static inline void on_check(struct gs_check *check)
{
    called(&check->watcher);
}

static inline void on_async(struct gs_async *async)
{
    called(&async->watcher);
}

static inline void on_fork(struct gs_fork *fork)
{
    called(&fork->watcher);
}

static inline void on_cleanup(struct gs_loop_cleanup *cleanup)
{
    called(&cleanup->watcher);
}

static inline void on_op(struct gs_op *op, int64_t result)
{
    (void)result;
    called(&op->io.watcher);
}

static inline void init_all(void)
{
    gs_io_init(&all.io, loop, on_io);
    gs_child_init(&all.child, loop, on_child);
    gs_timer_init(&all.timer, loop, on_timer);
    gs_periodic_init(&all.periodic, loop, on_periodic);
    gs_signal_init(&all.signal, loop, on_signal);
    gs_file_init(&all.file, loop, on_file);
    gs_idle_init(&all.idle, loop, on_idle);
    gs_prepare_init(&all.prepare, loop, on_prepare);
    gs_check_init(&all.check, loop, on_check);
    gs_async_init(&all.async, loop, on_async);
    gs_fork_init(&all.fork, loop, on_fork);
    gs_loop_cleanup_init(&all.cleanup, loop, on_cleanup);
    gs_op_init(&all.op, loop, on_op);
    all.io.watcher.data = "r";
    all.child.watcher.data = "c";
    all.timer.watcher.data = "t";
    all.periodic.watcher.data = "w";
    all.signal.watcher.data = "s";
    all.file.watcher.data = "f";
    all.idle.watcher.data = "i";
    all.prepare.watcher.data = "p";
    all.check.watcher.data = "k";
    all.async.watcher.data = "a";
    all.fork.watcher.data = "F";
    all.cleanup.watcher.data = "C";
    all.op.io.watcher.data = "o";
}

static inline int start_all(void)
{
    connect_pair(all.pair);
    connect_pair(all.other);
    all.pid = spawn_paused();
    gs_io_set(&all.io, all.pair[0], GS_READ);
    gs_idle_start(&all.idle);
    gs_prepare_start(&all.prepare);
    gs_check_start(&all.check);
    gs_async_start(&all.async);
    gs_fork_start(&all.fork);
    gs_loop_cleanup_start(&all.cleanup);
    return gs_io_start(&all.io) || gs_child_start(&all.child, all.pid) ||
           gs_timer_start(&all.timer, GS_NEVER) || gs_periodic_start(&all.periodic, GS_NEVER) ||
           gs_signal_start(&all.signal, SIGUSR1) || gs_file_start(&all.file, "/", 0) ||
           gs_op_recv(&all.op, all.other[0], &all.byte, 1, 0);
}

static inline void set_up(void)
{
    loop = new_loop();
    init_all();
    if (start_all())
        abort();
}

static inline void end_child(void)
{
    kill(all.pid, SIGKILL);
    waitpid(all.pid, NULL, 0);
    close_pair(all.pair);
    close_pair(all.other);
}

static inline void tear_down(void)
{
    gs_loop_free(loop);
    end_child();
}

static inline void stop_those_of_each_iteration(void)
{
    gs_idle_stop(&all.idle);
    gs_prepare_stop(&all.prepare);
    gs_check_stop(&all.check);
}

#endif
