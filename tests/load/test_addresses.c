/* The choice between the addresses of a name. This test replaces getaddrinfo. */
#include "load/addresses.h"

#include "tests/test.h"

#include <gossamer/clock.h>
#include <gossamer/sys.h>

#include <netdb.h>

enum kind { END, REFUSES, SILENT, LATER, ACCEPTS, ADDRESSES = 3 };

static struct sockaddr_in addresses[ACCEPTS + 1]; /* of each kind */
static const enum kind *kinds;
static struct addrinfo infos[ADDRESSES];

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_infos)
{
    (void)name;
    (void)service;
    (void)hints;
    for (int i = 0; i < ADDRESSES && kinds[i]; i++) {
        infos[i] = (struct addrinfo){.ai_family = AF_INET,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_addr = (struct sockaddr *)&addresses[kinds[i]],
                                     .ai_addrlen = sizeof addresses[0]};
        if (i)
            infos[i - 1].ai_next = &infos[i];
    }
    *ret_infos = infos;
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static int bind_address(enum kind kind)
{
    struct sockaddr_in *address = &addresses[kind];
    socklen_t length = sizeof *address;
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)address, sizeof *address), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)address, &length), 0);
    return fd;
}

/* An accept queue that is full does not answer further connections. Returns the listener. */
static int bind_silent(enum kind kind)
{
    int listener = bind_address(kind);
    CHECK_EQ(listen(listener, 0), 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&addresses[kind], sizeof addresses[kind]), 0);
    return listener;
}

/* Once all attempts are pending, the address accepts: when the kernel sends its request for a
 * connection again, which takes a second. */
static long accept_later(long number, void *listener)
{
    static int waits;
    if (number == SYS_ppoll && ++waits == 2)
        while (accept(*(int *)listener, NULL, NULL) >= 0)
            ;
    return 0;
}

TEST(the_first_address_that_accepts_is_chosen_and_none_is_waited_for_beyond_the_timeout)
{
    static const struct {
        enum kind kinds[ADDRESSES + 1];
        enum kind chosen;
        uint64_t timeout_ms; /* 0: longer than the delay between two attempts */
    } rows[] = {
        {{SILENT}, SILENT}, /* the only one is not tried */
        {{ACCEPTS, REFUSES}, ACCEPTS},
        {{REFUSES, ACCEPTS}, ACCEPTS},
        {{SILENT, ACCEPTS}, ACCEPTS},
        {{SILENT, ACCEPTS}, ACCEPTS, 100},
        {{SILENT, REFUSES, ACCEPTS}, ACCEPTS},
        {{REFUSES, REFUSES}, REFUSES},
        {{SILENT, REFUSES}, SILENT},
        {{REFUSES, SILENT}, SILENT},
    };
    const struct gs_http_url url = {.host = "name", .port = "80"};
    bind_address(REFUSES);
    CHECK_EQ(listen(bind_address(ACCEPTS), 8), 0);
    bind_silent(SILENT);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct load_addresses found;
        uint64_t timeout_ms = rows[i].timeout_ms ? rows[i].timeout_ms : 400;
        const struct load_settings settings = {.timeout_ns = timeout_ms * GS_MILLISECOND};
        kinds = rows[i].kinds;
        CHECK_EQ(gs_load_addresses_resolve(&url, &settings, &found), 0);
        if (memcmp(&found.server, &addresses[rows[i].chosen], sizeof addresses[0]))
            TEST_FAIL("row %zu: another address is chosen", i);
    }
}

TEST(choice_takes_no_longer_than_until_the_run_gives_up)
{
    struct load_addresses found;
    const struct gs_http_url url = {.host = "name", .port = "80"};
    const struct load_settings settings = {.timeout_ns = GS_NEVER, .give_up_ns = GS_MILLISECOND};
    bind_silent(SILENT);
    int later = bind_silent(LATER);
    kinds = (const enum kind[]){SILENT, LATER, END};
    gs_sys_set_fault(accept_later, &later);
    int err = gs_load_addresses_resolve(&url, &settings, &found);
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(err, 0);
    CHECK(!memcmp(&found.server, &addresses[SILENT], sizeof addresses[0]));
}
