/* How the architecture `user` starts and ends. */
#include "serve/arch/arch.h"
#include "serve/arch/user.h"
#include "serve/loops.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>
#include <string.h>

/* Kernel threads for files, and one that waits for signals. */
#define POOL 5

/* For so long a file system may keep a worker without a word about it. */
#define STUCK_NS (100 * GS_MILLISECOND)

/* ---- The access log: its threads run when nobody else has anything to do, so that many lines are written at once ---- */

static void *write_log(void *argument)
{
    struct serve_worker *worker = argument;
    gs_thread_set_cancelable(false);
    while (!gs_thread_park(GS_NEVER) && !atomic_load(&worker->is_log_over))
        serve_shard_flush_log(&worker->shard);
    return NULL;
}

static void on_log(void *data)
{
    struct serve_worker *worker = data;
    gs_thread_unpark(worker->log_thread);
}

static int start_log(struct serve_worker *worker, unsigned index)
{
    const struct gs_thread_attributes attributes = {
        .name = "log", .priority = GS_PRIORITY_LOW, .worker = index + 1};
    int err = gs_thread_spawn(&attributes, write_log, worker, &worker->log_thread);
    if (!err)
        serve_log_on_begun(&worker->shard.log, on_log, worker);
    return err;
}

static void stop_log(struct serve_worker *worker)
{
    if (!worker->log_thread)
        return;
    atomic_store(&worker->is_log_over, true);
    gs_thread_unpark(worker->log_thread);
    (void)!gs_thread_join(worker->log_thread, GS_NEVER, NULL);
}

/* ---- The threads of connections ---- */

void serve_user_enlist(struct serve_worker *worker, struct serve_user *user)
{
    user->thread = gs_thread_self();
    pthread_mutex_lock(&worker->users_lock);
    gs_list_append(&worker->users, &user->link);
    pthread_mutex_unlock(&worker->users_lock);
}

void serve_user_strike(struct serve_worker *worker, struct serve_user *user)
{
    pthread_mutex_lock(&worker->users_lock);
    gs_list_remove(&user->link);
    pthread_mutex_unlock(&worker->users_lock);
}

static void cancel_all(struct serve_worker *worker)
{
    pthread_mutex_lock(&worker->users_lock);
    GS_LIST_EACH(link, &worker->users)
    gs_thread_cancel(gs_container_of(link, struct serve_user, link)->thread);
    pthread_mutex_unlock(&worker->users_lock);
}

/* ---- All of it ---- */

static int start(struct serve_site *site)
{
    struct serve_server *server = site->server;
    int err = 0;
    for (unsigned i = 0; !err && server->log_fd >= 0 && i < server->workers; i++)
        err = start_log(&site->workers[i], i);
    for (unsigned i = 0; !err && i < server->workers * server->address_count; i++) {
        struct serve_accepting *accepting = &site->accepting[i];
        *accepting = (struct serve_accepting){
            .listener = server->listeners[i],
            .wants_address = server->log_fd >= 0,
            .favor = server->options->favor,
            .places = &site->places,
            .worker = site->completes ? i / server->address_count + 1 : 0,
            .arrived = serve_user_arrived,
            .data = &site->workers[i / server->address_count],
        };
        err = serve_accepting_start(accepting);
    }
    return err;
}

static void wait_for_signal(void *argument)
{
    struct serve_site *site = argument;
    site->result = serve_wait(site->server);
}

/* Every place is free again when no connection is left. */
static void finish(struct serve_site *site)
{
    struct serve_server *server = site->server;
    for (unsigned i = 0; i < server->workers; i++)
        cancel_all(&site->workers[i]);
    for (unsigned i = 0; i < server->workers * server->address_count; i++)
        if (site->accepting[i].thread)
            serve_accepting_finish(&site->accepting[i]);
    for (unsigned i = 0; i < server->workers; i++)
        serve_stop_listening(server, i);
    for (uint64_t i = 0; i < server->options->connections_most; i++)
        (void)!gs_semaphore_wait(&site->places, GS_NEVER);
    for (unsigned i = 0; i < server->workers; i++)
        stop_log(&site->workers[i]);
}

static void *first(void *argument)
{
    struct serve_site *site = argument;
    const char *poller = gs_threads_poller();
    serve_say_poller(site->server, poller);
    site->completes = !strcmp(poller, "io_uring");
    int err = start(site);
    if (!err)
        err = gs_run_blocking(wait_for_signal, site, GS_NEVER);
    site->result = err ? err : site->result;
    uint64_t drain_ns = site->result ? 0 : site->server->options->drain_timeout_ns;
    atomic_store(&site->end_ns, gs_clock_after(gs_clock_now(), drain_ns));
    finish(site);
    return NULL;
}

static int make(struct serve_site *site)
{
    struct serve_server *server = site->server;
    site->workers = calloc(server->workers, sizeof *site->workers);
    site->accepting =
        calloc((size_t)server->workers * server->address_count, sizeof *site->accepting);
    int err = site->workers && site->accepting ? 0 : -ENOMEM;
    for (unsigned i = 0; !err && i < server->workers; i++) {
        site->workers[i].site = site;
        site->workers[i].users_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        gs_list_init(&site->workers[i].users);
        err = serve_shard_init(&site->workers[i].shard, server, i, server->workers > 1);
    }
    return err;
}

static int run(struct serve_server *server)
{
    struct serve_site site = {
        .server = server, .places.count = server->options->connections_most, .end_ns = GS_NEVER};
    const struct gs_threads_options options = {
        .workers = server->workers, .pool = POOL, .stuck_ns = STUCK_NS, .failed = serve_end_wait};
    serve_block_signals();
    int err = make(&site);
    if (!err)
        err = gs_threads_run(&options, first, &site, NULL);
    for (unsigned i = 0; site.workers && i < server->workers; i++)
        serve_shard_done(&site.workers[i].shard);
    free(site.accepting);
    free(site.workers);
    return err ? err : site.result;
}

const struct serve_arch serve_arch_user = {
    .name = "user",
    .summary = "a user-level thread for each connection, in plain blocking code",
    .workers = "kernel threads that run user-level threads, each with a listening socket",
    .workers_least = 1,
    .has_favor = true,
    .run = run,
};
