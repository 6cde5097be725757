/* Look-ups by user threads of the names of the test's own server. Those of getaddrinfo that would
 * ask another one are counted, and find 192.0.2.1. */
#ifndef GS_TESTS_DNS_FIXTURE_H
#define GS_TESTS_DNS_FIXTURE_H

#include "base/hosts_file.h"
#include "dns/config.h"
#include "dns/dns.h"
#include "tests/dns/server.h"
#include "tests/thread/fixture.h"

#include <gossamer/error.h>
#include <gossamer/io.h>

static char test_hosts[] = "/tmp/test_dns_hosts.XXXXXX";
static char test_nsswitch[] = "/tmp/test_dns_nsswitch.XXXXXX";
static char test_resolv[] = "/tmp/test_dns_resolv.XXXXXX";

static inline void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file)
        abort();
    fputs(text, file);
    fclose(file);
}

static inline const char *new_file(char *path, const char *text)
{
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    write_file(path, text);
    return path;
}

/* With this resolv.conf, and a hosts file that has "local". */
static inline void run_dns(unsigned workers, const char *resolv, gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = workers};
    start_server();
    gs_dns_port = server.port;
    gs_hosts_file = new_file(test_hosts, "127.0.0.1 local\n");
    gs_nsswitch_conf = new_file(test_nsswitch, "hosts: files dns\n");
    gs_resolv_conf = new_file(test_resolv, resolv);
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
    unlink(test_hosts);
    unlink(test_nsswitch);
    unlink(test_resolv);
    stop_server();
}

/* A machine under load answers late; no test waits for a time limit of these. */
static const char usual[] = "nameserver 127.0.0.1\noptions timeout:5 attempts:5\n";

static inline void run_usual(gs_thread_fn *first)
{
    run_dns(1, usual, first);
    run_dns(3, usual, first);
}

#define STREAM_HINTS {.ai_socktype = SOCK_STREAM}

static inline int find_until(const char *name, uint64_t deadline_ns)
{
    const struct addrinfo hints = STREAM_HINTS;
    struct addrinfo *found = NULL;
    int err = gs_resolve(name, "80", &hints, deadline_ns, &found);
    MUST_EQ(found != NULL, err == 0);
    if (found)
        freeaddrinfo(found);
    return err;
}

static inline int find_name(const char *name)
{
    return find_until(name, GS_NEVER);
}

#ifdef WITH_GETADDRINFO
static atomic_int other_calls;

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_addresses);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_addresses);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **ret_addresses)
{
    const struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    if (hints->ai_flags & AI_NUMERICHOST)
        return __real_getaddrinfo(node, service, hints, ret_addresses);
    atomic_fetch_add(&other_calls, 1);
    return __real_getaddrinfo("192.0.2.1", "80", &numeric, ret_addresses);
}
#endif

#endif
