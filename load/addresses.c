#include "load/addresses.h"

#include <gossamer/clock.h>
#include <gossamer/sys.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_SOURCE_COUNT = 64 };

static bool is_loopback_4(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    return address->ss_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* ---- Choice: attempts to connect overlap (RFC 8305, section 5) ---- */

enum { ATTEMPTS_MAX = 16 };
static const uint64_t attempt_delay_ns = 250 * GS_MILLISECOND, max_choice_ns = 3 * GS_SECOND;

struct attempts {
    const struct addrinfo *next; /* not tried yet; NULL: none is left */
    uint64_t next_ns;            /* when it is tried at the latest */
    uint64_t deadline_ns;        /* of all attempts */
    size_t count, pending;
    struct pollfd sockets[ATTEMPTS_MAX]; /* the descriptor is negative after a failure */
    const struct addrinfo *infos[ATTEMPTS_MAX];
};

/* Returns whether the attempt has succeeded. Calling connect again reports the progress. After a
 * failure the next address is tried at once. */
static bool has_connected(struct attempts *attempts, size_t index)
{
    struct pollfd *socket = &attempts->sockets[index];
    const struct addrinfo *info = attempts->infos[index];
    int err = gs_sys_connect(socket->fd, info->ai_addr, info->ai_addrlen);
    if (err && err != -EINPROGRESS && err != -EALREADY) {
        gs_sys_close(socket->fd);
        socket->fd = -1;
        attempts->pending--;
        attempts->next_ns = 0;
    }
    return !err;
}

/* When the next address is tried after one that is tried now. A short timeout suffices for both. */
static uint64_t next_attempt_ns(const struct attempts *attempts, uint64_t now_ns)
{
    uint64_t half_ns = attempts->deadline_ns > now_ns ? (attempts->deadline_ns - now_ns) / 2 : 0;
    return now_ns + (half_ns < attempt_delay_ns ? half_ns : attempt_delay_ns);
}

/* Returns the address if it accepts at once, otherwise NULL. */
static const struct addrinfo *start_attempt(struct attempts *attempts)
{
    const struct addrinfo *info = attempts->next;
    size_t index = attempts->count;
    int fd = gs_sys_socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    attempts->next = index + 2 > ATTEMPTS_MAX ? NULL : info->ai_next;
    attempts->next_ns = next_attempt_ns(attempts, gs_clock_now());
    if (fd < 0)
        return NULL;
    attempts->count++;
    attempts->pending++;
    attempts->infos[index] = info;
    attempts->sockets[index] = (struct pollfd){.fd = fd, .events = POLLOUT};
    return has_connected(attempts, index) ? info : NULL;
}

/* Returns the address of an attempt that has succeeded, or NULL. */
static const struct addrinfo *wait_for_attempt(struct attempts *attempts)
{
    uint64_t now_ns = gs_clock_now(), until_ns = attempts->deadline_ns;
    if (attempts->next && attempts->next_ns < until_ns)
        until_ns = attempts->next_ns;
    uint64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    if (gs_sys_poll(attempts->sockets, (unsigned)attempts->count, wait_ns) <= 0)
        return NULL;
    for (size_t i = 0; i < attempts->count; i++) {
        if (attempts->sockets[i].revents && has_connected(attempts, i))
            return attempts->infos[i];
    }
    return NULL;
}

/* No run takes longer to begin than a response may take. */
static uint64_t choice_limit_ns(const struct load_settings *settings)
{
    uint64_t limit_ns = settings->timeout_ns < max_choice_ns ? settings->timeout_ns : max_choice_ns;
    bool is_shorter = settings->give_up_ns && settings->give_up_ns < limit_ns;
    return is_shorter ? settings->give_up_ns : limit_ns;
}

/* A name such as localhost often has two addresses, while the server listens on one of them.
 * Returns the one that is the first to accept a connection. If none does in time, the first that
 * may still do so is preferred to those that have refused. */
static const struct addrinfo *choose_address(const struct addrinfo *infos, uint64_t limit_ns)
{
    uint64_t now_ns = gs_clock_now();
    struct attempts attempts = {.next = infos, .deadline_ns = gs_clock_after(now_ns, limit_ns)};
    const struct addrinfo *chosen = infos->ai_next ? NULL : infos;
    while (!chosen && (attempts.next || attempts.pending) && now_ns < attempts.deadline_ns) {
        bool is_due = attempts.next && (!attempts.pending || now_ns >= attempts.next_ns);
        chosen = is_due ? start_attempt(&attempts) : wait_for_attempt(&attempts);
        now_ns = gs_clock_now();
    }
    for (size_t i = 0; i < attempts.count; i++) {
        if (attempts.sockets[i].fd < 0)
            continue;
        gs_sys_close(attempts.sockets[i].fd);
        if (!chosen)
            chosen = attempts.infos[i];
    }
    return chosen ? chosen : infos;
}

int gs_load_addresses_resolve(const struct gs_http_url *url, const struct load_settings *settings,
                              struct load_addresses *ret_addresses)
{
    uint64_t source_count = settings->source_addresses;
    struct addrinfo *infos, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int error = getaddrinfo(url->host, url->port, &hints, &infos);
    if (error) {
        fprintf(stderr, "%s: cannot resolve \"%s\": %s\n", gs_load_command.name, url->host,
                gai_strerror(error));
        return -EHOSTUNREACH;
    }
    const struct addrinfo *chosen = choose_address(infos, choice_limit_ns(settings));
    struct load_addresses found = {.length = chosen->ai_addrlen};
    memcpy(&found.server, chosen->ai_addr, chosen->ai_addrlen);
    freeaddrinfo(infos);
    if (is_loopback_4(&found.server))
        found.source_count = source_count ? (uint32_t)source_count : DEFAULT_SOURCE_COUNT;
    else if (source_count)
        return cli_fail(&gs_load_command,
                        "--source-addresses requires a server in 127/8, and \"%s\" is not",
                        url->host);
    *ret_addresses = found;
    return 0;
}

/* connect chooses the port, so that each source address has all ephemeral ports. */
static int bind_source(int fd, uint32_t index)
{
    int on = 1;
    struct sockaddr_in source = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK + index)};
    int err = gs_sys_setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    return err ? err : gs_sys_bind(fd, (const struct sockaddr *)&source, sizeof source);
}

int gs_load_addresses_open_socket(const struct load_addresses *addresses, uint64_t index)
{
    int on = 1;
    int fd =
        gs_sys_socket(addresses->server.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int err = gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!err && addresses->source_count > 1)
        err = bind_source(fd, (uint32_t)(index % addresses->source_count));
    if (err) {
        gs_sys_close(fd);
        return err;
    }
    return fd;
}
