#include "serve/operations/generation.h"

#include "serve/operations/number.h"
#include "serve/operations/options.h"
#include "serve/operations/server.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Start and end ---- */

bool serve_generation_is_expected(void)
{
    return getenv(SERVE_GENERATION_VARIABLE);
}

static int map_page(int fd, struct serve_generation *generation)
{
    void *page = mmap(NULL, sizeof *generation->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    generation->page = page;
    gs_sys_close(fd);
    return 0;
}

int serve_generation_open(struct serve_generation *generation)
{
    const char *text = getenv(SERVE_GENERATION_VARIABLE);
    uint64_t number, place, control_fd, page_fd;
    *generation = (struct serve_generation){.control_fd = -1};
    if (!text)
        return 0;
    if (!serve_take_number(&text, ':', UINT64_MAX, &number) || !number ||
        !serve_take_number(&text, ':', SERVE_GENERATIONS_MAX - 1, &place) ||
        !serve_take_number(&text, ':', INT32_MAX, &control_fd) ||
        !serve_take_number(&text, '\0', INT32_MAX, &page_fd))
        return cli_fail(&serve_command, SERVE_GENERATION_VARIABLE " is no generation");
    unsetenv(SERVE_GENERATION_VARIABLE);
    int err = gs_sys_fcntl((int)control_fd, F_SETFD, FD_CLOEXEC);
    if (err >= 0)
        err = map_page((int)page_fd, generation);
    if (err < 0) {
        cli_fail(&serve_command, "the supervisor's descriptors: %s", strerror(-err));
        return err;
    }
    generation->number = number;
    generation->place = (unsigned)place;
    generation->control_fd = (int)control_fd;
    return 0;
}

void serve_generation_close(struct serve_generation *generation)
{
    if (generation->page)
        munmap(generation->page, sizeof *generation->page);
    if (generation->control_fd >= 0)
        gs_sys_close(generation->control_fd);
    *generation = (struct serve_generation){.control_fd = -1};
}

bool serve_generation_hands_over(const struct serve_generation *generation)
{
    return generation->page && !atomic_load(&generation->page->is_ending);
}

void serve_generation_count(const struct serve_generation *generation, uint64_t *ret_draining,
                            uint64_t *ret_open)
{
    *ret_draining = *ret_open = 0;
    for (unsigned i = 0; i < SERVE_GENERATIONS_MAX; i++) {
        struct serve_generation_place *place = &generation->page->places[i];
        if (!atomic_load(&place->is_draining))
            continue;
        ++*ret_draining;
        *ret_open += atomic_load(&place->open);
    }
}

/* ---- The listeners ---- */

struct offer {
    int control_fd;
    unsigned count;
    int fds[SERVE_SENT_MAX];
};

static void send_offer(struct offer *offer)
{
    static char text[] = "FDSTORE=1";
    union {
        char bytes[CMSG_SPACE(sizeof offer->fds)];
        struct cmsghdr aligned;
    } control = {0};
    size_t n = offer->count * sizeof *offer->fds;
    struct iovec part = {text, strlen(text)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(n)};
    if (!offer->count)
        return;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(n);
    memcpy(CMSG_DATA(header), offer->fds, n);
    gs_sys_sendmsg(offer->control_fd, &message, MSG_NOSIGNAL);
    offer->count = 0;
}

static void add(struct offer *offer, int fd)
{
    offer->fds[offer->count++] = fd;
    if (offer->count == SERVE_SENT_MAX)
        send_offer(offer);
}

/* A Unix socket is one that the sets share. */
static void add_own(struct offer *offer, const struct serve_server *server, unsigned address)
{
    bool is_unix = server->addresses[address].storage.ss_family == AF_UNIX;
    unsigned sets = is_unix ? 1 : server->set_count;
    if (server->addresses[address].inherited)
        return;
    for (unsigned set = 0; set < sets; set++)
        add(offer, server->listeners[(size_t)set * server->address_count + address]);
}

/* What a service manager has opened, the supervisor has itself. */
void serve_generation_offer(struct serve_server *server)
{
    struct offer offer = {.control_fd = server->generation.control_fd};
    if (!server->generation.number)
        return;
    for (unsigned i = 0; i < server->inherited.count; i++) {
        const struct serve_inherited_socket *item = &server->inherited.items[i];
        if (item->is_bound && item->owner != SERVE_UNCLAIMED)
            add(&offer, item->fd);
    }
    for (unsigned i = 0; i < server->address_count; i++)
        add_own(&offer, server, i);
    if (server->metrics_listener.fd >= 0 && !server->metrics_listener.is_inherited)
        add(&offer, server->metrics_listener.fd);
    send_offer(&offer);
    server->generation.has_offered = true;
    serve_inherited_done(&server->inherited);
}
