#include "http_client/client.h"
#include "http_client/cookies.h"
#include "http_client/error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Hosts, with the lock ---- */

static struct gs_http_client_host **find(struct gs_http_client *client, const char *key)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *at = key; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    hash ^= hash >> 32;
    struct gs_http_client_host **link = &client->buckets[hash % GS_HTTP_CLIENT_BUCKETS];
    while (*link && strcmp((*link)->key, key))
        link = &(*link)->next;
    return link;
}

static struct gs_http_client_host *new_host(const struct gs_http_client *client, const char *key)
{
    size_t n = strlen(key) + 1;
    struct gs_http_client_host *host = calloc(1, sizeof *host + n);
    if (!host)
        return NULL;
    gs_list_init(&host->idle);
    gs_list_init(&host->shared);
    host->turn.count = 1;
    host->slots.count = client->options.max_host_connections;
    memcpy(host->key, key, n);
    return host;
}

/* Become a user of the host. Returns NULL if there is no memory. */
static struct gs_http_client_host *use_host(struct gs_http_client *client,
                                            const struct gs_http_client_route *route)
{
    char key[sizeof "https://:65535" + sizeof route->url->host];
    bool is_proxy = route->proxy && !route->url->is_https;
    const char *scheme = is_proxy ? "proxy" : route->url->is_https ? "https" : "http";
    if (is_proxy)
        snprintf(key, sizeof key, "%s://%s", scheme, route->proxy->address);
    else
        snprintf(key, sizeof key, "%s://%s:%s", scheme, route->url->host, route->url->port);
    gs_mutex_lock(&client->lock, GS_NEVER);
    struct gs_http_client_host **link = find(client, key);
    if (!*link)
        *link = new_host(client, key);
    struct gs_http_client_host *host = *link;
    if (host)
        host->users++;
    gs_mutex_unlock(&client->lock);
    return host;
}

/* With the lock. */
static void leave_host(struct gs_http_client *client, struct gs_http_client_host *host)
{
    if (--host->users)
        return;
    struct gs_http_client_host **link = find(client, host->key);
    *link = host->next;
    free(host);
}

static void release_host(struct gs_http_client *client, struct gs_http_client_host *host)
{
    gs_mutex_lock(&client->lock, GS_NEVER);
    leave_host(client, host);
    gs_mutex_unlock(&client->lock);
}

/* ---- Idle connections, with the lock ---- */

static struct gs_http_client_connection *in_client(struct gs_list *link)
{
    return gs_container_of(link, struct gs_http_client_connection, in_client);
}

static struct gs_http_client_connection *in_host(struct gs_list *link)
{
    return gs_container_of(link, struct gs_http_client_connection, in_host);
}

static void remove_idle(struct gs_http_client_connection *connection)
{
    assert(gs_list_is_linked(&connection->in_host) && gs_list_is_linked(&connection->in_client));
    gs_list_remove(&connection->in_host);
    gs_list_remove(&connection->in_client);
    connection->host->idle_count--;
    connection->client->idle_count--;
}

/* Its host loses a user, and nothing else refers to the host through it. */
static void retire(struct gs_http_client_connection *connection, struct gs_list *closing)
{
    remove_idle(connection);
    leave_host(connection->client, connection->host);
    gs_list_append(closing, &connection->in_client);
}

static void retire_expired(struct gs_http_client *client, struct gs_list *closing)
{
    uint64_t now_ns = gs_clock_now();
    while (!gs_list_is_empty(&client->idle)) {
        struct gs_http_client_connection *oldest = in_client(client->idle.previous);
        if (gs_clock_after(oldest->idle_since_ns, client->options.idle_timeout_ns) > now_ns)
            return;
        retire(oldest, closing);
    }
}

static void close_all(struct gs_list *closing)
{
    while (!gs_list_is_empty(closing)) {
        struct gs_http_client_connection *connection = in_client(closing->next);
        gs_list_remove(&connection->in_client);
        gs_http_client_connection_free(connection);
    }
}

/* ---- Taking ---- */

/* Returns the newest idle connection of the host, NULL: none. All of them are closed if is_fresh is
 * set: what has happened to one of them has probably happened to the others. */
static struct gs_http_client_connection *take_idle(struct gs_http_client *client,
                                                   struct gs_http_client_host *host, bool is_fresh)
{
    struct gs_http_client_connection *connection = NULL;
    struct gs_list closing;
    gs_list_init(&closing);
    gs_mutex_lock(&client->lock, GS_NEVER);
    retire_expired(client, &closing);
    while (is_fresh && !gs_list_is_empty(&host->idle))
        retire(in_host(host->idle.next), &closing);
    if (!gs_list_is_empty(&host->idle)) {
        connection = in_host(host->idle.next);
        remove_idle(connection);
        host->users--; /* the caller uses it, too */
    }
    gs_mutex_unlock(&client->lock);
    close_all(&closing);
    return connection;
}

/* ---- Shared connections ---- */

/* With the lock. On a new connection the limit is that of the ones before, so that no request is
 * refused twice. */
static bool has_room(struct gs_http_client_host *host,
                     const struct gs_http_client_connection *connection)
{
    unsigned limit = gs_http_client_http2_limit(connection);
    if (limit && gs_http_client_http2_knows_limit(connection))
        host->stream_limit = limit;
    else if (host->stream_limit && limit > host->stream_limit)
        limit = host->stream_limit;
    return connection->streams < limit;
}

/* Returns a connection on which another stream may be opened, NULL: none. */
static struct gs_http_client_connection *take_shared(struct gs_http_client *client,
                                                     struct gs_http_client_host *host)
{
    struct gs_http_client_connection *found = NULL;
    gs_mutex_lock(&client->lock, GS_NEVER);
    GS_LIST_FOREACH (link, &host->shared) {
        struct gs_http_client_connection *connection =
            gs_container_of(link, struct gs_http_client_connection, in_shared);
        if (!found && has_room(host, connection))
            found = connection;
    }
    if (found)
        found->streams++;
    gs_mutex_unlock(&client->lock);
    return found;
}

/* Share a connection, for whose first stream the caller is. */
static void share(struct gs_http_client *client, struct gs_http_client_connection *connection)
{
    gs_mutex_lock(&client->lock, GS_NEVER);
    connection->streams = 1;
    gs_list_append(&connection->host->shared, &connection->in_shared);
    gs_mutex_unlock(&client->lock);
}

static void set_dials_freely(struct gs_http_client *client, struct gs_http_client_host *host,
                             bool dials_freely)
{
    gs_mutex_lock(&client->lock, GS_NEVER);
    host->dials_freely = dials_freely;
    gs_mutex_unlock(&client->lock);
}

static bool dials_freely(struct gs_http_client *client, const struct gs_http_client_route *route,
                         const struct gs_http_client_host *host)
{
    if (!gs_http_client_may_speak_http2(client, route))
        return true;
    gs_mutex_lock(&client->lock, GS_NEVER);
    bool result = host->dials_freely;
    gs_mutex_unlock(&client->lock);
    return result;
}

/* ---- Taking any connection ---- */

static struct gs_http_client_connection *take_kept(struct gs_http_client *client,
                                                   struct gs_http_client_host *host, bool is_fresh)
{
    struct gs_http_client_connection *connection = take_shared(client, host);
    if (connection)
        return connection;
    while ((connection = take_idle(client, host, is_fresh))) {
        if (gs_http_client_is_alive(connection)) {
            if (connection->http2)
                share(client, connection);
            else
                connection->stream.is_reused = true;
            return connection;
        }
        gs_http_client_connection_free(connection);
    }
    return NULL;
}

static int dial(struct gs_http_client *client, const struct gs_http_client_route *route,
                struct gs_http_client_host *host, uint64_t deadline_ns,
                struct gs_http_client_connection **ret_connection)
{
    int err = gs_http_client_dial(client, route, host, deadline_ns, ret_connection);
    if (gs_http_client_may_speak_http2(client, route))
        set_dials_freely(client, host, err || !(*ret_connection)->http2);
    if (err)
        return err;
    if ((*ret_connection)->http2)
        share(client, *ret_connection);
    return 0;
}

/* Where connections may be shared, one thread at a time dials, or has an idle one shared: those
 * that have waited meanwhile find room on that, or else learn that it is one of HTTP/1. */
static int take(struct gs_http_client *client, const struct gs_http_client_route *route,
                struct gs_http_client_host *host, uint64_t deadline_ns,
                struct gs_http_client_connection **ret_connection)
{
    bool is_free = dials_freely(client, route, host);
    *ret_connection =
        is_free ? take_kept(client, host, route->is_fresh) : take_shared(client, host);
    if (*ret_connection)
        return 0;
    if (is_free)
        return dial(client, route, host, deadline_ns, ret_connection);
    int err = gs_semaphore_wait(&host->turn, deadline_ns);
    if (err)
        return gs_http_client_fail(err, "no connection to %s: %s", host->key, gs_strerror(err));
    *ret_connection = take_kept(client, host, route->is_fresh);
    if (*ret_connection) {
        gs_semaphore_post(&host->turn);
        return 0;
    }
    bool is_alone = !dials_freely(client, route, host);
    if (!is_alone)
        gs_semaphore_post(&host->turn);
    err = dial(client, route, host, deadline_ns, ret_connection);
    if (is_alone)
        gs_semaphore_post(&host->turn);
    return err;
}

int gs_http_client_pool_take(struct gs_http_client *client,
                             const struct gs_http_client_route *route, uint64_t deadline_ns,
                             struct gs_http_client_stream **ret_stream)
{
    struct gs_http_client_host *host = use_host(client, route);
    struct gs_http_client_connection *connection;
    unsigned max = client->options.max_host_connections;
    if (!host)
        return -ENOMEM;
    int err = max ? gs_semaphore_wait(&host->slots, deadline_ns) : 0;
    if (err) {
        gs_http_client_fail(err, "no connection to %s has become free, of %u: %s", host->key, max,
                            gs_strerror(err));
        goto release_host;
    }
    err = take(client, route, host, deadline_ns, &connection);
    if (err)
        goto release_slot;
    if (!connection->http2) {
        *ret_stream = &connection->stream;
        return 0;
    }
    err = gs_http_client_http2_open(connection, ret_stream);
    if (err)
        gs_http_client_pool_leave(connection);
    return err;

release_slot:
    if (max)
        gs_semaphore_post(&host->slots);
release_host:
    release_host(client, host);
    return err;
}

/* ---- Giving back ---- */

static void keep(struct gs_http_client_connection *connection, struct gs_list *closing)
{
    struct gs_http_client *client = connection->client;
    struct gs_http_client_host *host = connection->host;
    connection->idle_since_ns = gs_clock_now();
    host->users++; /* the caller still uses it */
    gs_list_prepend(&host->idle, &connection->in_host);
    gs_list_prepend(&client->idle, &connection->in_client);
    host->idle_count++;
    client->idle_count++;
    if (host->idle_count > client->options.max_host_idle)
        retire(in_host(host->idle.previous), closing);
    if (client->idle_count > client->options.max_idle)
        retire(in_client(client->idle.previous), closing);
}

/* Unlock, and give up the caller's slot and use of the host. */
static void end_use(struct gs_http_client *client, struct gs_http_client_host *host,
                    struct gs_list *closing)
{
    gs_mutex_unlock(&client->lock);
    close_all(closing);
    if (client->options.max_host_connections)
        gs_semaphore_post(&host->slots);
    release_host(client, host);
}

void gs_http_client_pool_give(struct gs_http_client_connection *connection, bool is_reusable)
{
    struct gs_http_client *client = connection->client;
    struct gs_http_client_host *host = connection->host;
    struct gs_list closing;
    gs_list_init(&closing);
    if (!is_reusable)
        gs_http_client_connection_free(connection);
    gs_mutex_lock(&client->lock, GS_NEVER);
    retire_expired(client, &closing);
    if (is_reusable)
        keep(connection, &closing);
    end_use(client, host, &closing);
}

void gs_http_client_pool_leave(struct gs_http_client_connection *connection)
{
    struct gs_http_client *client = connection->client;
    struct gs_http_client_host *host = connection->host;
    struct gs_list closing;
    gs_list_init(&closing);
    gs_mutex_lock(&client->lock, GS_NEVER);
    retire_expired(client, &closing);
    if (!--connection->streams) {
        gs_list_remove(&connection->in_shared);
        if (gs_http_client_http2_is_over(connection))
            gs_list_append(&closing, &connection->in_client);
        else
            keep(connection, &closing);
    }
    end_use(client, host, &closing);
}

/* ---- The client ---- */

static void set_defaults(struct gs_http_client_options *options)
{
    if (!options->max_host_idle)
        options->max_host_idle = 100;
    if (!options->max_idle)
        options->max_idle = 1000;
    if (!options->idle_timeout_ns)
        options->idle_timeout_ns = 60 * GS_SECOND;
    if (!options->connect_timeout_ns)
        options->connect_timeout_ns = GS_NEVER;
    if (!options->max_redirects)
        options->max_redirects = 10;
    if (!options->max_decoded)
        options->max_decoded = 256u << 20;
}

int gs_http_client_new(const struct gs_http_client_options *options,
                       struct gs_http_client **ret_client)
{
    struct gs_http_client *client = calloc(1, sizeof *client);
    if (!client)
        return -ENOMEM;
    if (options)
        client->options = *options;
    set_defaults(&client->options);
    gs_list_init(&client->idle);
    int err = gs_http_client_error_init();
    if (!err && !client->options.ignores_proxies)
        err = gs_http_client_proxies_init(&client->proxies);
    if (!err && client->options.max_cookies)
        err = gs_http_client_cookies_new(client->options.max_cookies, &client->cookies);
    if (err) {
        gs_http_client_free(client);
        return err;
    }
    *ret_client = client;
    return 0;
}

void gs_http_client_free(struct gs_http_client *client)
{
    struct gs_list closing;
    if (!client)
        return;
    gs_list_init(&closing);
    while (!gs_list_is_empty(&client->idle))
        retire(in_client(client->idle.next), &closing);
    close_all(&closing);
    gs_http_client_proxies_done(&client->proxies);
    gs_http_client_cookies_free(client->cookies);
    free(client);
}
