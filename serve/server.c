#include "serve/server.h"

#include "serve/arch/arch.h"
#include "serve/metrics.h"
#include "serve/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int fail(const char *what, const char *name, int err)
{
    fprintf(stderr, "%s: %s %s: %s\n", serve_command.name, what, name, strerror(-err));
    return err;
}

static int open_root(struct serve_server *server)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC};
    server->root_fd = gs_sys_openat2(AT_FDCWD, server->options->root, &how);
    return server->root_fd < 0 ? fail("can't serve", server->options->root, server->root_fd) : 0;
}

/* Whether the user that we are now may look up names in the root. */
static int enter_root(struct serve_server *server)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    int fd = gs_sys_openat2(server->root_fd, ".", &how);
    if (fd < 0)
        return fail("can't serve", server->options->root, fd);
    gs_sys_close(fd);
    return 0;
}

static int open_log(struct serve_server *server)
{
    const char *file = server->options->access_log;
    if (!file)
        return 0;
    server->log_fd = serve_access_log_open(file);
    return server->log_fd < 0 ? fail("can't write the access log", file, server->log_fd) : 0;
}

static int parse_addresses(struct serve_server *server)
{
    const struct cli_list *words = &server->options->listen;
    server->addresses = calloc(words->count, sizeof *server->addresses);
    if (!server->addresses)
        return fail("can't start", "listening", -ENOMEM);
    for (; server->address_count < words->count; server->address_count++) {
        const char *problem;
        const char *word = words->items[server->address_count];
        if (serve_address_parse(word, &server->addresses[server->address_count], &problem))
            return cli_fail(&serve_command, "--listen %s %s", word, problem);
    }
    return 0;
}

static int listen_all(struct serve_server *server)
{
    size_t count = (size_t)server->door_count * server->address_count;
    server->listeners = calloc(count, sizeof *server->listeners);
    if (!server->listeners)
        return fail("can't start", "listening", -ENOMEM);
    for (size_t i = 0; i < count; i++)
        server->listeners[i] = -1;
    for (size_t i = 0; i < count; i++) {
        size_t address = i % server->address_count;
        enum serve_sharing sharing = server->door_count == 1     ? SERVE_ALONE
                                     : i < server->address_count ? SERVE_FIRST
                                                                 : SERVE_JOIN;
        server->listeners[i] = serve_listen(&server->addresses[address], server->options, sharing);
        if (server->listeners[i] < 0)
            return fail("can't listen at", server->options->listen.items[address],
                        server->listeners[i]);
    }
    return 0;
}

/* Of what processes share. */
static size_t shared_size(const struct serve_server *server)
{
    return server->workers * sizeof *server->counts + sizeof *server->log_state;
}

static int map_counts(struct serve_server *server)
{
    void *memory =
        mmap(NULL, shared_size(server), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fail("can't start", "counting", -ENOMEM);
    server->counts = memory;
    server->log_state = (void *)(server->counts + server->workers);
    return 0;
}

static int add_makers(struct serve_server *server)
{
    const struct serve_options *options = server->options;
    if (options->metrics)
        server->makers[server->maker_count++] = serve_metrics_maker(server, options->metrics + 1);
    if (!options->bottleneck.path[0])
        return 0;
    int err = serve_bottleneck_open(&server->bottleneck);
    if (err)
        return fail("can't make", options->bottleneck.path, err);
    server->makers[server->maker_count++] = serve_bottleneck_maker(&server->bottleneck);
    return 0;
}

int serve_server_init(struct serve_server *server, const struct serve_options *options)
{
    *server = (struct serve_server){
        .options = options,
        .workers = (unsigned)options->workers,
        .door_count = options->arch->is_one_door ? 1 : (unsigned)options->workers,
        .root_fd = -1,
        .log_fd = -1,
        .bottleneck = options->bottleneck,
        .pid = getpid(),
    };
    int err = parse_addresses(server);
    if (!err)
        err = open_root(server);
    if (!err)
        err = open_log(server);
    if (!err)
        err = map_counts(server);
    if (!err)
        err = add_makers(server);
    if (!err)
        err = listen_all(server);
    if (!err && options->user)
        err = serve_become(options->user);
    if (!err)
        err = enter_root(server);
    if (err)
        serve_server_done(server);
    return err;
}

void serve_stop_listening(struct serve_server *server, unsigned door)
{
    int *listeners = server->listeners + (size_t)door * server->address_count;
    for (unsigned i = 0; i < server->address_count; i++) {
        if (listeners[i] >= 0)
            gs_sys_close(listeners[i]);
        listeners[i] = -1;
    }
}

void serve_server_done(struct serve_server *server)
{
    for (unsigned i = 0; server->listeners && i < server->door_count; i++)
        serve_stop_listening(server, i);
    free(server->listeners);
    free(server->addresses);
    if (server->bottleneck.path[0] && server->bottleneck.fd >= 0)
        gs_sys_close(server->bottleneck.fd);
    if (server->root_fd >= 0)
        gs_sys_close(server->root_fd);
    if (server->log_fd > 2)
        gs_sys_close(server->log_fd);
    if (server->counts)
        munmap(server->counts, shared_size(server));
}
