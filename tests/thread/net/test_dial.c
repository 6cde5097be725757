#include "tests/thread/fixture.h"
#include "tests/thread/net/names.h"

#include <dirent.h>
#include <gossamer/net.h>
#include <netinet/tcp.h>

/* ---- Addresses: some accept connections, some refuse them, some do not answer ---- */

struct place {
    struct sockaddr_storage address;
    int listener, filler; /* -1: closed */
    char text[64];
};

/* Store the address of the socket, which is bound to the host. */
static void name_place(struct place *place, int fd, const char *host)
{
    socklen_t length = sizeof place->address;
    MUST_EQ(gs_sys_getsockname(fd, (struct sockaddr *)&place->address, &length), 0);
    /* The port is at the same place in both families. */
    unsigned port = ntohs(((struct sockaddr_in *)&place->address)->sin_port);
    snprintf(place->text, sizeof place->text, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

static struct place place_at(const char *host, int backlog)
{
    struct place place = {.filler = -1};
    char text[64];
    snprintf(text, sizeof text, strchr(host, ':') ? "[%s]:0" : "%s:0", host);
    const struct gs_listen_options options = {.backlog = (unsigned)backlog};
    place.listener = gs_listen(text, &options);
    MUST(place.listener >= 0);
    name_place(&place, place.listener, host);
    return place;
}

static struct place live_place(void)
{
    return place_at("127.0.0.1", 0);
}

/* A socket that does not listen keeps the port: nobody else can listen there meanwhile. */
static struct place refusing_place(void)
{
    struct place place = {.listener = -1};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    place.filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(place.filler >= 0);
    MUST_EQ(bind(place.filler, (struct sockaddr *)&any, sizeof any), 0);
    name_place(&place, place.filler, "127.0.0.1");
    return place;
}

/* Its accept queue is full, so that the kernel drops what asks for a connection. */
static struct place silent_place(void)
{
    struct place place = live_place();
    MUST_EQ(gs_sys_listen(place.listener, 0), 0);
    place.filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(place.filler >= 0);
    MUST_EQ(connect(place.filler, (struct sockaddr *)&place.address, sizeof(struct sockaddr_in)),
            0);
    struct pollfd pending = {.fd = place.listener, .events = POLLIN};
    MUST_EQ(poll(&pending, 1, -1), 1);
    return place;
}

static void close_place(struct place *place)
{
    if (place->listener >= 0)
        gs_close(place->listener);
    if (place->filler >= 0)
        gs_sys_close(place->filler);
}

/* The addresses of the name "name". */
static struct sockaddr_storage listed[20];

static void list_places(const struct place *places, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        listed[i] = places[i].address;
    names[0] = (struct name){"name", listed, count};
}

static void run_both_unwatched(gs_thread_fn *first)
{
    run_unwatched(1, first);
    run_unwatched(3, first);
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    MUST(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void must_reach(int fd, const struct place *place)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    MUST(fd >= 0);
    MUST_EQ(gs_sys_getpeername(fd, (struct sockaddr *)&peer, &length), 0);
    MUST_EQ(peer.ss_family, place->address.ss_family);
    MUST_EQ(((struct sockaddr_in *)&peer)->sin_port,
            ((const struct sockaddr_in *)&place->address)->sin_port);
}

/* ---- One address ---- */

static void must_echo(int fd, int listener)
{
    char byte = 0;
    int peer = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, after(20 * GS_SECOND));
    MUST(peer >= 0);
    MUST_EQ(gs_send_all(fd, "a", 1, GS_NEVER), 1);
    MUST_EQ(gs_recv(peer, &byte, 1, 0, after(20 * GS_SECOND)), 1);
    MUST_EQ(gs_send_all(peer, "b", 1, GS_NEVER), 1);
    MUST_EQ(gs_recv(fd, &byte, 1, 0, after(20 * GS_SECOND)), 1);
    MUST_EQ(byte, 'b');
    gs_close(peer);
    MUST_EQ(gs_recv(fd, &byte, 1, 0, after(20 * GS_SECOND)), 0);
    gs_close(fd);
}

THREAD_TEST(number_and_name_are_dialed, run_both)
{
    struct place place = live_place();
    int on = 0;
    socklen_t length = sizeof on;
    list_places(&place, 1);
    const char *forms[] = {place.text, "name:80"};
    for (int i = 0; i < 2; i++) {
        int fd = gs_dial(forms[i], after(20 * GS_SECOND));
        must_reach(fd, &place);
        MUST_EQ(gs_sys_getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &length), 0);
        MUST_EQ(on, 1);
        must_echo(fd, place.listener);
    }
    close_place(&place);
    MUST_EQ(gs_dial(place.text, GS_NEVER), -ECONNREFUSED);
}

THREAD_TEST(what_is_no_address_is_refused, run_on_one)
{
    char longest[400];
    memset(longest, 'x', sizeof longest);
    strcpy(longest + sizeof longest - 4, ":80");
    MUST_EQ(gs_dial(longest, GS_NEVER), -ENAMETOOLONG);
    memset(longest, '0', sizeof longest - 1);
    memcpy(longest, "name:", 5);
    longest[5 + 64] = '\0';
    MUST_EQ(gs_dial(longest, GS_NEVER), -ENAMETOOLONG);
    longest[5 + 63] = '\0';
    MUST_EQ(gs_dial(longest, 0), -ETIMEDOUT);
    memset(longest, 'x', sizeof longest - 1);
    memcpy(longest, "unix:", 5);
    MUST_EQ(gs_dial(longest, GS_NEVER), -ENAMETOOLONG);
    const char *invalid[] = {"",
                             ":",
                             "host",
                             "host:",
                             ":80",
                             "::1:80",
                             "[]:80",
                             "[::1]",
                             "unix:",
                             "name:65536",
                             "name:-1",
                             "name:+80",
                             "name: 80",
                             "[::1]: 80",
                             "1.1.1.1:65616",
                             "name:4294967376",
                             "name:18446744073709551696"};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        MUST_EQ(gs_dial(invalid[i], GS_NEVER), -EINVAL);
    MUST_EQ(gs_dial("nobody:80", GS_NEVER), -GS_ENONAME);
    MUST_EQ(gs_dial("unanswered:80", GS_NEVER), -GS_ENAMESERVER);
    MUST_EQ(gs_dial("name:80", 0), -ETIMEDOUT);
    MUST_EQ(gs_dial("unix:/tmp/gossamer-no-such/folder", GS_NEVER), -ENOENT);
}

/* ---- Several addresses ---- */

THREAD_TEST(address_that_is_dead_or_refuses_is_passed_over, run_both_unwatched)
{
    struct place places[] = {silent_place(), refusing_place(), silent_place(), live_place()};
    const unsigned lists[][2] = {{0, 3}, {1, 3}, {3, 0}};
    for (unsigned i = 0; i < 3; i++) {
        const struct place both[] = {places[lists[i][0]], places[lists[i][1]]};
        int before = open_descriptors();
        list_places(both, 2);
        int fd = gs_dial("name:80", after(60 * GS_SECOND));
        must_reach(fd, &places[3]);
        must_echo(fd, places[3].listener);
        MUST_EQ(open_descriptors(), before);
    }
    list_places(places, 4);
    int fd = gs_dial("name:80", after(60 * GS_SECOND));
    must_reach(fd, &places[3]);
    gs_close(fd);
    for (int i = 0; i < 4; i++)
        close_place(&places[i]);
}

THREAD_TEST(dial_fails_when_all_addresses_have_failed, run_both_unwatched)
{
    struct place places[20];
    for (int i = 0; i < 20; i++)
        places[i] = i < 19 ? refusing_place() : live_place();
    list_places(places, 2);
    int before = open_descriptors();
    MUST_EQ(gs_dial("name:80", after(60 * GS_SECOND)), -ECONNREFUSED);
    MUST_EQ(open_descriptors(), before);
    list_places(places, 20);
    int fd = gs_dial("name:80", after(60 * GS_SECOND));
    must_reach(fd, &places[19]);
    gs_close(fd);
    for (int i = 0; i < 20; i++)
        close_place(&places[i]);
}

THREAD_TEST(deadline_ends_all_attempts, run_both_unwatched)
{
    struct place places[] = {silent_place(), silent_place(), refusing_place()};
    list_places(places, 3);
    int before = open_descriptors();
    MUST_EQ(gs_dial("name:80", 0), -ETIMEDOUT);
    MUST_EQ(gs_dial("name:80", after(50 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_dial("name:80", after(700 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_dial(places[0].text, after(50 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(open_descriptors(), before);
    for (int i = 0; i < 3; i++)
        close_place(&places[i]);
}

static void *accept_two_later(void *listener)
{
    MUST_EQ(gs_thread_sleep(after(300 * GS_MILLISECOND)), 0);
    for (int i = 0; i < 2; i++) {
        int fd = gs_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, after(60 * GS_SECOND));
        MUST(fd >= 0);
        gs_close(fd);
    }
    return NULL;
}

/* The kernel asks again after a second. */
THREAD_TEST(first_attempt_can_win_after_the_second_has_started, run_both)
{
    struct place places[] = {silent_place(), silent_place()};
    list_places(places, 2);
    struct gs_thread *acceptor = spawn(accept_two_later, &places[0].listener);
    int fd = gs_dial("name:80", after(60 * GS_SECOND));
    must_reach(fd, &places[0]);
    join(acceptor);
    gs_close(fd);
    for (int i = 0; i < 2; i++)
        close_place(&places[i]);
}

THREAD(alternate)
{
    struct place places[] = {silent_place(), live_place(), place_at("::1", 0)};
    list_places(places, 3);
    int fd = gs_dial("name:80", after(60 * GS_SECOND));
    must_reach(fd, &places[2]);
    must_echo(fd, places[2].listener);
    fd = gs_dial(places[2].text, after(60 * GS_SECOND));
    must_reach(fd, &places[2]);
    gs_close(fd);
    for (int i = 0; i < 3; i++)
        close_place(&places[i]);
}

TEST(families_take_turns)
{
    int fd = gs_listen("[::1]:0", NULL);
    if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
        return; /* there is no IPv6 */
    CHECK(fd >= 0);
    close(fd);
    run_both(alternate);
}

/* ---- Cancellation ---- */

static void *dial_canceled(void *address)
{
    return (void *)(intptr_t)gs_dial(address, GS_NEVER);
}

static void cancel_dial(const char *address)
{
    for (int wait_ms = 0; wait_ms <= 600; wait_ms += 300) {
        int before = open_descriptors();
        struct gs_thread *thread = spawn(dial_canceled, (void *)address);
        if (wait_ms)
            MUST_EQ(gs_thread_sleep(after((uint64_t)wait_ms * GS_MILLISECOND)), 0);
        gs_thread_cancel(thread);
        MUST_EQ((intptr_t)join(thread), -ECANCELED);
        MUST_EQ(open_descriptors(), before);
    }
}

THREAD(cancel_each_wait)
{
    struct place places[] = {silent_place(), silent_place(), silent_place()};
    list_places(places, 3);
    MUST_EQ(gs_dial("name:80", after(10 * GS_MILLISECOND)), -ETIMEDOUT);
    cancel_dial("name:80");
    cancel_dial(places[0].text);
    cancel_dial("stuck:80");
    for (int i = 0; i < 3; i++)
        close_place(&places[i]);
}

TEST(dial_is_canceled_in_the_look_up_and_between_and_after_attempts)
{
    CHECK_EQ(sem_init(&lookup_may_end, 0, 0), 0);
    run_both_unwatched(cancel_each_wait);
    for (int i = 0; i < 100; i++)
        sem_post(&lookup_may_end);
    while (atomic_load(&lookups_ended) < atomic_load(&lookups_started))
        usleep(1000);
}

/* ---- Lack of descriptors ---- */

static atomic_int sockets, failing_socket; /* the number of calls; which one fails, 0: all */
static atomic_bool is_failing;

static long fail_socket(long number, void *data)
{
    (void)data;
    if (number != SYS_socket || !is_failing)
        return 0;
    int call = ++sockets;
    return !failing_socket || call == failing_socket ? -EMFILE : 0;
}

static int dial_without_socket(int which, const char *address, uint64_t deadline_ns)
{
    sockets = 0;
    failing_socket = which;
    is_failing = true;
    int fd = gs_dial(address, deadline_ns);
    is_failing = false;
    return fd;
}

THREAD(lack_descriptors)
{
    struct place places[] = {live_place(), live_place()}, silent = silent_place();
    list_places(places, 2);
    MUST_EQ(dial_without_socket(0, "name:80", GS_NEVER), -EMFILE);
    MUST_EQ(dial_without_socket(0, places[0].text, GS_NEVER), -EMFILE);
    MUST_EQ(dial_without_socket(0, "unix:/tmp/socket", GS_NEVER), -EMFILE);
    int fd = dial_without_socket(1, "name:80", GS_NEVER);
    must_reach(fd, &places[1]);
    gs_close(fd);
    const struct place both[] = {silent, places[0]};
    list_places(both, 2);
    MUST_EQ(dial_without_socket(2, "name:80", after(600 * GS_MILLISECOND)), -ETIMEDOUT);
    close_place(&silent);
    for (int i = 0; i < 2; i++)
        close_place(&places[i]);
}

TEST(attempt_without_a_descriptor_counts_as_failed)
{
    gs_sys_set_fault(fail_socket, NULL);
    run_with(1, lack_descriptors);
    gs_sys_set_fault(NULL, NULL);
}

/* ---- A socket that connects to itself ---- */

static struct sockaddr_storage free_port;
static int next_fd;

/* The port is that of a socket that does not listen: both may use it. */
static void share_port(int fd)
{
    const int on = 1;
    MUST_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
}

static long bind_to_free_port(long number, void *data)
{
    (void)data;
    if (number != SYS_connect)
        return 0;
    share_port(next_fd);
    MUST_EQ(bind(next_fd, (struct sockaddr *)&free_port, sizeof(struct sockaddr_in)), 0);
    return 0;
}

THREAD(dial_from_the_same_port)
{
    struct place place = refusing_place();
    share_port(place.filler);
    free_port = place.address;
    /* So that the socket gets the number that is free now. */
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    next_fd = dup(0);
    close(next_fd);
    gs_sys_set_fault(bind_to_free_port, NULL);
    int fd = gs_dial(place.text, after(20 * GS_SECOND));
    gs_sys_set_fault(NULL, NULL);
    MUST_EQ(fd, -ECONNREFUSED);
    close_place(&place);
}

TEST(port_where_nobody_listens_is_not_reached_from_itself)
{
    run_unwatched(1, dial_from_the_same_port);
}

/* ---- Unix sockets ---- */

static char unix_address[80];

static void *accept_all_later(void *listener)
{
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    int fd;
    for (int i = 0; i < 3; i++) {
        fd = gs_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, after(20 * GS_SECOND));
        MUST(fd >= 0);
        gs_close(fd);
    }
    return NULL;
}

/* A Unix socket with the backlog 1 has room for two connections. */
THREAD(dial_unix)
{
    const struct gs_listen_options options = {.backlog = 1};
    int fds[3], listener = gs_listen(unix_address, &options);
    MUST(listener >= 0);
    must_echo(gs_dial(unix_address, 0), listener);
    for (int i = 0; i < 2; i++) {
        fds[i] = gs_dial(unix_address, 0);
        MUST(fds[i] >= 0);
    }
    MUST_EQ(gs_dial(unix_address, 0), -ETIMEDOUT);
    MUST_EQ(gs_dial(unix_address, after(20 * GS_MILLISECOND)), -ETIMEDOUT);
    cancel_dial(unix_address);
    struct gs_thread *acceptor = spawn(accept_all_later, &listener);
    fds[2] = gs_dial(unix_address, GS_NEVER);
    MUST(fds[2] >= 0);
    join(acceptor);
    for (int i = 0; i < 3; i++)
        gs_close(fds[i]);
    gs_close(listener);
    gs_thread_sleep(after(GS_MILLISECOND)); /* io_uring keeps the file until the loop polls */
    MUST_EQ(gs_dial(unix_address, GS_NEVER), -ECONNREFUSED);
}

TEST(unix_socket_is_dialed_and_waited_for_while_its_accept_queue_is_full)
{
    char folder[] = "/tmp/gossamer-dial-XXXXXX";
    CHECK(mkdtemp(folder));
    snprintf(unix_address, sizeof unix_address, "unix:%s/socket", folder);
    run_both_unwatched(dial_unix);
    unlink(unix_address + strlen("unix:"));
    rmdir(folder);
}

/* ---- Several workers ---- */

enum { DIALERS = 12, DIALS = 20 };

THREAD(dial_often)
{
    for (int i = 0; i < DIALS; i++) {
        int fd = gs_dial("name:80", after(60 * GS_SECOND));
        MUST(fd >= 0);
        MUST_EQ(gs_send_all(fd, "x", 1, GS_NEVER), 1);
        gs_close(fd);
    }
}

THREAD_TEST(threads_of_several_workers_dial_at_the_same_time, run_both)
{
    struct place places[] = {refusing_place(), live_place()};
    struct gs_thread *dialers[DIALERS];
    list_places(places, 2);
    for (int i = 0; i < DIALERS; i++) {
        const struct gs_thread_attributes attributes = {.migrates = i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, dial_often, NULL, &dialers[i]), 0);
    }
    for (int i = 0; i < DIALERS * DIALS; i++) {
        int fd = gs_accept(places[1].listener, NULL, NULL, SOCK_CLOEXEC, after(60 * GS_SECOND));
        char byte;
        MUST(fd >= 0);
        MUST_EQ(gs_recv(fd, &byte, 1, 0, after(60 * GS_SECOND)), 1);
        gs_close(fd);
    }
    for (int i = 0; i < DIALERS; i++)
        join(dialers[i]);
    for (int i = 0; i < 2; i++)
        close_place(&places[i]);
}
