#include "serve/operations/server.h"

#include "serve/accept/table_evictor.h"
#include "serve/arch/arch.h"
#include "serve/connection/expiry.h"
#include "serve/log/error_log.h"

#include <errno.h>
#include <gossamer/loop.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    int number;
    bool reopens_log; /* otherwise it ends the server */
} signals[] = {
    {SIGTERM, false}, {SIGINT, false}, {SIGQUIT, false}, {SIGUSR1, true}, {SIGHUP, true}};

enum { SIGNALS = sizeof signals / sizeof *signals };

static void on_end(struct gs_signal *signal)
{
    gs_loop_stop(signal->watcher.loop);
}

/* The main thread while it waits. */
struct waiting {
    struct serve_server *server;
    const struct serve_children *children; /* NULL: there are none */
    struct gs_signal signals[SIGNALS], child;
    struct serve_table_evictor evictor;
    struct gs_timer children_due; /* always active, so that setting it needs no memory */
    struct gs_timer look;         /* at the certificates' files */
};

static void on_reopen_log(struct gs_signal *signal)
{
    struct waiting *waiting = signal->watcher.data;
    struct serve_server *server = waiting->server;
    serve_certificates_look(&server->certificates, true);
    if (server->log_fd < 0)
        return;
    if (server->log_relay.has_thread) {
        serve_log_relay_reopen(&server->log_relay);
        return;
    }
    if (!serve_access_log_reopen_or_warn(server->options->access_log, server->log_fd))
        return;
    server->log_generation = atomic_fetch_add(&server->log_state->generation, 1) + 1;
    if (waiting->children)
        waiting->children->log_reopened(waiting->children->data);
}

void serve_reopen_log(struct serve_server *server)
{
    unsigned generation;
    while ((generation = atomic_load(&server->log_state->generation)) != server->log_generation &&
           !serve_access_log_reopen(server->options->access_log, server->log_fd))
        server->log_generation = generation;
}

/* Signals that the server has no use for, and that would end it at once. SIGXFSZ: writing fails.
 * The last real-time signal is left to user threads (gossamer/thread.h). */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGPIPE, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF,
                                  SIGIO,   SIGPWR,  SIGXFSZ, SIGSTKFLT};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    for (int number = SIGRTMIN; number < SIGRTMAX; number++)
        signal(number, SIG_IGN);
}

void serve_block_signals(void)
{
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    ignore_signals();
}

static void report_metrics(const struct serve_server *server)
{
    const struct serve_metrics_listener *listener = &server->metrics_listener;
    const struct sockaddr *address = (const struct sockaddr *)&listener->address.storage;
    char text[SERVE_ADDRESS_TEXT];
    if (listener->fd < 0)
        return;
    serve_address_format(address, text);
    printf("metrics on %s%s\n", address->sa_family == AF_UNIX ? "" : "http://", text);
}

static void report_ready(const struct serve_server *server)
{
    if (!server->options->user && geteuid() == 0)
        serve_warn("running as root without --user: permissions of files are not respected");
    for (unsigned i = 0; i < server->address_count; i++) {
        char text[SERVE_ADDRESS_TEXT];
        const struct sockaddr *address = (const struct sockaddr *)&server->addresses[i].storage;
        serve_address_format(address, text);
        const char *scheme = server->addresses[i].is_tls     ? "https://"
                             : address->sa_family == AF_UNIX ? ""
                                                             : "http://";
        printf("listening on %s%s (%s, %u workers)\n", scheme, text, server->options->arch->name,
               server->workers);
    }
    report_metrics(server);
    fflush(stdout);
}

static int watch_signals(struct waiting *waiting, struct gs_loop *loop)
{
    int err = 0;
    for (int i = 0; i < SIGNALS && !err; i++) {
        gs_signal_init(&waiting->signals[i], loop, signals[i].reopens_log ? on_reopen_log : on_end);
        waiting->signals[i].watcher.data = waiting;
        err = gs_signal_start(&waiting->signals[i], signals[i].number);
    }
    return err;
}

/* While the last requests are answered, further signals are ignored; a second SIGINT or SIGQUIT,
 * from the keyboard, ends the program at once. */
static void block_late_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void look_after_children(struct waiting *waiting)
{
    uint64_t next_ns = waiting->children->look_after(waiting->children->data);
    (void)!gs_timer_start(&waiting->children_due, next_ns);
}

static void on_child_signal(struct gs_signal *signal)
{
    look_after_children(signal->watcher.data);
}

static void on_children_due(struct gs_timer *timer)
{
    look_after_children(timer->watcher.data);
}

/* Children that have ended already are reported, too. */
static int watch_children(struct waiting *waiting, struct gs_loop *loop)
{
    if (!waiting->children)
        return 0;
    gs_signal_init(&waiting->child, loop, on_child_signal);
    gs_timer_init(&waiting->children_due, loop, on_children_due);
    waiting->child.watcher.data = waiting->children_due.watcher.data = waiting;
    int err = gs_timer_start(&waiting->children_due, GS_NEVER);
    if (!err)
        err = gs_signal_start(&waiting->child, SIGCHLD);
    if (!err)
        gs_watcher_feed(&waiting->child.watcher, 0);
    return err;
}

static void on_look(struct gs_timer *timer)
{
    struct waiting *waiting = timer->watcher.data;
    serve_certificates_look(&waiting->server->certificates, false);
    (void)!gs_timer_start(timer, gs_loop_now(timer->watcher.loop) + SERVE_CERTIFICATES_LOOK_NS);
}

static int watch_certificates(struct waiting *waiting, struct gs_loop *loop)
{
    if (!waiting->server->certificates.count)
        return 0;
    gs_timer_init(&waiting->look, loop, on_look);
    waiting->look.watcher.data = waiting;
    return gs_timer_start(&waiting->look, gs_loop_now(loop) + SERVE_CERTIFICATES_LOOK_NS);
}

int serve_wait_with_children(struct serve_server *server, const struct serve_children *children)
{
    struct waiting waiting = {.server = server, .children = children};
    struct gs_loop *loop;
    int err = gs_loop_new(&loop);
    if (err)
        return err;
    err = watch_signals(&waiting, loop);
    if (!err)
        err = watch_children(&waiting, loop);
    if (!err)
        err = watch_certificates(&waiting, loop);
    if (!err)
        err = serve_table_evictor_start(&waiting.evictor, server, loop);
    if (!err)
        err = serve_metrics_listener_start(&server->metrics_listener, server, loop);
    for (struct serve_expiry *expiry = server->expiries; expiry; expiry = expiry->next)
        serve_expiry_start(expiry, expiry->shard, loop);
    if (!err) {
        sigset_t none;
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, NULL);
        report_ready(server);
        err = gs_loop_run(loop);
    }
    block_late_signals();
    for (struct serve_expiry *expiry = server->expiries; expiry; expiry = expiry->next)
        serve_expiry_stop(expiry);
    serve_metrics_listener_stop(&server->metrics_listener);
    gs_loop_free(loop);
    serve_watchdog_start(server);
    return err;
}

void serve_request_end(void)
{
    kill(getpid(), SIGTERM);
}

int serve_wait(struct serve_server *server)
{
    return serve_wait_with_children(server, NULL);
}
