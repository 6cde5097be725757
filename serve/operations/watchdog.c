#include "serve/operations/watchdog.h"

#include "serve/operations/listening.h"
#include "serve/operations/server.h"

#include <gossamer/clock.h>
#include <signal.h>
#include <unistd.h>

/* How long after the drain timeout the process ends: processes that are stuck are killed before. */
#define LATE_NS (2 * GS_SECOND)

/* Between two looks at what is left. */
#define LOOK_NS (100 * GS_MILLISECOND)

/* How long after that the kernel ends it: standard error may block, and a busy machine be slow. */
#define KILL_NS (10 * GS_SECOND)

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / GS_SECOND), .tv_nsec = (long)(ns % GS_SECOND)};
}

static uint64_t count_open(const struct serve_server *server)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < server->workers; i++) {
        const struct gs_http_counts *counts = &server->counts[i].http;
        count += __atomic_load_n(&counts->connections, __ATOMIC_RELAXED);
        count -= __atomic_load_n(&counts->closed, __ATOMIC_RELAXED);
    }
    return count;
}

static void end_process(struct serve_server *server)
{
    serve_error("a worker is stuck after the drain timeout: %llu connections were cut off",
                (unsigned long long)(atomic_load(&server->drain->cut_off) + count_open(server)));
    serve_listening_remove_files(server);
    _exit(SERVE_EXIT_CUT_OFF);
}

static void reopen_log_on_signal(struct serve_server *server)
{
    static const struct timespec now = {0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (sigtimedwait(&set, NULL, &now) != SIGUSR1 || server->log_fd < 0)
        return;
    if (server->log_relay.has_thread)
        serve_log_relay_reopen(&server->log_relay);
    else
        serve_access_log_reopen_or_warn(server->options->access_log, server->log_fd);
}

/* With the lock held. */
static void look(struct serve_server *server)
{
    const struct serve_generation *generation = &server->generation;
    if (generation->page)
        atomic_store(&generation->page->places[generation->place].open, count_open(server));
    if (server->notify.watchdog_ns)
        serve_notify_send(&server->notify, "WATCHDOG=1");
    if (!server->watchdog.is_log_over)
        reopen_log_on_signal(server);
}

static uint64_t next_look(const struct serve_watchdog *watchdog)
{
    uint64_t next_ns = gs_clock_after(gs_clock_now(), LOOK_NS);
    return next_ns < watchdog->until_ns ? next_ns : watchdog->until_ns;
}

static void *watch(void *data)
{
    struct serve_server *server = data;
    struct serve_watchdog *watchdog = &server->watchdog;
    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->is_over && gs_clock_now() < watchdog->until_ns) {
        look(server);
        struct timespec next = timespec_of(next_look(watchdog));
        pthread_cond_timedwait(&watchdog->changed, &watchdog->lock, &next);
    }
    bool is_over = watchdog->is_over;
    pthread_mutex_unlock(&watchdog->lock);
    if (!is_over)
        end_process(server);
    return NULL;
}

static void start_timer(struct serve_watchdog *watchdog)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec value = {.it_value =
                                   timespec_of(gs_clock_after(watchdog->until_ns, KILL_NS))};
    if (timer_create(CLOCK_MONOTONIC, &event, &watchdog->kill))
        return;
    watchdog->has_timer = true;
    timer_settime(watchdog->kill, TIMER_ABSTIME, &value, NULL);
}

/* With all signals blocked: those that the first thread waits for, such as SIGCHLD, must not be
 * taken by this one. */
static bool start_thread(struct serve_server *server)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int err = pthread_create(&server->watchdog.thread, NULL, watch, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !err;
}

void serve_watchdog_start(struct serve_server *server)
{
    struct serve_watchdog *watchdog = &server->watchdog;
    uint64_t late_ns = gs_clock_after(server->options->drain_timeout_ns, LATE_NS);
    pthread_condattr_t monotonic;
    atomic_store(&server->drain->hands_over, server->generation.has_offered &&
                                                 serve_generation_hands_over(&server->generation));
    atomic_store(&server->drain->is_draining, true);
    watchdog->until_ns = gs_clock_after(gs_clock_now(), late_ns);
    if (pthread_condattr_init(&monotonic))
        return;
    if (watchdog->until_ns != GS_NEVER)
        start_timer(watchdog);
    watchdog->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (!pthread_cond_init(&watchdog->changed, &monotonic))
        watchdog->has_thread = start_thread(server);
    pthread_condattr_destroy(&monotonic);
}

void serve_watchdog_leave_log(struct serve_server *server)
{
    struct serve_watchdog *watchdog = &server->watchdog;
    if (!watchdog->has_thread)
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->is_log_over = true;
    pthread_mutex_unlock(&watchdog->lock);
}

void serve_watchdog_stop(struct serve_server *server)
{
    struct serve_watchdog *watchdog = &server->watchdog;
    if (watchdog->has_thread) {
        pthread_mutex_lock(&watchdog->lock);
        watchdog->is_over = true;
        pthread_cond_signal(&watchdog->changed);
        pthread_mutex_unlock(&watchdog->lock);
        pthread_join(watchdog->thread, NULL);
        pthread_cond_destroy(&watchdog->changed);
    }
    if (watchdog->has_timer)
        timer_delete(watchdog->kill);
}
