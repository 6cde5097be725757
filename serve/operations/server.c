#include "serve/operations/server.h"

#include "serve/connection/descriptors.h"

#include "serve/arch/arch.h"
#include "serve/operations/health.h"
#include "serve/operations/listening.h"
#include "serve/operations/metrics.h"
#include "serve/operations/privileges.h"
#include "serve/operations/sandbox.h"
#include "serve/operations/users.h"

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

static int open_log(struct serve_server *server)
{
    const char *file = server->options->access_log;
    if (!file)
        return 0;
    server->log_fd = serve_access_log_open(file);
    if (server->log_fd < 0)
        return fail("can't write the access log", file, server->log_fd);
    serve_log_relay_open(&server->log_relay, file, &server->log_fd);
    return 0;
}

/* After the privileges were dropped: those of the thread, too. */
static int start_log_relay(struct serve_server *server)
{
    int err = serve_log_relay_start(&server->log_relay, &server->log_state->losses);
    return err ? fail("can't start", "a thread for the access log", err) : 0;
}

/* The same. */
static int start_compressor(struct serve_server *server)
{
    const struct serve_options *options = server->options;
    int err = options->compressed
                  ? serve_compressor_start(options->compressed, options->http.max_cache,
                                           &server->compressor)
                  : 0;
    return err ? fail("can't start", "a thread for compression", err) : 0;
}

static int open_metrics_listener(struct serve_server *server)
{
    const char *word = server->options->metrics_listen;
    int err =
        serve_metrics_listener_open(&server->metrics_listener, server->options, &server->inherited);
    return err && err != -EINVAL ? fail("can't listen at", word, err) : err;
}

/* The memory that processes share. */
static size_t shared_size(const struct serve_server *server)
{
    return server->workers * sizeof *server->counts + sizeof *server->log_state +
           sizeof *server->drain + sizeof *server->evictions + sizeof(struct serve_tls_counts);
}

static int map_counts(struct serve_server *server)
{
    void *memory =
        mmap(NULL, shared_size(server), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fail("can't start", "counting", -ENOMEM);
    server->counts = memory;
    server->log_state = (void *)(server->counts + server->workers);
    server->drain = (void *)(server->log_state + 1);
    server->evictions = (void *)(server->drain + 1);
    return 0;
}

static int open_certificates(struct serve_server *server)
{
    void *counts = server->evictions + 1;
    return server->options->certificates.count
               ? serve_certificates_open(&server->certificates, server->options, counts)
               : 0;
}

uint16_t serve_tls_port(const struct serve_server *server)
{
    for (unsigned i = 0; i < server->address_count; i++)
        if (server->addresses[i].is_tls)
            return serve_address_port(&server->addresses[i]);
    return 0;
}

static int add_generators(struct serve_server *server)
{
    const struct serve_options *options = server->options;
    if (options->metrics)
        server->generators[server->generator_count++] =
            serve_metrics_generator(server, options->metrics + 1);
    if (options->health)
        server->generators[server->generator_count++] = serve_health_generator(options->health + 1);
    if (!options->bottleneck.path[0])
        return 0;
    int err = serve_bottleneck_open(&server->bottleneck);
    if (err)
        return fail("can't generate", options->bottleneck.path, err);
    server->generators[server->generator_count++] = serve_bottleneck_generator(&server->bottleneck);
    return 0;
}

static int open_users(struct serve_server *server)
{
    const struct serve_options *options = server->options;
    int err = options->users ? serve_users_open(options->users, &server->users) : 0;
    server->guard = (struct gs_http_guard){.pattern = "**",
                                           .realm = "users",
                                           .users = server->users,
                                           .allows_plain = options->users_without_tls};
    for (unsigned i = 0; i < server->sites.count; i++) {
        server->sites.items[i].guards = &server->guard;
        server->sites.items[i].guard_count = server->users != NULL;
    }
    return err;
}

/* All is open: give up what serving does not need, and start the threads beside the workers. */
static int confine(struct serve_server *server)
{
    int err = serve_drop_privileges(server->options->user, server->options->group);
    if (!err)
        err = serve_sites_check_access(&server->sites);
    if (!err)
        err = serve_sandbox_enter(server);
    if (!err)
        err = start_log_relay(server);
    if (!err)
        err = start_compressor(server);
    return err;
}

int serve_server_init(struct serve_server *server, const struct serve_options *options)
{
    *server = (struct serve_server){
        .options = options,
        .workers = (unsigned)options->workers,
        .set_count = options->arch->has_single_listener ? 1 : (unsigned)options->workers,
        .proc_fd = -1,
        .log_fd = -1,
        .bottleneck = options->bottleneck,
        .pid = getpid(),
    };
    if (options->hsts_ns)
        snprintf(server->fields, sizeof server->fields,
                 "Strict-Transport-Security: max-age=%llu\r\n",
                 (unsigned long long)(options->hsts_ns / GS_SECOND));
    serve_descriptors_limit(options->max_descriptors);
    server->metrics_listener.fd = -1;
    int err = serve_generation_open(&server->generation);
    serve_notify_open(&server->notify, server->generation.control_fd);
    if (!err)
        err = serve_listening_init(server);
    if (!err)
        err = serve_sites_init(&server->sites, options);
    if (!err)
        err = serve_sites_open(&server->sites);
    if (!err)
        err = open_log(server);
    if (!err)
        err = map_counts(server);
    if (!err)
        err = open_certificates(server);
    if (!err)
        err = open_users(server);
    if (!err)
        err = add_generators(server);
    if (!err)
        err = serve_listening_start(server);
    if (!err && options->redirects)
        serve_sites_redirect(&server->sites, serve_tls_port(server));
    if (!err)
        err = open_metrics_listener(server);
    if (!err)
        err = confine(server);
    if (err)
        serve_server_done(server);
    return err;
}

void serve_server_done(struct serve_server *server)
{
    if (server->drain && atomic_load(&server->drain->hands_over))
        server->metrics_listener.address.file_fd = -1; /* the file is the next generation's */
    serve_listening_done(server);
    serve_metrics_listener_close(&server->metrics_listener);
    if (server->bottleneck.path[0] && server->bottleneck.fd >= 0)
        gs_sys_close(server->bottleneck.fd);
    serve_compressor_stop(server->compressor);
    serve_certificates_close(&server->certificates);
    gs_http_users_free(server->users);
    serve_sites_done(&server->sites);
    if (server->proc_fd >= 0)
        gs_sys_close(server->proc_fd);
    (void)serve_log_relay_stop(&server->log_relay);
    serve_notify_close(&server->notify);
    serve_generation_close(&server->generation);
    if (server->log_fd > 2)
        gs_sys_close(server->log_fd);
    if (server->counts)
        munmap(server->counts, shared_size(server));
}
