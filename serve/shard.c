#include "serve/shard.h"

#include "serve/connection.h"
#include "serve/server.h"

/* How old the wall-clock time may be that goes into Date. */
#define WALL_NS (GS_SECOND / 4)

int serve_shard_init(struct serve_shard *shard, const struct serve_server *server, unsigned index,
                     bool is_shared)
{
    struct gs_http_options options = server->options->http;
    shard->wall_until_ns = 0;
    shard->is_shared = is_shared;
    shard->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    shard->log.fd = server->log_fd;
    if (server->log_fd >= 0) {
        options.log = serve_connection_log;
        options.log_data = &shard->log;
    }
    return gs_http_service_new(&options, server->root_fd, &server->counts[index].http,
                               &shard->service);
}

void serve_shard_done(struct serve_shard *shard)
{
    if (!shard->service)
        return;
    serve_log_flush(&shard->log);
    gs_http_service_free(shard->service);
}

void serve_shard_tell_wall(struct serve_shard *shard, uint64_t now_ns)
{
    gs_http_service_set_wall(shard->service, gs_clock_now(), gs_clock_wall());
    shard->wall_until_ns = now_ns + WALL_NS;
}

void serve_shard_flush_log(struct serve_shard *shard)
{
    if (shard->is_shared)
        pthread_mutex_lock(&shard->lock);
    serve_log_flush(&shard->log);
    serve_shard_unlock(shard);
}
