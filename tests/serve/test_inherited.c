/* Listening sockets that another process has opened. */
#include "serve/accept/inherited.h"
#include "serve/accept/listener.h"

#include "tests/test.h"

static const struct serve_options options = {.backlog = 16};

static struct serve_address address_of(const char *word)
{
    struct serve_address address;
    const char *problem;
    CHECK_EQ(serve_address_parse(word, &address, &problem), 0);
    return address;
}

static int listen_at(struct serve_address *address)
{
    int fd = serve_listen(address, &options, SERVE_FIRST);
    CHECK(fd >= 0);
    return fd;
}

/* As a service manager passes descriptors on: from 3 on, in this order. */
static void pass_on(const int *fds, int count, const char *names)
{
    char text[16];
    int high[8];
    for (int i = 0; i < count; i++)
        high[i] = fcntl(fds[i], F_DUPFD, 64);
    for (int i = 0; i < count; i++)
        CHECK_EQ(dup2(high[i], SERVE_INHERITED_FIRST + i), SERVE_INHERITED_FIRST + i);
    snprintf(text, sizeof text, "%d", getpid());
    setenv("LISTEN_PID", text, 1);
    snprintf(text, sizeof text, "%d", count);
    setenv("LISTEN_FDS", text, 1);
    if (names)
        setenv("LISTEN_FDNAMES", names, 1);
    else
        unsetenv("LISTEN_FDNAMES");
}

/* Each test in a process of its own, whose descriptors it may replace. */
#define INHERITED_TEST(name_)                                                                      \
    static void name_##_body(void);                                                                \
    TEST(name_)                                                                                    \
    {                                                                                              \
        pid_t pid = fork();                                                                        \
        int status = -1;                                                                           \
        if (!pid) {                                                                                \
            name_##_body();                                                                        \
            _exit(0);                                                                              \
        }                                                                                          \
        CHECK(pid > 0);                                                                            \
        CHECK_EQ(waitpid(pid, &status, 0), pid);                                                   \
        CHECK_EQ(status, 0);                                                                       \
    }                                                                                              \
    static void name_##_body(void)

INHERITED_TEST(sockets_are_taken_with_their_addresses_and_names)
{
    struct serve_address plain = address_of("127.0.0.1:0"), tls = address_of("127.0.0.1:0");
    const int fds[] = {listen_at(&plain), listen_at(&tls)};
    struct serve_inherited inherited;
    const char *problem = NULL;
    pass_on(fds, 2, "web:https-web");
    CHECK_EQ(serve_inherited_take(&inherited, &problem), 0);
    CHECK_EQ(inherited.count, 2);
    CHECK(!inherited.items[0].address.is_tls);
    CHECK(inherited.items[1].address.is_tls);
    CHECK_EQ(serve_address_port(&inherited.items[0].address), serve_address_port(&plain));
    CHECK_EQ(fcntl(3, F_GETFD), FD_CLOEXEC);
    CHECK(fcntl(3, F_GETFL) & O_NONBLOCK);
    CHECK(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
    serve_inherited_done(&inherited);
    CHECK_EQ(fcntl(3, F_GETFD), -1);
    CHECK_EQ(fcntl(4, F_GETFD), -1);
}

INHERITED_TEST(what_is_meant_for_another_process_is_not_taken)
{
    struct serve_address address = address_of("127.0.0.1:0");
    const int fd = listen_at(&address);
    struct serve_inherited inherited;
    const char *problem = NULL;
    pass_on(&fd, 1, "web");
    setenv("LISTEN_PID", "1", 1);
    CHECK_EQ(serve_inherited_take(&inherited, &problem), 0);
    CHECK_EQ(inherited.count, 0);
    CHECK(!getenv("LISTEN_FDS"));
    CHECK(fcntl(3, F_GETFD) >= 0);
}

INHERITED_TEST(only_listening_stream_sockets_are_taken)
{
    int pipes[2];
    struct serve_inherited inherited;
    const char *problem;
    CHECK_EQ(pipe(pipes), 0);
    const int fds[] = {pipes[0], socket(AF_INET, SOCK_STREAM, 0), socket(AF_INET, SOCK_DGRAM, 0)};
    for (int i = 0; i < 3; i++) {
        problem = NULL;
        pass_on(&fds[i], 1, NULL);
        CHECK_EQ(serve_inherited_take(&inherited, &problem), -EINVAL);
        CHECK(strstr(problem, "not a listening stream socket"));
        CHECK(!getenv("LISTEN_FDS"));
    }
}

INHERITED_TEST(numbers_that_are_none_or_too_large_are_refused)
{
    static const char *const wrong[] = {"", "x", "-1", "1x", "99999999999999999999", "8193", " 1"};
    struct serve_inherited inherited;
    const char *problem;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        problem = NULL;
        pass_on(NULL, 0, NULL);
        setenv("LISTEN_FDS", wrong[i], 1);
        CHECK_EQ(serve_inherited_take(&inherited, &problem), -EINVAL);
        CHECK(problem);
    }
}

INHERITED_TEST(descriptors_that_are_not_open_are_refused)
{
    struct serve_inherited inherited;
    const char *problem = NULL;
    pass_on(NULL, 0, NULL);
    close(SERVE_INHERITED_FIRST);
    setenv("LISTEN_FDS", "1", 1);
    CHECK_EQ(serve_inherited_take(&inherited, &problem), -EINVAL);
}

INHERITED_TEST(all_sockets_of_an_address_have_one_owner)
{
    struct serve_address address = address_of("127.0.0.1:0"), other = address_of("127.0.0.1:0");
    const int first = listen_at(&address);
    const int fds[] = {first, listen_at(&other), serve_listen(&address, &options, SERVE_JOIN)};
    struct serve_inherited inherited;
    const char *problem = NULL;
    CHECK(fds[2] >= 0);
    pass_on(fds, 3, NULL);
    CHECK_EQ(serve_inherited_take(&inherited, &problem), 0);
    struct serve_address asked = address_of("127.0.0.1:0"), again = asked, none = asked;
    CHECK_EQ(serve_inherited_claim(&inherited, &asked, 0), 2);
    CHECK_EQ(serve_address_port(&asked), serve_address_port(&address));
    CHECK_EQ(serve_inherited_claim(&inherited, &again, 1), 1);
    CHECK_EQ(serve_address_port(&again), serve_address_port(&other));
    CHECK_EQ(serve_inherited_claim(&inherited, &none, 2), 0);
    CHECK_EQ(serve_inherited_socket(&inherited, 0, 0), 3);
    CHECK_EQ(serve_inherited_socket(&inherited, 0, 1), 5);
    CHECK_EQ(serve_inherited_socket(&inherited, 1, 0), 4);
    serve_inherited_done(&inherited);
}

INHERITED_TEST(addresses_of_other_families_hosts_and_paths_are_not_claimed)
{
    char folder[] = "/tmp/gossamer-inherited-XXXXXX", word[80], longer[88];
    CHECK(mkdtemp(folder));
    snprintf(word, sizeof word, "unix:%s/socket", folder);
    snprintf(longer, sizeof longer, "%s2", word);
    struct serve_address tcp = address_of("127.0.0.1:0"), un = address_of(word);
    const int fds[] = {listen_at(&tcp), listen_at(&un)};
    struct serve_inherited inherited;
    const char *problem = NULL;
    pass_on(fds, 2, NULL);
    CHECK_EQ(serve_inherited_take(&inherited, &problem), 0);
    struct serve_address host = address_of("127.0.0.2:0"), path = address_of(longer);
    struct serve_address six = address_of("[::1]:0"), same = address_of(word);
    CHECK_EQ(serve_inherited_claim(&inherited, &host, 0), 0);
    CHECK_EQ(serve_inherited_claim(&inherited, &path, 0), 0);
    CHECK_EQ(serve_inherited_claim(&inherited, &six, 0), 0);
    CHECK_EQ(serve_inherited_claim(&inherited, &same, 0), 1);
    serve_inherited_done(&inherited);
    unlink(word + strlen("unix:"));
    rmdir(folder);
}
