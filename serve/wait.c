#include "serve/server.h"

#include "serve/arch/arch.h"

#include <gossamer/loop.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1};

static void end(struct gs_signal *signal)
{
    gs_loop_stop(signal->watcher.loop);
}

static void reopen_log(struct gs_signal *signal)
{
    struct serve_server *server = signal->watcher.data;
    if (server->log_fd < 0)
        return;
    const char *file = server->options->access_log;
    int err = serve_access_log_reopen(file, server->log_fd);
    if (err)
        fprintf(stderr, "%s: can't reopen the access log %s: %s\n", serve_command.name, file,
                strerror(-err));
    else
        server->log_turns_here = atomic_fetch_add(&server->log_state->turns, 1) + 1;
}

void serve_follow_log(struct serve_server *server)
{
    unsigned turns = atomic_load(&server->log_state->turns);
    if (turns != server->log_turns_here &&
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

static int watch_signals(struct serve_server *server, struct gs_loop *loop,
                         struct gs_signal signals[3])
{
    int err = 0;
    for (int i = 0; i < 3 && !err; i++) {
        gs_signal_init(&signals[i], loop, numbers[i] == SIGUSR1 ? reopen_log : end);
        signals[i].watcher.data = server;
        err = gs_signal_start(&signals[i], numbers[i]);
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

/* Whom to call about child processes. */
struct family {
    struct gs_signal signal;
    void (*on_child)(void *data); /* NULL: there are none */
    void *data;
};

static void tell_of_child(struct gs_signal *signal)
{
    struct family *family = gs_container_of(signal, struct family, signal);
    family->on_child(family->data);
}

/* Those that have ended already are told of, too. */
static int watch_children(struct gs_loop *loop, struct family *family)
{
    gs_signal_init(&family->signal, loop, tell_of_child);
    int err = family->on_child ? gs_signal_start(&family->signal, SIGCHLD) : 0;
    if (!err && family->on_child)
        gs_watcher_feed(&family->signal.watcher, 0);
    return err;
}

static int wait_with(struct serve_server *server, struct family *family)
{
    struct gs_signal signals[3];
    struct gs_loop *loop;
    int err = gs_loop_new(&loop);
    if (err)
        return err;
    err = watch_signals(server, loop, signals);
    if (!err)
        err = watch_children(loop, family);
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

int serve_wait(struct serve_server *server)
{
    struct family none = {.on_child = NULL};
    return wait_with(server, &none);
}

int serve_wait_with_children(struct serve_server *server, void (*on_child)(void *data), void *data)
{
    struct family family = {.on_child = on_child, .data = data};
    return wait_with(server, &family);
}
