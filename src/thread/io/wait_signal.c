/* gs_wait_signal: a thread waits for a signal, by a watcher of its worker's loop. gs_wait_signals:
 * for one of several that are blocked, by a signalfd. */
#include "thread/schedule/off_stack.h"

#include <gossamer/io.h>
#include <gossamer/sync.h>

struct signal_wait {
    struct gs_signal watcher;
    struct gs_thread *thread;
    bool is_received;
};

static void on_signal(struct gs_signal *signal)
{
    struct signal_wait *wait = gs_container_of(signal, struct signal_wait, watcher);
    wait->is_received = true;
    gs_signal_stop(signal);
    if (thread_claim(wait->thread, CLAIM_WOKEN))
        thread_make_ready(worker_current(), wait->thread);
}

/* The watcher belongs to this worker's loop, which only iterates when the thread has left its
 * stack; so a thread that waits here is pinned to the worker. */
static int wait_for(struct signal_wait *caught, int number, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {"signal", true, .at = AT_SIGNAL};
    struct gs_thread *self = caught->thread;
    const struct wait wait = {&waiting, (const void *)(intptr_t)number, deadline_ns};
    gs_signal_init(&caught->watcher, self->worker->loop, on_signal);
    int err = gs_signal_start(&caught->watcher, number);
    if (err)
        return err;
    self->is_pinned = true;
    err = gs_thread_wait(self, NULL, &wait);
    gs_signal_stop(&caught->watcher);
    self->is_pinned = false;
    return caught->is_received ? 0 : err;
}

int gs_wait_signal(int number, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct gs_thread *self = thread_current();
    struct off_stack off = {.thread = self};
    struct signal_wait local = {.thread = self}, *caught = off_stack_in(&off, &local, sizeof local);
    int err = off.err ? off.err : wait_for(caught, number, deadline_ns);
    off_stack_end(&off);
    return err;
}

int gs_wait_signals(const sigset_t *signals, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct gs_select wanted = {.signals = signals};
    int index = gs_select(&wanted, 1, deadline_ns);
    return index < 0 ? index : wanted.result;
}
