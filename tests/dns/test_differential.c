/* The results are those of getaddrinfo, which asks the same server: at port 53 of a network that is
 * this process's alone. */
#include "tests/dns/fixture.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

static void replace(const char *path, char *with, const char *text)
{
    CHECK_EQ(mount(new_file(with, text), path, NULL, MS_BIND, NULL), 0);
    unlink(with);
}

static void enter_own_network(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int flags = CLONE_NEWNET | CLONE_NEWNS;
    if (unshare(flags) && unshare(CLONE_NEWUSER | flags))
        SKIP("this process may have no network of its own");
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0);
    if (ioctl(fd, SIOCSIFFLAGS, &loopback))
        SKIP("the network of this process cannot be used");
    close(fd);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        SKIP("this process may mount nothing");
    replace("/etc/hosts", test_hosts, "127.0.0.1 local\n");
    replace("/etc/nsswitch.conf", test_nsswitch, "hosts: files dns\nservices: files\n");
    replace("/etc/resolv.conf", test_resolv,
            "nameserver 127.0.0.1\nsearch first.test second.test\noptions timeout:5 attempts:3\n");
}

static void print(char *text, size_t size, const struct addrinfo *at)
{
    char host[64];
    const struct sockaddr_in *four = (const void *)at->ai_addr;
    const struct sockaddr_in6 *six = (const void *)at->ai_addr;
    bool is_four = at->ai_family == AF_INET;
    MUST(is_four || at->ai_family == AF_INET6);
    inet_ntop(at->ai_family, is_four ? (const void *)&four->sin_addr : &six->sin6_addr, host,
              sizeof host);
    snprintf(text, size, "%s %u %d/%d %x %u %s\n", host,
             ntohs(is_four ? four->sin_port : six->sin6_port), at->ai_socktype, at->ai_protocol,
             (unsigned)at->ai_flags, at->ai_addrlen, at->ai_canonname ? at->ai_canonname : "");
}

static char *print_all(struct addrinfo *found)
{
    static char texts[2][200000];
    static unsigned turn;
    char *text = texts[++turn % 2];
    size_t length = 0;
    text[0] = '\0';
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        print(text + length, sizeof texts[0] - length, at);
        length += strlen(text + length);
    }
    if (found)
        freeaddrinfo(found);
    return text;
}

static bool is_about_names(int result)
{
    return result == EAI_NONAME || result == EAI_NODATA || result == EAI_SERVICE ||
           result == EAI_ADDRFAMILY;
}

static void compare(const char *name, const char *service, const struct addrinfo *hints)
{
    struct addrinfo *expected = NULL, *found = NULL;
    int result = getaddrinfo(name, service, hints, &expected),
        err = gs_resolve(name, service, hints, GS_NEVER, &found);
    if ((err == 0) != (result == 0) || (err == -GS_ENONAME) != is_about_names(result))
        fprintf(stderr, "%s: %d by getaddrinfo, %d by gs_resolve\n", name, result, err);
    MUST_EQ(err == 0, result == 0);
    MUST_EQ(err == -GS_ENONAME, is_about_names(result));
    const char *expected_text = print_all(expected), *text = print_all(found);
    if (strcmp(text, expected_text) != 0)
        fprintf(stderr, "%s:\n%sby getaddrinfo, but by gs_resolve\n%s", name, expected_text, text);
    MUST(!strcmp(text, expected_text));
}

static const char *const names[] = {
    "n1.test", "n70000.test.", "four.test", "six.test",     "empty.test", "missing.test",
    "four",    "n5",           "missing",   "alias.test",   "cut.test",   "failing.test",
    "local",   "127.0.0.1",    "::1",       "refused.test", "N7.Test",    "unsupported.test",
    "a..test", "1x.test",      "-n1.test",  "n1_2.test",    "1.test",     "n9.a.b.c.d.test",
};

static void compare_with(const char *service, const struct addrinfo *hints)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare(names[i], service, hints);
}

static void *compare_all(void *unused)
{
    static const struct addrinfo hints[] = {
        {.ai_socktype = SOCK_STREAM},
        {.ai_family = AF_INET},
        {.ai_family = AF_INET6, .ai_socktype = SOCK_DGRAM},
        {.ai_flags = AI_CANONNAME, .ai_protocol = IPPROTO_TCP},
        {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM},
        {.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        compare_with("443", &hints[i]);
    compare_with(NULL, NULL);
    compare_with("https", &hints[1]);
    MUST(atomic_load(&server.queries) > 0);
    return unused;
}

TEST(results_are_those_of_getaddrinfo)
{
    enter_own_network();
    server_port = 53;
    start_server();
    run_with(1, compare_all);
    stop_server();
}
