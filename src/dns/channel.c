#include "dns/channel.h"

#include "dns/answer.h"
#include "dns/dns.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

/* The kernel counts some 768 bytes for a short answer, and allows 208 KiB unless it is asked. */
#define RECEIVE_BUFFER (256 << 10)

uint16_t gs_dns_port;

/* ---- Sockets: c-ares opens and closes them, and says what it waits for ---- */

struct dns_socket {
    struct dns_socket *next; /* of the channel */
    struct gs_io io;
    struct channel *channel;
};

/* The call may close sockets and complete look-ups, and the last answer frees the channel. */
static void on_ready(struct gs_io *io, unsigned events)
{
    struct channel *channel = gs_container_of(io, struct dns_socket, io)->channel;
    ares_socket_t fd = io->fd;
    ares_process_fd(channel->ares, events & ~(unsigned)GS_WRITE ? fd : ARES_SOCKET_BAD,
                    events & (GS_WRITE | GS_FAILED) ? fd : ARES_SOCKET_BAD);
    gs_dns_channel_collect(channel);
}

/* Returns the place that points to the socket, or to NULL if there is none. */
static struct dns_socket **find_socket(struct channel *channel, int fd)
{
    struct dns_socket **place = &channel->sockets;
    while (*place && (*place)->io.fd != fd)
        place = &(*place)->next;
    return place;
}

/* Called by c-ares when it has opened a socket. Returns 0; -1: it is closed again. */
static int on_opened(ares_socket_t fd, int type, void *channel_)
{
    struct channel *channel = channel_;
    struct dns_socket *new = malloc(sizeof *new);
    (void)type;
    if (!new)
        return -1;
    new->channel = channel;
    gs_io_init(&new->io, channel->loop, on_ready);
    gs_io_set(&new->io, fd, GS_READ);
    if (gs_io_start(&new->io)) {
        free(new);
        return -1;
    }
    new->next = channel->sockets;
    channel->sockets = new;
    return 0;
}

static void free_socket(struct dns_socket **place)
{
    struct dns_socket *old = *place;
    *place = old->next;
    gs_loop_fd_closed(old->channel->loop, old->io.fd);
    gs_io_stop(&old->io);
    free(old);
}

/* Called by c-ares; before it closes a socket, for nothing. */
static void on_wanted(void *channel, ares_socket_t fd, int readable, int writable)
{
    struct dns_socket **place = find_socket(channel, fd);
    if (!*place)
        return;
    unsigned wanted = (readable ? GS_READ : 0) | (writable ? GS_WRITE : 0);
    if (wanted)
        gs_io_set_events(&(*place)->io, wanted);
    else
        free_socket(place);
}

/* ---- Questions ---- */

struct question {
    struct channel *channel;
    struct look_up *look_up;
};

static void on_answer(void *question_, int status, int timeouts, struct ares_addrinfo *found)
{
    struct question *question = question_;
    struct look_up *look_up = question->look_up;
    (void)timeouts;
    question->channel->unanswered--;
    if (question->channel->is_lost) {
        gs_look_up_discard(look_up);
    } else {
        gs_dns_set_result(gs_look_up_resolution(look_up), status, found);
        gs_look_up_complete(look_up);
    }
    if (found)
        ares_freeaddrinfo(found);
    free(question);
}

static void fail(struct look_up *look_up, int status)
{
    gs_dns_set_result(gs_look_up_resolution(look_up), status, NULL);
    gs_look_up_complete(look_up);
}

void gs_dns_channel_ask(struct channel *channel, struct look_up *look_up)
{
    const struct resolution *resolution = gs_look_up_resolution(look_up);
    int family = gs_dns_family(&resolution->hints);
    struct question *question = family < 0 ? NULL : malloc(sizeof *question);
    if (!question) {
        fail(look_up, family < 0 ? ARES_ENODATA : ARES_ENOMEM);
        return;
    }
    *question = (struct question){channel, look_up};
    channel->asked++;
    channel->unanswered++;
    const struct ares_addrinfo_hints hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    ares_getaddrinfo(channel->ares, resolution->node, NULL, &hints, on_answer, question);
}

/* ---- The channel ---- */

static void init_library(void)
{
    ares_library_init(ARES_LIB_INIT_ALL);
}

static int init_ares(struct channel *channel, const struct dns_config *config)
{
    static char only_servers[] = "b";
    struct ares_options options = {
        .timeout = (int)config->timeout_s * 1000,
        .tries = (int)config->attempts,
        .lookups = only_servers,
        .udp_port = gs_dns_port,
        .tcp_port = gs_dns_port,
        .socket_receive_buffer_size = RECEIVE_BUFFER,
        .sock_state_cb = on_wanted,
        .sock_state_cb_data = channel,
        .resolvconf_path = (char *)(uintptr_t)gs_resolv_conf,
    };
    int set = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_RCVBUF |
              ARES_OPT_SOCK_STATE_CB | ARES_OPT_RESOLVCONF;
    set |= config->rotates ? ARES_OPT_ROTATE : ARES_OPT_NOROTATE;
    if (gs_dns_port)
        set |= ARES_OPT_UDP_PORT | ARES_OPT_TCP_PORT;
#ifdef ARES_OPT_QUERY_CACHE /* from 1.23; its limit is 0 here: getaddrinfo has no cache either */
    set |= ARES_OPT_QUERY_CACHE;
#endif
    return ares_init_options(&channel->ares, &options, set);
}

int gs_dns_channel_new(struct gs_loop *loop, const struct dns_config *config,
                       struct channel **ret_channel)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct channel *channel = malloc(sizeof *channel);
    if (!channel)
        return -ENOMEM;
    *channel = (struct channel){.loop = loop, .config_version = config->version};
    pthread_once(&once, init_library);
    int status = init_ares(channel, config);
    if (status != ARES_SUCCESS) {
        free(channel);
        return status == ARES_ENOMEM ? -ENOMEM : -EIO;
    }
    ares_set_socket_callback(channel->ares, on_opened, channel);
    *ret_channel = channel;
    return 0;
}

void gs_dns_channel_tick(struct channel *channel)
{
    ares_process_fd(channel->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    gs_dns_channel_collect(channel);
}

bool gs_dns_channel_collect(struct channel *channel)
{
    if (!channel->is_retired || channel->unanswered)
        return false;
    gs_dns_channel_free(channel);
    return true;
}

void gs_dns_channel_free(struct channel *channel)
{
    ares_destroy(channel->ares);
    while (channel->sockets)
        free_socket(&channel->sockets);
    gs_list_remove(&channel->link);
    free(channel);
}
