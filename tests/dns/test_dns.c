/* Look-ups by name servers, as getaddrinfo would make them. */
#define WITH_GETADDRINFO
#include "tests/dns/fixture.h"

static void print_address(const struct addrinfo *at, char *text, size_t size)
{
    char host[64];
    const void *address = at->ai_family == AF_INET
                              ? (const void *)&((const struct sockaddr_in *)at->ai_addr)->sin_addr
                              : &((const struct sockaddr_in6 *)at->ai_addr)->sin6_addr;
    in_port_t port = at->ai_family == AF_INET
                         ? ((const struct sockaddr_in *)at->ai_addr)->sin_port
                         : ((const struct sockaddr_in6 *)at->ai_addr)->sin6_port;
    MUST_EQ(at->ai_addrlen,
            at->ai_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    snprintf(text, size, "%s %u %d/%d ", inet_ntop(at->ai_family, address, host, sizeof host),
             ntohs(port), at->ai_socktype, at->ai_protocol);
}

/* Which addresses there are, in which order, is c-ares's; the order of families depends on the
 * machine's addresses. */
static void must_find(const char *name, const char *service, const struct addrinfo *hints,
                      const char *expected)
{
    static char text[65536];
    struct addrinfo *found = NULL;
    text[0] = '\0';
    int err = gs_resolve(name, service, hints, GS_NEVER, &found);
    if (err)
        fprintf(stderr, "%s:\n", name);
    MUST_EQ(err, 0);
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        print_address(at, text + strlen(text), sizeof text - strlen(text));
    if (strcmp(text, expected) != 0)
        fprintf(stderr, "%s: found %s\n", name, text);
    MUST(!strcmp(text, expected));
    freeaddrinfo(found);
}

static void *find_addresses(void *unused)
{
    const struct addrinfo stream = STREAM_HINTS,
                          four = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM},
                          six = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM},
                          any = {.ai_family = AF_INET},
                          raw = {.ai_family = AF_INET, .ai_socktype = SOCK_RAW};
    must_find("n65793.test", "80", &four, "10.1.1.1 80 2/17 ");
    must_find("n65793.test", "80", &six, "2001:db8::1:101 80 1/6 ");
    must_find("four.test", "443", &stream, "10.0.0.1 443 1/6 ");
    must_find("six.test", NULL, &stream, "2001:db8::1 0 1/6 ");
    must_find("n2.test.", "80", &any, "10.0.0.2 80 1/6 10.0.0.2 80 2/17 10.0.0.2 80 3/0 ");
    must_find("n2.test", NULL, &raw, "10.0.0.2 0 3/0 ");
    MUST_EQ(atomic_load(&other_calls), 0);
    must_find("N3.Test", "80", &four, "10.0.0.3 80 2/17 ");
    must_find("127.0.0.1", "80", &four, "127.0.0.1 80 2/17 ");
    return unused;
}

TEST(addresses_have_the_families_types_and_ports_of_the_hints)
{
    run_usual(find_addresses);
}

static void *find_services(void *unused)
{
    const struct addrinfo four = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM},
                          numeric = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    must_find("four.test", "http", &four, "10.0.0.1 80 1/6 ");
    MUST_EQ(gs_resolve("four.test", "no-such-service", &four, GS_NEVER, &found), -GS_ENONAME);
    MUST_EQ(gs_resolve("four.test", "http", &numeric, GS_NEVER, &found), -GS_ENONAME);
    MUST_EQ(atomic_load(&other_calls), 0);
    return unused;
}

TEST(services_by_name_are_those_of_this_machine)
{
    run_usual(find_services);
}

static void must_be_called(const char *name, const char *canonical_name)
{
    const struct addrinfo hints = {
        .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME};
    struct addrinfo *found = NULL;
    MUST_EQ(gs_resolve(name, "80", &hints, GS_NEVER, &found), 0);
    MUST(!strcmp(found->ai_canonname, canonical_name));
    MUST_EQ(found->ai_flags, AI_CANONNAME);
    if (found->ai_next)
        MUST(!found->ai_next->ai_canonname);
    freeaddrinfo(found);
}

static void *follow_aliases(void *unused)
{
    const struct addrinfo four = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    must_find("alias.test", "80", &four, "10.0.0.1 80 1/6 10.0.0.2 80 1/6 ");
    must_be_called("alias.test", "end.test");
    must_be_called("four.test", "four.test");
    return unused;
}

TEST(aliases_are_followed_to_the_canonical_name)
{
    run_usual(follow_aliases);
}

static void *find_much(void *unused)
{
    const struct addrinfo four = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    unsigned count = 0;
    MUST_EQ(gs_resolve("cut.test", "80", &four, GS_NEVER, &found), 0);
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        count++;
    MUST_EQ(count, 200);
    MUST_EQ(atomic_load(&server.tcp_queries), 1);
    freeaddrinfo(found);
    return unused;
}

TEST(answer_that_was_truncated_comes_by_tcp)
{
    run_usual(find_much);
}

static void *search(void *unused)
{
    MUST_EQ(find_name("missing"), -GS_ENONAME);
    MUST(was_asked("missing"));
    MUST_EQ(find_name("four"), 0);
    MUST(was_asked("four.first.test"));
    MUST_EQ(find_name("four.a"), 0);
    MUST(was_asked("four.a.first.test"));
    MUST_EQ(find_name("four.a.b"), 0);
    MUST(was_asked("four.a.b"));
    MUST_EQ(find_name("four."), 0);
    MUST(was_asked("four"));
    return unused;
}

TEST(domains_are_searched)
{
    run_dns(1, "nameserver 127.0.0.1\nsearch first.test second.test\noptions ndots:2\n", search);
}

/* The file is looked at once a second. */
static void *change_resolv_conf(void *unused)
{
    MUST_EQ(find_name("four"), 0);
    MUST(was_asked("four.before.test"));
    write_file(test_resolv, "nameserver 127.0.0.1\nsearch afterwards.test\n");
    do {
        MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
        MUST_EQ(find_name("four"), 0);
    } while (was_asked("four.before.test"));
    MUST(was_asked("four.afterwards.test"));
    return unused;
}

TEST(resolv_conf_that_changes_is_read_again)
{
    run_dns(1, "nameserver 127.0.0.1\nsearch before.test\n", change_resolv_conf);
}

static void must_be_of_getaddrinfo(const char *name, const struct addrinfo *hints)
{
    struct addrinfo *found = NULL;
    int before = atomic_load(&other_calls);
    unsigned queries = atomic_load(&server.queries);
    MUST_EQ(gs_resolve(name, "80", hints, GS_NEVER, &found), 0);
    MUST_EQ(atomic_load(&other_calls), before + 1);
    MUST_EQ(atomic_load(&server.queries), queries);
    freeaddrinfo(found);
}

static void *ask_others(void *unused)
{
    const struct addrinfo stream = STREAM_HINTS,
                          mapped = {.ai_family = AF_INET6, .ai_flags = AI_V4MAPPED},
                          translated = {.ai_flags = AI_IDN};
    must_be_of_getaddrinfo("local", &stream);
    must_be_of_getaddrinfo("localhost", &stream);
    must_be_of_getaddrinfo("a.localhost.", &stream);
    must_be_of_getaddrinfo("n1.test", &mapped);
    must_be_of_getaddrinfo("n1.test", &translated);
    write_file(test_nsswitch, "hosts: files resolve [!UNAVAIL=return] dns\n");
    MUST_EQ(gs_thread_sleep(after(1100 * GS_MILLISECOND)), 0);
    must_be_of_getaddrinfo("n1.test", &stream);
    return unused;
}

TEST(names_that_others_may_know_are_looked_up_by_getaddrinfo)
{
    run_dns(1, usual, ask_others);
    run_dns(3, usual, ask_others);
}

/* Whatever this machine's addresses are. */
static void *ask_without_hints(void *unused)
{
    struct addrinfo *found = NULL;
    MUST_EQ(gs_resolve("n1.test", "80", NULL, GS_NEVER, &found), 0);
    MUST_EQ(found->ai_flags, AI_V4MAPPED | AI_ADDRCONFIG);
    MUST_EQ(found->ai_socktype, SOCK_STREAM);
    freeaddrinfo(found);
    return unused;
}

TEST(look_up_without_hints_has_the_default_ones)
{
    run_usual(ask_without_hints);
}
