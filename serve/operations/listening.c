#include "serve/operations/listening.h"

#include "serve/accept/unix_socket.h"
#include "serve/operations/options.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *name, int err)
{
    fprintf(stderr, "%s: %s %s: %s\n", serve_command.name, what, name, strerror(-err));
    return err;
}

/* ---- The addresses ---- */

/* An address, which has columns in the table of listeners: one, or as many as a listener set needs
 * to have its share of the inherited sockets. */
struct plan {
    struct serve_address address;
    unsigned sockets; /* inherited */
    unsigned columns;
};

static int parse_words(const struct serve_options *options, struct plan *plans)
{
    for (size_t i = 0; i < options->listen.count; i++) {
        const char *problem, *word = options->listen.items[i];
        if (serve_address_parse(word, &plans[i].address, &problem))
            return serve_options_refuse("--listen %s %s", word, problem);
    }
    return 0;
}

static void claim(struct serve_server *server, struct plan *plan, size_t index)
{
    plan->sockets = serve_inherited_claim(&server->inherited, &plan->address, (int)index);
}

/* A word with port 0 takes an address that no other word names. */
static void claim_words(struct serve_server *server, struct plan *plans, size_t count)
{
    for (int takes_any = 0; takes_any < 2; takes_any++)
        for (size_t i = 0; i < count; i++) {
            bool is_any = plans[i].address.storage.ss_family != AF_UNIX &&
                          !serve_address_port(&plans[i].address);
            if (is_any == takes_any && !plans[i].sockets)
                claim(server, &plans[i], i);
        }
}

/* The addresses of the sockets that a service manager has opened. Returns how many there are. */
static size_t claim_all(struct serve_server *server, struct plan *plans)
{
    size_t count = 0;
    for (unsigned i = 0; i < server->inherited.count; i++) {
        const struct serve_inherited_socket *item = &server->inherited.items[i];
        if (item->is_bound || item->owner != SERVE_UNCLAIMED)
            continue;
        plans[count].address = item->address;
        claim(server, &plans[count], count);
        count++;
    }
    return count;
}

static void warn_unclaimed(const struct serve_server *server)
{
    for (unsigned i = 0; i < server->inherited.count; i++) {
        const struct serve_inherited_socket *item = &server->inherited.items[i];
        char text[SERVE_ADDRESS_TEXT];
        if (item->is_bound || item->owner != SERVE_UNCLAIMED)
            continue;
        serve_address_format((const struct sockaddr *)&item->address.storage, text);
        serve_warn("LISTEN_FDS: no --listen names %s, where nobody serves", text);
    }
}

/* What the options say of inherited sockets is checked here, because only now it is known which of
 * them have TLS. */
static int check_tls(const struct serve_options *options, const struct plan *plans, size_t count)
{
    bool has_tls = false;
    for (size_t i = 0; i < count; i++)
        has_tls |= plans[i].address.is_tls;
    if (has_tls && !options->certificates.count)
        return cli_fail(&serve_command,
                        "LISTEN_FDNAMES: a socket with TLS needs --certificate and --key");
    if (!has_tls && (options->certificates.count || options->redirects || options->hsts_ns))
        return cli_fail(&serve_command, "LISTEN_FDNAMES: no name of a socket begins with https");
    return 0;
}

static bool is_bound(const struct serve_inherited *inherited, int owner)
{
    unsigned i = 0;
    while (inherited->items[i].owner != owner)
        i++;
    return inherited->items[i].is_bound;
}

static int expand(struct serve_server *server, struct plan *plans, size_t count)
{
    size_t columns = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned sets = server->set_count;
        plans[i].columns = plans[i].sockets ? (plans[i].sockets + sets - 1) / sets : 1;
        columns += plans[i].columns;
    }
    server->addresses = calloc(columns, sizeof *server->addresses);
    if (!server->addresses)
        return fail("can't start", "listening", -ENOMEM);
    for (size_t i = 0; i < count; i++)
        for (unsigned repeated = 0; repeated < plans[i].columns; repeated++) {
            struct serve_address *address = &server->addresses[server->address_count++];
            *address = plans[i].address;
            address->owner = (int)i;
            address->inherited = plans[i].sockets;
            address->repeated = repeated;
            address->is_activated = plans[i].sockets && !is_bound(&server->inherited, (int)i);
        }
    return 0;
}

static int find_addresses(struct serve_server *server, struct plan *plans)
{
    const struct serve_options *options = server->options;
    size_t count = options->is_listen_default ? claim_all(server, plans) : 0;
    if (!count) {
        int err = parse_words(options, plans);
        if (err)
            return err;
        count = options->listen.count;
        claim_words(server, plans, count);
    }
    warn_unclaimed(server);
    int err = check_tls(options, plans, count);
    return err ? err : expand(server, plans, count);
}

int serve_listening_init(struct serve_server *server)
{
    const char *problem;
    int err = serve_inherited_take(&server->inherited, &problem);
    if (err)
        return cli_fail(&serve_command, "%s", problem);
    struct plan *plans =
        calloc(server->options->listen.count + server->inherited.count, sizeof *plans);
    if (!plans)
        return fail("can't start", "listening", -ENOMEM);
    err = find_addresses(server, plans);
    free(plans);
    return err;
}

/* ---- The listeners ---- */

/* Sets and columns are counted through together, so that each socket is in some set. */
static int listen_at_inherited(const struct serve_server *server, struct serve_address *at,
                               unsigned set)
{
    unsigned n = (at->repeated * server->set_count + set) % at->inherited;
    int fd = serve_inherited_socket(&server->inherited, at->owner, n);
    if (at->storage.ss_family == AF_UNIX && !at->is_activated && at->file_fd < 0)
        serve_unix_socket_adopt(at);
    int err = serve_listener_adopt(fd, &at->storage, server->options);
    return err ? err : gs_sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static int fail_to_listen(const struct serve_server *server, const struct serve_address *address,
                          int err)
{
    char text[SERVE_ADDRESS_TEXT];
    if (!address->inherited)
        return fail("can't listen at", server->options->listen.items[address->owner], err);
    serve_address_format((const struct sockaddr *)&address->storage, text);
    return fail("can't listen at the inherited socket", text, err);
}

static int open_listener(struct serve_server *server, struct serve_address *address, unsigned set,
                         int first)
{
    if (address->inherited)
        return listen_at_inherited(server, address, set);
    if (set)
        return serve_listen_again(address, first, server->options);
    return serve_listen(address, server->options,
                        server->set_count == 1 ? SERVE_ALONE : SERVE_FIRST);
}

int serve_listening_start(struct serve_server *server)
{
    size_t count = (size_t)server->set_count * server->address_count;
    server->listeners = calloc(count, sizeof *server->listeners);
    if (!server->listeners)
        return fail("can't start", "listening", -ENOMEM);
    for (size_t i = 0; i < count; i++)
        server->listeners[i] = -1;
    for (size_t i = 0; i < count; i++) {
        size_t at = i % server->address_count;
        struct serve_address *address = &server->addresses[at];
        server->listeners[i] = open_listener(server, address, (unsigned)(i / server->address_count),
                                             server->listeners[at]);
        if (server->listeners[i] < 0)
            return fail_to_listen(server, address, server->listeners[i]);
    }
    if (!server->generation.number) /* otherwise they are offered to the supervisor later */
        serve_inherited_done(&server->inherited);
    return 0;
}

bool serve_listener_is_shared(const struct serve_server *server, unsigned at)
{
    const struct serve_address *address = &server->addresses[at];
    if (address->is_activated)
        return true;
    if (address->inherited)
        return serve_generation_hands_over(&server->generation);
    return server->drain && atomic_load(&server->drain->hands_over);
}

void serve_stop_listening(struct serve_server *server, unsigned set)
{
    int *listeners = server->listeners + (size_t)set * server->address_count;
    for (unsigned i = 0; i < server->address_count; i++) {
        if (listeners[i] >= 0)
            gs_sys_close(listeners[i]);
        listeners[i] = -1;
    }
}

void serve_listening_remove_files(struct serve_server *server)
{
    for (unsigned i = 0; i < server->address_count; i++)
        if (!serve_listener_is_shared(server, i))
            serve_unix_socket_remove(&server->addresses[i]);
}

void serve_listening_done(struct serve_server *server)
{
    for (unsigned i = 0; server->listeners && i < server->set_count; i++)
        serve_stop_listening(server, i);
    serve_listening_remove_files(server);
    serve_inherited_done(&server->inherited);
    free(server->listeners);
    free(server->addresses);
    server->listeners = NULL;
    server->addresses = NULL;
    server->address_count = 0;
}
