#include "serve/connection/connection.h"

#include "http/conn.h"
#include "http/output.h"

#include "serve/accept/listener.h"
#include "serve/connection/descriptors.h"
#include "serve/connection/file_send.h"
#include "serve/connection/proxy.h"
#include "serve/connection/tls.h"
#include "serve/log/error_log.h"
#include "serve/operations/watchdog.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

/* At most so much is sent by one call, so that other connections get their turn. */
#define FILE_CHUNK (1u << 20)

/* For a peer that has not shown yet that it reads: the bytes of a file that the kernel takes
 * beyond what is in flight, and the size of the first chunk. A slow reader has a small window,
 * for which the kernel cuts what it takes into many small packets: these are most of the cost of
 * such a peer. */
#define UNPROVEN_UNSENT_MAX (4 << 10)
#define UNPROVEN_CHUNK (16u << 10)

/* NEW --> UNPROVEN ---------------------------> PROVEN     took a whole chunk
 *             `------> BLOCKED ---------------->           made room again */
enum { NEW, UNPROVEN, BLOCKED, PROVEN };

union peer {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static void set_peer(struct serve_connection *connection, const struct sockaddr *address)
{
    connection->family = (uint8_t)address->sa_family;
    if (address->sa_family == AF_INET6)
        memcpy(connection->host, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
    else if (address->sa_family == AF_INET)
        memcpy(connection->host, &((const struct sockaddr_in *)address)->sin_addr, 4);
}

/* Ask the kernel. A peer that is gone, or has no address, counts as one of a Unix socket. */
static void find_peer(struct serve_connection *connection)
{
    union peer peer;
    socklen_t length = sizeof peer;
    bool is_known = !gs_sys_getpeername(connection->fd, &peer.any, &length);
    peer.any.sa_family = is_known ? peer.any.sa_family : AF_UNIX;
    set_peer(connection, &peer.any);
}

static union peer get_peer(const struct serve_connection *connection)
{
    union peer peer = {.any.sa_family = connection->family};
    if (connection->family == AF_INET6)
        memcpy(&peer.six.sin6_addr, connection->host, 16);
    else if (connection->family == AF_INET)
        memcpy(&peer.four.sin_addr, connection->host, 4);
    return peer;
}

/* If it comes from a proxy, that is to name the client. Not inlined, since few servers have any. */
static __attribute__((noinline)) void expect_proxy(struct serve_connection *connection)
{
    if (connection->family == AF_UNSPEC)
        find_peer(connection);
    union peer peer = get_peer(connection);
    struct serve_host host = serve_host_of(&peer.any);
    connection->awaits_proxy = serve_networks_have(connection->shard->proxies, &host);
    if (!connection->awaits_proxy)
        return;
    connection->family = AF_UNSPEC;
    connection->proxy = NULL;
}

void serve_connection_set_client(struct serve_connection *connection,
                                 const struct serve_host *client)
{
    connection->family = client->family;
    memcpy(connection->host, client->bytes, sizeof connection->host);
    if (client->family == AF_UNSPEC)
        find_peer(connection);
}

void serve_connection_init(struct serve_connection *connection,
                           const struct serve_accepted *accepted, struct serve_shard *shard,
                           uint64_t now_ns)
{
    serve_shard_enter(shard, now_ns);
    gs_http_conn_init(&connection->http, shard->service, now_ns);
    if (shard->redirects && !accepted->is_tls)
        gs_http_conn_redirect(&connection->http);
    serve_shard_leave(shard);
    connection->shard = shard;
    connection->tls = NULL;
    connection->fd = accepted->fd;
    connection->is_tls = accepted->is_tls;
    connection->family = AF_UNSPEC;
    connection->pace = NEW;
    connection->is_shut_down = connection->has_answered = false;
    connection->awaits_proxy = false;
    if (accepted->has_address)
        set_peer(connection, (const struct sockaddr *)&accepted->address);
    if (shard->proxies)
        expect_proxy(connection);
}

/* An answer is in progress unless the connection waits for a request, or closes. */
static void count_cut_off(const struct serve_connection *connection)
{
    struct serve_drain *drain = connection->shard->drain;
    unsigned wants = gs_http_conn_wants(&connection->http);
    bool is_answering = !wants || wants & (GS_HTTP_WRITE | GS_HTTP_LOAD);
    if (drain && is_answering && atomic_load(&drain->is_draining))
        atomic_fetch_add(&drain->cut_off, 1);
}

void serve_connection_cut_off(struct serve_connection *connection)
{
    count_cut_off(connection);
    gs_http_conn_abort(&connection->http);
}

void serve_connection_done(struct serve_connection *connection)
{
    count_cut_off(connection);
    if (connection->tls)
        serve_tls_end(connection);
    serve_shard_lock(connection->shard);
    gs_http_conn_done(&connection->http);
    serve_shard_unlock(connection->shard);
    serve_tls_free(connection->tls);
    if (connection->awaits_proxy)
        serve_proxy_done(connection);
    gs_sys_close(connection->fd);
    serve_descriptors_closed(connection->has_answered);
}

/* ---- Receiving ---- */

void serve_connection_pass(struct serve_connection *connection, const char *bytes, ssize_t n,
                           uint64_t now_ns)
{
    serve_shard_enter(connection->shard, now_ns);
    if (n > 0)
        gs_http_conn_receive(&connection->http, bytes, (size_t)n, now_ns);
    else if (n == 0)
        gs_http_conn_receive_eof(&connection->http, now_ns);
    else
        gs_http_conn_abort(&connection->http);
    serve_shard_leave(connection->shard);
}

void serve_connection_received(struct serve_connection *connection, const char *bytes, ssize_t n,
                               uint64_t now_ns)
{
    if (connection->awaits_proxy)
        serve_proxy_received(connection, bytes, n, now_ns);
    else if (connection->is_tls)
        serve_tls_received(connection, bytes, n, now_ns);
    else
        serve_connection_pass(connection, bytes, n, now_ns);
}

ssize_t serve_connection_receive(struct serve_connection *connection, char *buffer, size_t size,
                                 uint64_t now_ns)
{
    ssize_t n;
    do
        n = gs_sys_recv(connection->fd, buffer, size, 0);
    while (n == -EINTR);
    if (n != -EAGAIN)
        serve_connection_received(connection, buffer, n, now_ns);
    return n > 0 || n == -EAGAIN ? n : 0;
}

/* ---- Sending ---- */

static void bound_unsent(struct serve_connection *connection, int most, uint8_t pace)
{
    connection->pace = pace;
    gs_sys_setsockopt(connection->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
}

static size_t file_chunk(const struct serve_connection *connection)
{
    return connection->pace == PROVEN ? FILE_CHUNK : UNPROVEN_CHUNK;
}

static void start_file(struct serve_connection *connection, const struct gs_http_piece *piece,
                       struct serve_output *output)
{
    if (connection->pace == NEW)
        bound_unsent(connection, UNPROVEN_UNSENT_MAX, UNPROVEN);
    else if (connection->pace == BLOCKED)
        bound_unsent(connection, SERVE_UNSENT_MAX, PROVEN);
    output->is_file = true;
    output->fd = piece->fd;
    output->page = piece->page;
    output->offset = (off_t)piece->offset;
    output->n = 0;
}

static void put_piece(struct serve_connection *connection, const struct gs_http_piece *piece,
                      struct serve_output *output)
{
    size_t n = (size_t)piece->n;
    if (!piece->bytes) {
        if (!output->is_file)
            start_file(connection, piece, output);
        size_t most = file_chunk(connection) - output->n;
        n = piece->n < most ? n : most;
        output->n += n;
    }
    output->parts[output->count++] = (struct iovec){(void *)piece->bytes, n};
}

static size_t size_of(const struct serve_output *output)
{
    size_t n = 0;
    for (unsigned i = 0; i < output->count; i++)
        n += output->parts[i].iov_len;
    return n;
}

static bool continues_file(const struct serve_output *output, const struct gs_http_piece *piece)
{
    return piece->page == output->page && piece->offset == (uint64_t)output->offset + output->n;
}

/* Whether the piece, which follows, can be sent with it. Of a file that has its whole chunk, the
 * last part may be cut. */
static bool fits(const struct serve_connection *connection, const struct serve_output *output,
                 const struct gs_http_piece *piece)
{
    if (!output->count)
        return true;
    if (!output->tls)
        return piece->bytes && !output->is_file;
    if (output->is_file && output->n == file_chunk(connection))
        return false;
    return piece->bytes || (output->is_file ? continues_file(output, piece)
                                            : size_of(output) < SERVE_FILE_COPY_SIZE);
}

/* Not inlined, so that a connection without TLS pays nothing for it. */
static __attribute__((noinline)) bool has_file(const struct serve_connection *connection)
{
    const struct gs_http_output *output = connection->http.output;
    if (serve_tls_has_unsent(connection->tls))
        return false;
    for (uint32_t i = output->first; i < output->count && i - output->first < SERVE_PARTS; i++)
        if (!output->segments[i].piece.bytes)
            return true;
    return false;
}

bool serve_connection_sends_file(const struct serve_connection *connection)
{
    const struct gs_http_output *output = connection->http.output;
    if (!output || output->first == output->count)
        return false;
    return connection->tls ? has_file(connection) : !output->segments[output->first].piece.bytes;
}

void serve_connection_output(struct serve_connection *connection, struct serve_output *ret_output)
{
    struct gs_http_piece pieces[SERVE_PARTS];
    unsigned count = gs_http_conn_output(&connection->http, pieces, SERVE_PARTS), i = 0;
    if (connection->tls && serve_tls_lend(connection->tls))
        count = 0;
    ret_output->tls = connection->tls;
    ret_output->last_bytes = gs_http_conn_last_bytes(&connection->http);
    ret_output->is_file = false;
    ret_output->count = 0;
    while (i < count && fits(connection, ret_output, &pieces[i]))
        put_piece(connection, &pieces[i++], ret_output);
    ret_output->flags = i < count ? MSG_MORE : 0;
}

static void judge_pace(struct serve_connection *connection, const struct serve_output *output,
                       ssize_t n)
{
    if (connection->pace != UNPROVEN || !(output->is_file || output->tls))
        return;
    if (n == -EAGAIN)
        connection->pace = BLOCKED;
    else if (n >= (ssize_t)UNPROVEN_CHUNK)
        bound_unsent(connection, SERVE_UNSENT_MAX, PROVEN);
}

static void note_sent(struct serve_connection *connection, ssize_t n, uint64_t now_ns)
{
    if (!connection->has_answered) {
        connection->has_answered = true;
        serve_descriptors_answered();
    }
    if (n > 0) {
        serve_shard_enter(connection->shard, now_ns);
        gs_http_conn_sent(&connection->http, (uint64_t)n, now_ns);
        serve_shard_leave(connection->shard);
    } else if (n != -EAGAIN && !serve_is_nomem(n)) {
        gs_http_conn_abort(&connection->http); /* the peer has closed */
    }
}

/* 0: the file is shorter than announced. */
static void break_off(struct serve_connection *connection, const struct serve_output *output,
                      ssize_t n, uint64_t now_ns)
{
    struct serve_shard *shard = connection->shard;
    const struct gs_http_page *page = output->page;
    serve_transfer_failed(shard->refusals, page->path.bytes, page->path.n,
                          n ? (int)n : SERVE_FILE_CHANGED);
    serve_shard_enter(shard, now_ns);
    gs_http_conn_break_off(&connection->http);
    serve_shard_leave(shard);
}

static void note_result(struct serve_connection *connection, const struct serve_output *output,
                        ssize_t n, uint64_t now_ns)
{
    judge_pace(connection, output, n);
    if (output->is_file && serve_file_has_failed(n))
        break_off(connection, output, n, now_ns);
    else
        note_sent(connection, n, now_ns);
}

void serve_connection_sent(struct serve_connection *connection, const struct serve_output *output,
                           ssize_t n, uint64_t now_ns)
{
    if (!connection->tls) {
        note_result(connection, output, n, now_ns);
        return;
    }
    size_t of_http = serve_tls_sent(connection->tls);
    if (n <= 0 || of_http)
        note_result(connection, output, n <= 0 ? n : (ssize_t)of_http, now_ns);
    serve_tls_resume(connection, now_ns);
}

static ssize_t send_once(int fd, struct serve_output *output)
{
    if (output->is_file && !(output->tls && serve_tls_has_unsent(output->tls)))
        return serve_file_send(output, fd);
    if (output->tls)
        return serve_tls_send(output->tls, output, fd);
    if (output->count == 1)
        return gs_sys_send(fd, output->parts[0].iov_base, output->parts[0].iov_len, output->flags);
    struct msghdr message = {.msg_iov = output->parts, .msg_iovlen = output->count};
    return gs_sys_sendmsg(fd, &message, output->flags);
}

ssize_t serve_output_send(struct serve_output *output, int fd)
{
    ssize_t n;
    do
        n = send_once(fd, output);
    while (n == -EINTR);
    return n;
}

/* The usual answer is one piece of memory, for which nothing need be copied. */
static ssize_t send_piece(struct serve_connection *connection, const struct gs_http_piece *piece,
                          uint64_t now_ns)
{
    ssize_t n;
    do
        n = gs_sys_send(connection->fd, piece->bytes, (size_t)piece->n, 0);
    while (n == -EINTR);
    note_sent(connection, n, now_ns);
    return n;
}

static ssize_t send_output(struct serve_connection *connection, uint64_t now_ns)
{
    struct serve_output output;
    serve_connection_output(connection, &output);
    ssize_t n = serve_output_send(&output, connection->fd);
    serve_connection_sent(connection, &output, n, now_ns);
    return n;
}

ssize_t serve_connection_send(struct serve_connection *connection, uint64_t now_ns)
{
    struct gs_http_piece pieces[2];
    bool is_one = !connection->tls && gs_http_conn_output(&connection->http, pieces, 2) == 1 &&
                  pieces[0].bytes;
    ssize_t n = is_one ? send_piece(connection, pieces, now_ns) : send_output(connection, now_ns);
    return n > 0 || n == -EAGAIN || serve_is_nomem(n) ? n : 0;
}

/* ---- The other things that it wants ---- */

void serve_connection_loaded(struct serve_connection *connection, struct gs_http_load *load,
                             uint64_t now_ns)
{
    serve_shard_enter(connection->shard, now_ns);
    gs_http_conn_loaded(&connection->http, load, now_ns);
    serve_shard_note_cached(connection->shard);
    serve_shard_leave(connection->shard);
    if (connection->tls)
        serve_tls_resume(connection, now_ns);
}

/* Here and for gs_http_conn_abort the shard is not locked: they change only the connection, and of
 * its service they read only the options, which never change. */
void serve_connection_shut_down(struct serve_connection *connection, uint64_t now_ns)
{
    if (connection->tls)
        serve_tls_close(connection);
    gs_sys_shutdown(connection->fd, SHUT_WR);
    connection->is_shut_down = true;
    gs_http_conn_shut_down(&connection->http, now_ns);
}

void serve_connection_drain(struct serve_connection *connection, uint64_t now_ns)
{
    serve_shard_enter(connection->shard, now_ns);
    gs_http_conn_drain(&connection->http, now_ns);
    serve_shard_leave(connection->shard);
}

void serve_connection_expire(struct serve_connection *connection, uint64_t now_ns)
{
    struct gs_http_conn *http = &connection->http;
    bool is_judged = gs_http_conn_wants(http) & GS_HTTP_WRITE || gs_http_conn_is_idle(http);
    int queued = 0;
    if (gs_sys_ioctl(connection->fd, SIOCOUTQ, &queued) || queued < 0)
        queued = 0;
    serve_shard_enter(connection->shard, now_ns);
    gs_http_conn_expire(http, (uint64_t)queued, now_ns);
    serve_shard_leave(connection->shard);
    if (!queued || !is_judged || !(gs_http_conn_wants(http) & GS_HTTP_CLOSE))
        return;
    /* A reset drops what the peer does not read; an ordinary close would leave it in the kernel's
     * memory for as long as the peer likes. A peer that was only idle keeps what is queued. */
    struct linger reset = {.l_onoff = 1};
    gs_sys_setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

/* ---- To choose one that gives way ---- */

uint64_t serve_connection_waits(const struct serve_connection *connection)
{
    const struct gs_http_conn *http = &connection->http;
    uint64_t since_ns = gs_http_conn_phase_start(http);
    if (connection->is_shut_down)
        return serve_waits(SERVE_WAITS_FOR_CLOSE, since_ns);
    if (!gs_http_conn_awaits_head(http))
        return SERVE_BUSY;
    if (connection->is_tls && serve_tls_makes_handshake(connection))
        return serve_waits(SERVE_WAITS_FOR_HANDSHAKE, since_ns);
    bool is_idle = gs_http_conn_is_kept_alive(http);
    return serve_waits(is_idle ? SERVE_WAITS_IDLE : SERVE_WAITS_FOR_HEAD, since_ns);
}

/* Those whose proxy has not named them yet count as of one address. */
uint64_t serve_connection_address(struct serve_connection *connection)
{
    if (connection->awaits_proxy)
        return 0;
    if (connection->family == AF_UNSPEC)
        find_peer(connection);
    union peer peer = get_peer(connection);
    return serve_eviction_address(&peer.any);
}

void serve_connection_end_input(const struct serve_connection *connection)
{
    gs_sys_shutdown(connection->fd, SHUT_RD);
}

static void find_client(const struct serve_forwarded *forwarded, const char *value,
                        union peer *peer)
{
    struct serve_host host = serve_host_of(&peer->any);
    struct serve_host client = serve_forwarded_client(forwarded, &host, value);
    *peer = (union peer){.any.sa_family = client.family};
    if (client.family == AF_INET6)
        memcpy(&peer->six.sin6_addr, client.bytes, 16);
    else if (client.family == AF_INET)
        memcpy(&peer->four.sin_addr, client.bytes, 4);
}

void serve_connection_log(const struct gs_http_conn *http, const struct gs_http_log_entry *entry,
                          void *data)
{
    const struct serve_connection *connection = (const struct serve_connection *)http;
    const struct serve_forwarded *forwarded = connection->shard->forwarded;
    union peer peer = get_peer(connection);
    char host[SERVE_ADDRESS_TEXT];
    struct gs_tls_info tls;
    if (forwarded && entry)
        find_client(forwarded, entry->forwarded, &peer);
    serve_address_host(&peer.any, host);
    if (connection->tls)
        serve_tls_info(connection->tls, &tls);
    const struct serve_log_line line = {
        .client = host,
        .entry = entry,
        .tls = connection->tls ? &tls : NULL,
        .now_ns = connection->shard->log.format.member_count ? gs_clock_now() : 0,
    };
    serve_log_write(data, &line);
}

_Static_assert(offsetof(struct serve_connection, http) == 0,
               "serve_connection_log finds the connection by its HTTP");
