#include "serve/connection/shard.h"

#include "http2/http2.h"

#include "serve/connection/connection.h"
#include "serve/connection/descriptors.h"
#include "serve/connection/expiry.h"
#include "serve/operations/server.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>

/* How old the wall-clock time of the Date field may be, and what is known of a single root. */
#define REFRESH_INTERVAL_NS (GS_SECOND / 4)
#define REFRESHES_OF_ROOTS 4

static int init(struct serve_shard *shard, struct serve_server *server,
                struct gs_http_counts *counts)
{
    struct gs_http_options options = server->options->http;
    shard->refresh_ns = 0;
    shard->on_cached = NULL;
    shard->is_expiring = false;
    shard->roots = server->sites.roots;
    shard->root_count = server->sites.root_count;
    shard->next_root = 0;
    options.sites = server->sites.items;
    options.site_count = server->sites.count;
    shard->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    shard->drain = server->drain;
    shard->certificates = &server->certificates;
    shard->refusals = server->log_state ? &server->log_state->refusals : NULL;
    shard->log.fd = server->log_fd;
    shard->log.is_relayed = server->log_relay.is_relaying;
    shard->log.format = server->options->log_format;
    shard->log.losses = server->log_state ? &server->log_state->losses : NULL;
    options.fields = *server->fields ? server->fields : NULL;
    options.redirect_port = serve_tls_port(server);
    shard->redirects = server->options->redirects;
    shard->proxies = server->options->proxies.count ? &server->options->proxies : NULL;
    options.forwarded = serve_forwarded_field(&server->options->forwarded);
    shard->forwarded = options.forwarded ? &server->options->forwarded : NULL;
    options.file_state = shard->is_shared ? NULL : gs_sys_fstat;
    options.may_open_more = serve_descriptors_are_ample;
    options.guards = &server->guard;
    options.guard_count = server->users != NULL;
    options.compressor = serve_compressor_http(server->compressor);
    unsigned hidden = server->options->metrics_listen ? 1 : 0; /* the metrics come first */
    options.generators = server->generators + hidden;
    options.generator_count = server->generator_count - hidden;
    if (server->log_fd >= 0) {
        options.log = serve_connection_log;
        options.log_data = &shard->log;
        options.logs_host = shard->log.format.member_count > 0;
    }
    if (serve_error_log_level() >= SERVE_LOG_INFO) {
        options.refused = serve_refusals_report;
        options.refused_data = &server->log_state->refusals;
    }
    int err = gs_http_service_new(&options, server->sites.roots->fd, counts, &shard->service);
    if (!err)
        gs_http_service_set_http2(shard->service, gs_http2_operations());
    return err;
}

int serve_shard_init(struct serve_shard *shard, struct serve_server *server, unsigned index,
                     bool is_shared)
{
    shard->is_shared = is_shared;
    shard->log_server = NULL;
    shard->sum = NULL;
    for (unsigned i = 0; i < 2; i++)
        shard->handshakes[i] = (struct gs_semaphore){.count = 1};
    return init(shard, server, &server->counts[index].http);
}

int serve_shard_init_own(struct serve_shard *shard, struct serve_server *server, unsigned index)
{
    shard->is_shared = false;
    shard->log_server = server;
    serve_log_relay_leave(&server->log_relay);
    shard->own = (struct gs_http_counts){0};
    shard->sum = &server->counts[index].http;
    return init(shard, server, &shard->own);
}

void serve_shard_done(struct serve_shard *shard)
{
    if (!shard->service)
        return;
    serve_log_finish(&shard->log);
    gs_http_service_free(shard->service);
}

/* A part of them, so that each has been looked at after this many calls. */
static void refresh_roots(struct serve_shard *shard)
{
    unsigned count = (shard->root_count + REFRESHES_OF_ROOTS - 1) / REFRESHES_OF_ROOTS;
    for (unsigned i = 0; i < count; i++) {
        serve_root_refresh(&shard->roots[shard->next_root]);
        shard->next_root = (shard->next_root + 1) % shard->root_count;
    }
}

void serve_shard_refresh(struct serve_shard *shard, uint64_t now_ns)
{
    refresh_roots(shard);
    gs_http_service_set_wall_clock(shard->service, gs_clock_now(), gs_clock_wall());
    shard->refresh_ns = now_ns + REFRESH_INTERVAL_NS;
}

void serve_shard_note_cached(struct serve_shard *shard)
{
    if (shard->is_expiring || !shard->on_cached ||
        gs_http_service_deadline(shard->service) == GS_NEVER)
        return;
    shard->is_expiring = true;
    shard->on_cached(shard->cached_data);
}

void serve_shard_watch_cache(struct serve_shard *shard, void (*on_cached)(void *data), void *data)
{
    serve_shard_lock(shard);
    shard->on_cached = on_cached;
    shard->cached_data = data;
    shard->is_expiring = false;
    serve_shard_note_cached(shard);
    serve_shard_unlock(shard);
}

uint64_t serve_shard_expire(struct serve_shard *shard, uint64_t now_ns)
{
    serve_shard_lock(shard);
    gs_http_service_expire(shard->service, now_ns);
    uint64_t next_ns = gs_http_service_deadline(shard->service);
    shard->is_expiring = next_ns != GS_NEVER;
    serve_shard_unlock(shard);
    return next_ns;
}

uint64_t serve_shard_tend(struct serve_shard *shard, uint64_t now_ns)
{
    return shard && shard->sum ? serve_shard_expire(shard, now_ns) : GS_NEVER;
}

bool serve_shard_flush_log(struct serve_shard *shard)
{
    serve_shard_lock(shard);
    bool is_empty = serve_log_flush(&shard->log);
    serve_shard_unlock(shard);
    return is_empty;
}

/* All members of struct gs_http_counts are 64-bit numbers. */
static void publish_counts(struct serve_shard *shard)
{
    uint64_t *own = (uint64_t *)&shard->own, *sum = (uint64_t *)shard->sum;
    for (size_t i = 0; i < sizeof shard->own / sizeof *own; i++)
        if (own[i])
            __atomic_fetch_add(&sum[i], own[i], __ATOMIC_RELAXED);
    shard->own = (struct gs_http_counts){0};
}

void serve_shard_flush(struct serve_shard *shard)
{
    if (shard->log_server)
        serve_reopen_log(shard->log_server);
    if (shard->log.fd >= 0)
        serve_shard_flush_log(shard);
    if (shard->sum)
        publish_counts(shard);
}

int serve_shards_init(struct serve_shards *shards, struct serve_server *server)
{
    uint64_t processors = serve_processors();
    unsigned count = server->workers < processors ? server->workers : (unsigned)processors;
    shards->items = calloc(count, sizeof *shards->items);
    shards->expiries = calloc(count, sizeof *shards->expiries);
    int err = shards->items && shards->expiries ? 0 : -ENOMEM;
    for (; !err && shards->count < count; shards->count++) {
        struct serve_shard *shard = &shards->items[shards->count];
        err = serve_shard_init(shard, server, shards->count, true);
        if (!err)
            serve_expiry_by_main(&shards->expiries[shards->count], shard, server);
    }
    return err;
}

void serve_shards_done(struct serve_shards *shards)
{
    for (unsigned i = 0; i < shards->count; i++)
        serve_shard_done(&shards->items[i]);
    free(shards->items);
    free(shards->expiries);
}
