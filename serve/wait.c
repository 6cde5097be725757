#include "serve/server.h"

#include "serve/arch/arch.h"

#include <gossamer/loop.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1};

static void end(struct gs_signal *signal)
{
    gs_loop_stop(signal->watcher.loop);
}

/* Who waits, and is told of signals. */
struct waiting {
    struct serve_server *server;
    const struct serve_children *children; /* NULL: there are none */
    struct gs_signal signals[3], child;
};

static void reopen_log(struct gs_signal *signal)
{
    struct waiting *waiting = signal->watcher.data;
    struct serve_server *server = waiting->server;
    if (server->log_fd < 0)
        return;
    const char *file = server->options->access_log;
    int err = serve_access_log_reopen(file, server->log_fd);
    if (err) {
        fprintf(stderr, "%s: can't reopen the access log %s: %s\n", serve_command.name, file,
                strerror(-err));
        return;
    }
    server->log_turns_here = atomic_fetch_add(&server->log_state->turns, 1) + 1;
    if (waiting->children)
        waiting->children->log_opened(waiting->children->data);
}

void serve_follow_log(struct serve_server *server)
{
    unsigned turns;
    while ((turns = atomic_load(&server->log_state->turns)) != server->log_turns_here &&
           !serve_access_log_reopen(server->options->access_log, server->log_fd))
        server->log_turns_here = turns;
}

void serve_block_signals(void)
{
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void say_ready(const struct serve_server *server)
{
    for (unsigned i = 0; i < server->address_count; i++) {
        char text[SERVE_ADDRESS_TEXT];
        serve_address_format((const struct sockaddr *)&server->addresses[i].storage, text);
        printf("listening on http://%s (%s, %u workers)\n", text, server->options->arch->name,
               server->workers);
    }
    fflush(stdout);
}

static int watch_signals(struct waiting *waiting, struct gs_loop *loop)
{
    int err = 0;
    for (int i = 0; i < 3 && !err; i++) {
        gs_signal_init(&waiting->signals[i], loop, numbers[i] == SIGUSR1 ? reopen_log : end);
        waiting->signals[i].watcher.data = waiting;
        err = gs_signal_start(&waiting->signals[i], numbers[i]);
    }
    return err;
}

/* What may come while the last requests are answered: who asks twice still has them finished. Only a second interrupt, from
 * an impatient keyboard, ends the program at once. */
static void block_late_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void tell_of_child(struct gs_signal *signal)
{
    struct waiting *waiting = signal->watcher.data;
    waiting->children->ended(waiting->children->data);
}

/* Those that have ended already are told of, too. */
static int watch_children(struct waiting *waiting, struct gs_loop *loop)
{
    if (!waiting->children)
        return 0;
    gs_signal_init(&waiting->child, loop, tell_of_child);
    waiting->child.watcher.data = waiting;
    int err = gs_signal_start(&waiting->child, SIGCHLD);
    if (!err)
        gs_watcher_feed(&waiting->child.watcher, 0);
    return err;
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
    if (!err) {
        sigset_t none;
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, NULL);
        say_ready(server);
        err = gs_loop_run(loop);
    }
    block_late_signals();
    gs_loop_free(loop);
    return err;
}

void serve_end_wait(void)
{
    kill(getpid(), SIGTERM);
}

int serve_wait(struct serve_server *server)
{
    return serve_wait_with_children(server, NULL);
}
