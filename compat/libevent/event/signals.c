/* Signals. One handler serves all bases: it counts the signal in the base that has it, and ends the
 * wait of that base's loop. Of several bases that watch a signal, the one has it that added its
 * event, or began its loop, last, as in libevent: the events of the others stay added, and the
 * signal has a handler when it comes again. The handler takes no lock; a thread that frees what it
 * uses waits until no handler is running. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

struct gs_ev_signals {
    struct gs_ev_signals *next;
    struct gs_loop *loop;
    struct event_dlist events[GS_EV_SIGNALS]; /* the last one that was added first */
    bool is_watched[GS_EV_SIGNALS];
    unsigned watched_count;
    atomic_uint caught[GS_EV_SIGNALS];
    atomic_bool has_caught;
};

static struct gs_ev_signals *_Atomic having[GS_EV_SIGNALS];
static atomic_int handlers;

/* Guards the list of all bases, changes of `having`, the counts, and the actions that were
 * replaced. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct gs_ev_signals *first;
static unsigned watching[GS_EV_SIGNALS];
static struct sigaction replaced[GS_EV_SIGNALS];

static void on_signal(int number)
{
    int error = errno;
    atomic_fetch_add(&handlers, 1);
    struct gs_ev_signals *signals = having[number];
    if (signals) {
        signals->caught[number]++;
        signals->has_caught = true;
        gs_loop_wake(signals->loop);
    }
    atomic_fetch_sub(&handlers, 1);
    errno = error;
}

static int set_action(int number)
{
    if (watching[number]++)
        return 0;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    if (!sigaction(number, &action, &replaced[number]))
        return 0;
    gs_ev_warn("sigaction");
    watching[number]--;
    return -1;
}

static void restore_action(int number)
{
    if (!--watching[number])
        sigaction(number, &replaced[number], NULL);
}

static int open_signals(struct event_base *base)
{
    if (base->signals)
        return 0;
    struct gs_ev_signals *signals = gs_ev_calloc(1, sizeof *signals);
    if (!signals)
        return -1;
    signals->loop = base->loop;
    base->signals = signals;
    pthread_mutex_lock(&mutex);
    signals->next = first;
    first = signals;
    pthread_mutex_unlock(&mutex);
    return 0;
}

void gs_ev_free_signals(struct event_base *base)
{
    struct gs_ev_signals *signals = base->signals;
    if (!signals)
        return;
    pthread_mutex_lock(&mutex);
    struct gs_ev_signals **link = &first;
    while (*link != signals)
        link = &(*link)->next;
    *link = signals->next;
    pthread_mutex_unlock(&mutex);
    while (handlers)
        sched_yield();
    gs_ev_free(signals);
    base->signals = NULL;
}

/* The caller holds the mutex. */
static struct gs_ev_signals *another_watching(int number)
{
    struct gs_ev_signals *signals = first;
    while (signals && !signals->is_watched[number])
        signals = signals->next;
    return signals;
}

void gs_ev_take_signals(struct event_base *base)
{
    struct gs_ev_signals *signals = base->signals;
    if (!signals || !signals->watched_count)
        return;
    pthread_mutex_lock(&mutex);
    for (int number = 1; number < GS_EV_SIGNALS; number++) {
        if (signals->is_watched[number])
            having[number] = signals;
    }
    pthread_mutex_unlock(&mutex);
}

int gs_ev_insert_signal(struct event_base *base, struct event *event)
{
    int number = event->ev_fd;
    if (number < 0 || number >= GS_EV_SIGNALS)
        return -1;
    if (open_signals(base))
        return -1;
    struct gs_ev_signals *signals = base->signals;
    if (LIST_EMPTY(&signals->events[number])) {
        pthread_mutex_lock(&mutex);
        signals->caught[number] = 0;
        struct gs_ev_signals *before = having[number];
        having[number] = signals;
        int err = set_action(number);
        if (err)
            having[number] = before;
        signals->is_watched[number] = !err;
        signals->watched_count += !err;
        pthread_mutex_unlock(&mutex);
        if (err)
            return -1;
    }
    LIST_INSERT_HEAD(&signals->events[number], event, ev_next);
    return 0;
}

void gs_ev_remove_signal(struct event_base *base, struct event *event)
{
    int number = event->ev_fd;
    LIST_REMOVE(event, ev_next);
    struct gs_ev_signals *signals = base->signals;
    if (!LIST_EMPTY(&signals->events[number]))
        return;
    pthread_mutex_lock(&mutex);
    signals->is_watched[number] = false;
    signals->watched_count--;
    if (having[number] == signals)
        having[number] = another_watching(number);
    restore_action(number);
    pthread_mutex_unlock(&mutex);
}

void gs_ev_activate_signal(struct event_base *base, int number, short calls)
{
    if (!base->signals || number < 0 || number >= GS_EV_SIGNALS)
        return;
    struct event *event;
    LIST_FOREACH(event, &base->signals->events[number], ev_next)
    {
        gs_ev_activate(event, EV_SIGNAL, calls);
    }
}

void gs_ev_collect_signals(struct event_base *base)
{
    struct gs_ev_signals *signals = base->signals;
    if (!signals || !signals->has_caught)
        return;
    signals->has_caught = false;
    for (int number = 1; number < GS_EV_SIGNALS; number++) {
        unsigned calls = signals->caught[number] ? atomic_exchange(&signals->caught[number], 0) : 0;
        if (calls)
            gs_ev_activate_signal(base, number, calls > INT16_MAX ? INT16_MAX : (short)calls);
    }
}

struct event_dlist *gs_ev_signal_events(struct event_base *base, int number)
{
    return base->signals ? &base->signals->events[number] : NULL;
}
