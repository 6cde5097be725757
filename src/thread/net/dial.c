/* gs_dial: the addresses of a name are tried with overlapping attempts (RFC 8305, section 5). One
 * thread makes all attempts: it waits for their sockets, and for the time of the next attempt. */
#include "thread/io/descriptors.h"
#include "thread/io/io_call.h"
#include "thread/net/address.h"
#include "thread/net/resolve.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

/* RFC 8305's Connection Attempt Delay. */
#define ATTEMPT_DELAY (250 * GS_MILLISECOND)
#define ATTEMPTS_MAX 16u

/* ---- One socket ---- */

static int new_socket(int family, enum descriptor_kind kind)
{
    int fd = gs_sys_socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor) {
        gs_sys_close(fd);
        return -ENOMEM;
    }
    gs_descriptor_reset(descriptor, fd, kind);
    return fd;
}

/* A full accept queue fails the call, and nothing tells when it has room. */
static int connect_unix(int fd, const struct address *address, uint64_t deadline_ns)
{
    uint64_t pause_ns = RETRY_FIRST;
    int err;
    do {
        err = gs_sys_connect(fd, (const struct sockaddr *)&address->storage, address->length);
        if (err != -EAGAIN)
            return err;
        err = gs_pause_before_retry(&pause_ns, deadline_ns);
    } while (!err);
    return err;
}

static int dial_unix(const char *text, uint64_t deadline_ns)
{
    struct address address;
    int err = gs_address_parse_unix(text, &address);
    int fd = err ? err : new_socket(AF_UNIX, KIND_POLLABLE);
    if (fd < 0)
        return fd;
    err = connect_unix(fd, &address, deadline_ns);
    if (err)
        gs_close(fd);
    return err ? err : fd;
}

/* ---- Attempts ----
 *
 * An attempt is a socket in `pending`. The addresses are those of the family that came first, and
 * the others; `next` has the next one of each, and they take turns. */

struct dial {
    const struct addrinfo *next[2];
    int first_family;
    unsigned turn;
    unsigned count; /* of pending */
    struct gs_poll pending[ATTEMPTS_MAX];
    int err; /* of the attempt that failed first */
};

/* Returns the address, or the next one after it, that is or is not of the first family. */
static const struct addrinfo *skip(const struct dial *dial, const struct addrinfo *at,
                                   unsigned other)
{
    while (at && (at->ai_family != dial->first_family) != other)
        at = at->ai_next;
    return at;
}

static void init_dial(struct dial *dial, const struct addrinfo *addresses)
{
    *dial = (struct dial){.first_family = addresses->ai_family};
    for (unsigned other = 0; other < 2; other++)
        dial->next[other] = skip(dial, addresses, other);
}

/* Returns the next address, or NULL. */
static const struct addrinfo *take_address(struct dial *dial)
{
    unsigned other = dial->next[dial->turn] ? dial->turn : !dial->turn;
    const struct addrinfo *address = dial->next[other];
    if (address)
        dial->next[other] = skip(dial, address->ai_next, other);
    dial->turn = !other;
    return address;
}

static bool can_start(const struct dial *dial)
{
    return (dial->next[0] || dial->next[1]) && dial->count < ATTEMPTS_MAX;
}

static void note_failure(struct dial *dial, int err)
{
    if (!dial->err)
        dial->err = err;
}

/* Returns the descriptor if it is connected at once; otherwise -errno, which is -EINPROGRESS if the
 * attempt is pending. */
static int start_attempt(struct dial *dial)
{
    const struct addrinfo *address = take_address(dial);
    const int on = 1;
    int fd = new_socket(address->ai_family, KIND_TCP);
    if (fd < 0)
        return fd;
    int err = gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!err)
        err = gs_sys_connect(fd, address->ai_addr, address->ai_addrlen);
    if (err == -EINTR)
        err = -EINPROGRESS;
    if (err == -EINPROGRESS)
        dial->pending[dial->count++] = (struct gs_poll){.fd = fd, .events = GS_WRITE};
    else if (err)
        gs_close(fd);
    return err ? err : fd;
}

/* Start attempts until one of them is pending. Returns the descriptor if one is connected, or
 * -EINPROGRESS; the error if nothing is pending and no address is left. */
static int start_next(struct dial *dial)
{
    int fd = -EINPROGRESS;
    while (can_start(dial)) {
        fd = start_attempt(dial);
        if (fd >= 0 || fd == -EINPROGRESS)
            return fd;
        note_failure(dial, fd);
    }
    return dial->count ? -EINPROGRESS : dial->err;
}

/* An attempt to reach a free port of this machine may be made from that port: then the socket
 * connects to itself. */
static bool is_own_peer(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_length = sizeof own, peer_length = sizeof peer;
    return !gs_sys_getsockname(fd, (struct sockaddr *)&own, &own_length) &&
           !gs_sys_getpeername(fd, (struct sockaddr *)&peer, &peer_length) &&
           !memcmp(&own, &peer, sizeof own);
}

/* Look at the sockets that are ready, and close those that have failed. Returns the descriptor if
 * one is connected, or -EINPROGRESS. */
static int collect(struct dial *dial, bool *ret_has_failed)
{
    unsigned kept = 0;
    int connected = -EINPROGRESS;
    for (unsigned i = 0; i < dial->count; i++) {
        int fd = dial->pending[i].fd;
        int err = -EINPROGRESS;
        if (dial->pending[i].revents && connected < 0)
            err = gs_connect_result(fd);
        if (!err && is_own_peer(fd))
            err = -ECONNREFUSED;
        if (err == -EINPROGRESS) {
            dial->pending[kept++] = dial->pending[i];
        } else if (err) {
            note_failure(dial, err);
            gs_close(fd);
            *ret_has_failed = true;
        } else {
            connected = fd;
        }
    }
    dial->count = kept;
    return connected;
}

/* Returns the descriptor of the first attempt that succeeds, or -errno. */
static int race(struct dial *dial, uint64_t deadline_ns)
{
    uint64_t next_ns = 0;
    for (;;) {
        if (can_start(dial) && next_ns <= gs_clock_now()) {
            int fd = start_next(dial);
            if (fd != -EINPROGRESS)
                return fd;
            next_ns = gs_clock_now() + ATTEMPT_DELAY;
        }
        uint64_t until_ns = can_start(dial) ? earlier(next_ns, deadline_ns) : deadline_ns;
        int ready = gs_poll(dial->pending, dial->count, until_ns);
        if (ready < 0)
            return ready;
        bool has_failed = false;
        int fd = ready ? collect(dial, &has_failed) : -EINPROGRESS;
        if (fd >= 0)
            return fd;
        if (!can_start(dial) && !dial->count)
            return dial->err;
        if (!ready && until_ns == deadline_ns)
            return -ETIMEDOUT;
        if (has_failed)
            next_ns = 0;
    }
}

static int dial_all(const struct addrinfo *addresses, uint64_t deadline_ns)
{
    struct dial dial;
    init_dial(&dial, addresses);
    int fd = race(&dial, deadline_ns);
    for (unsigned i = 0; i < dial.count; i++)
        gs_close(dial.pending[i].fd);
    if (fd >= 0)
        gs_descriptor_set_ready(gs_descriptor(fd), GS_WRITE);
    return fd;
}

int gs_dial(const char *address, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    char host[HOST_SIZE], service[SERVICE_SIZE];
    struct address numeric;
    if (gs_address_is_unix(address))
        return dial_unix(address, deadline_ns);
    int err = gs_address_split(address, host, service);
    if (err)
        return err;
    if (!host[0])
        return -EINVAL;
    if (gs_address_is_numeric(host, service, &numeric)) {
        const struct addrinfo only = {.ai_family = numeric.storage.ss_family,
                                      .ai_addr = (struct sockaddr *)&numeric.storage,
                                      .ai_addrlen = numeric.length};
        return dial_all(&only, deadline_ns);
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct look_up *look_up;
    err = gs_resolve_name(host, service, &hints, deadline_ns, &look_up);
    if (err)
        return err;
    int fd = dial_all(gs_look_up_addresses(look_up), deadline_ns);
    gs_look_up_release(look_up);
    return fd;
}
