#include "serve/accept/parking.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define EVENTS_MAX 64

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
                   EPOLLHUP == POLLHUP,
               "epoll's events are those of poll");

void serve_parked_init(struct serve_parked *parked, struct serve_blocking *blocking)
{
    *parked = (struct serve_parked){.blocking = blocking};
}

static void wake(struct serve_parking *parking)
{
    static const uint64_t one = 1;
    gs_sys_write(parking->wake_fd, &one, sizeof one);
}

/* One event is reported, and then no more until the connection is parked again. */
static int watch(struct serve_parking *parking, struct serve_parked *parked)
{
    struct epoll_event event = {
        .events = serve_blocking_events(parked->blocking) | EPOLLONESHOT,
        .data.ptr = parked,
    };
    int operation = parked->is_registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    return gs_sys_epoll_ctl(parking->epoll_fd, operation, parked->blocking->base.fd, &event);
}

/* A connection that is parked after the sweep for draining is handed on at once. */
static uint64_t deadline_of(const struct serve_parking *parking,
                            const struct serve_blocking *blocking)
{
    bool must_drain = serve_admission_is_draining(parking->admission) && !blocking->is_draining;
    return must_drain ? 0 : serve_blocking_deadline(blocking);
}

int serve_park(struct serve_parking *parking, struct serve_parked *parked)
{
    serve_shard_flush(parked->blocking->base.shard);
    serve_blocking_set_waits(parked->blocking, serve_connection_waits(&parked->blocking->base));
    pthread_mutex_lock(&parking->lock);
    int err = watch(parking, parked);
    bool is_earlier = false;
    if (!err) {
        parked->is_registered = true;
        parked->deadline_ns = deadline_of(parking, parked->blocking);
        gs_list_append(&parking->parked, &parked->link);
        is_earlier = parked->deadline_ns < parking->earliest_ns;
        if (is_earlier)
            parking->earliest_ns = parked->deadline_ns;
    }
    pthread_mutex_unlock(&parking->lock);
    if (is_earlier)
        wake(parking);
    return err;
}

/* ---- The thread that watches ---- */

/* Hand on one whose event has not been reported. The caller holds the lock. */
static void unpark(struct serve_parking *parking, struct serve_parked *parked)
{
    gs_sys_epoll_ctl(parking->epoll_fd, EPOLL_CTL_DEL, parked->blocking->base.fd, NULL);
    parked->is_registered = false;
    gs_list_remove(&parked->link);
    parking->unparked(parking->data, parked, 0);
}

/* Hand on those whose deadline has passed; all: because the server drains. */
static void sweep(struct serve_parking *parking, bool all)
{
    uint64_t now_ns = gs_clock_now(), earliest_ns = GS_NEVER;
    pthread_mutex_lock(&parking->lock);
    GS_LIST_FOREACH (link, &parking->parked) {
        struct serve_parked *parked = gs_container_of(link, struct serve_parked, link);
        if (all || parked->deadline_ns <= now_ns)
            unpark(parking, parked);
        else if (parked->deadline_ns < earliest_ns)
            earliest_ns = parked->deadline_ns;
    }
    parking->earliest_ns = earliest_ns;
    pthread_mutex_unlock(&parking->lock);
}

static void on_event(struct serve_parking *parking, const struct epoll_event *event)
{
    struct serve_parked *parked = event->data.ptr;
    pthread_mutex_lock(&parking->lock);
    gs_list_remove(&parked->link);
    pthread_mutex_unlock(&parking->lock);
    parking->unparked(parking->data, parked, event->events);
}

static void wait_for_events(struct serve_parking *parking, uint64_t timeout_ns)
{
    struct epoll_event events[EVENTS_MAX];
    bool is_draining = false;
    int n = gs_sys_epoll_wait(parking->epoll_fd, events, EVENTS_MAX, timeout_ns);
    for (int i = 0; i < n; i++) {
        uint64_t count;
        if (events[i].data.ptr == parking)
            gs_sys_read(parking->wake_fd, &count, sizeof count);
        else if (events[i].data.ptr == parking->admission)
            is_draining = true;
        else
            on_event(parking, &events[i]);
    }
    if (!is_draining)
        return;
    gs_sys_epoll_ctl(parking->epoll_fd, EPOLL_CTL_DEL, parking->admission->drain_fd, NULL);
    sweep(parking, true);
}

static void *run(void *argument)
{
    struct serve_parking *parking = argument;
    for (;;) {
        uint64_t now_ns = gs_clock_now();
        pthread_mutex_lock(&parking->lock);
        uint64_t earliest_ns = parking->earliest_ns;
        bool is_finished = parking->is_finished;
        pthread_mutex_unlock(&parking->lock);
        if (is_finished)
            return NULL;
        if (earliest_ns <= now_ns)
            sweep(parking, false);
        else
            wait_for_events(parking, earliest_ns == GS_NEVER ? GS_NEVER : earliest_ns - now_ns);
    }
}

/* ---- Start and stop ---- */

static int add(struct serve_parking *parking, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return gs_sys_epoll_ctl(parking->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void close_both(struct serve_parking *parking)
{
    if (parking->epoll_fd >= 0)
        gs_sys_close(parking->epoll_fd);
    if (parking->wake_fd >= 0)
        gs_sys_close(parking->wake_fd);
}

int serve_parking_start(struct serve_parking *parking, struct serve_admission *admission,
                        serve_unparked_fn *unparked, void *data)
{
    *parking = (struct serve_parking){
        .admission = admission,
        .unparked = unparked,
        .data = data,
        .epoll_fd = gs_sys_epoll_create(EPOLL_CLOEXEC),
        .wake_fd = gs_sys_eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
        .lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER,
        .earliest_ns = GS_NEVER,
    };
    gs_list_init(&parking->parked);
    int err = parking->epoll_fd < 0 ? parking->epoll_fd : 0;
    if (!err)
        err = parking->wake_fd < 0 ? parking->wake_fd : add(parking, parking->wake_fd, parking);
    if (!err)
        err = add(parking, admission->drain_fd, admission);
    if (!err)
        err = -pthread_create(&parking->thread, NULL, run, parking);
    if (err)
        close_both(parking);
    return err;
}

void serve_parking_stop(struct serve_parking *parking)
{
    pthread_mutex_lock(&parking->lock);
    parking->is_finished = true;
    pthread_mutex_unlock(&parking->lock);
    wake(parking);
    pthread_join(parking->thread, NULL);
    close_both(parking);
}
