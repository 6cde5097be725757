#include "serve/operations/watchdog.h"

#include "serve/operations/listening.h"
#include "serve/operations/server.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <signal.h>
#include <unistd.h>

/* How long after the drain timeout the process ends: processes that are stuck are killed before. */
#define LATE_NS (2 * GS_SECOND)

/* How long after that the kernel ends it: standard error may block, and a busy machine be slow. */
#define KILL_NS (10 * GS_SECOND)

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / GS_SECOND), .tv_nsec = (long)(ns % GS_SECOND)};
}

/* Those that were cut off, and those that are open. */
static uint64_t unfinished(const struct serve_server *server)
{
    uint64_t count = atomic_load(&server->drain->cut_off);
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
                (unsigned long long)unfinished(server));
    serve_listening_remove_files(server);
    _exit(SERVE_EXIT_CUT_OFF);
}

static void *watch(void *data)
{
    struct serve_server *server = data;
    struct serve_watchdog *watchdog = &server->watchdog;
    struct timespec until = timespec_of(watchdog->until_ns);
    int err = 0;
    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->is_over && err != ETIMEDOUT)
        err = pthread_cond_timedwait(&watchdog->changed, &watchdog->lock, &until);
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
    atomic_store(&server->drain->is_draining, true);
    watchdog->until_ns = gs_clock_after(gs_clock_now(), late_ns);
    if (watchdog->until_ns == GS_NEVER || pthread_condattr_init(&monotonic))
        return;
    start_timer(watchdog);
    watchdog->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (!pthread_cond_init(&watchdog->changed, &monotonic))
        watchdog->has_thread = start_thread(server);
    pthread_condattr_destroy(&monotonic);
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
