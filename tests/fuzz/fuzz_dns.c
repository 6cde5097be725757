/* Fuzzes what names are looked up with: nsswitch.conf and resolv.conf, the hosts file, and the
 * answers of a name server, which c-ares parses. The first byte of the input chooses one. */
#include "base/hosts_file.h"
#include "base/look_up.h"
#include "dns/config.h"
#include "dns/dns.h"

#include <arpa/inet.h>
#include <assert.h>
#include <gossamer/loop.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WORD_MAX 255 /* of the hosts file; a longer word is cut */

/* ---- nsswitch.conf and resolv.conf: the text is made of lines, and each counts for itself ---- */

static struct dns_config parse(void (*parser)(struct dns_config *config, char *text),
                               const char *text, size_t split)
{
    struct dns_config config = {.timeout_s = 5, .attempts = 2};
    char *first = strndup(text, split), *second = strdup(text + split);
    assert(first && second);
    parser(&config, first);
    parser(&config, second);
    assert(config.timeout_s <= 30 && config.attempts <= 5);
    free(first);
    free(second);
    return config;
}

static void try_config(void (*parser)(struct dns_config *config, char *text), const char *name,
                       const char *text)
{
    struct dns_config whole = parse(parser, text, 0),
                      halves = parse(parser, text, strcspn(text, "\n"));
    assert(!memcmp(&whole, &halves, sizeof whole));
    struct resolution *resolution = gs_resolution_new(name, "80", NULL);
    assert(resolution);
    if (gs_dns_config_suits(&whole, resolution))
        assert(*name && !whole.has_other_sources && !whole.has_other_options);
    gs_resolution_free(resolution);
}

/* ---- The hosts file, compared with a simpler search ---- */

static bool line_names(char *line, const char *name, int family)
{
    bool is_first = true, is_right = false;
    char *rest;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        word[strnlen(word, WORD_MAX)] = '\0';
        if (is_first)
            is_right = family == AF_UNSPEC || (family == AF_INET6) == !!strchr(word, ':');
        else if (is_right && !strcasecmp(word, name))
            return true;
        is_first = false;
    }
    return false;
}

static bool text_names(char *text, const char *name, int family)
{
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (line_names(line, name, family))
            return true;
    return false;
}

static void try_hosts(const char *name, char *text, int family)
{
    static char path[] = "/tmp/fuzz_dns_hosts.XXXXXX";
    int fd = mkstemp(path);
    size_t n = strlen(text);
    assert(fd >= 0 && write(fd, text, n) == (ssize_t)n);
    gs_hosts_file = path;
    enum hosts_entry entry = gs_hosts_file_find(name, family);
    assert(entry == (text_names(text, name, family) ? HOSTS_PRESENT : HOSTS_ABSENT));
    close(fd);
    unlink(path);
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
}

/* ---- Answers: to each question the input, and then one that ends the look-up ---- */

enum { HEADER = 12, PORT = 80 };

static struct gs_loop *loop;
static struct gs_dns *dns;
static struct gs_io server;
static const uint8_t *answer;
static size_t answer_n;
static bool is_complete;

static void send_answer(const struct sockaddr_in *to, const char *bytes, size_t n)
{
    (void)!sendto(server.fd, bytes, n, 0, (const struct sockaddr *)to, sizeof *to);
}

/* The input has all but the number and the question, which are those of the query. */
static void on_query(struct gs_io *io, unsigned events)
{
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    char bytes[8192];
    (void)events;
    ssize_t n = recvfrom(io->fd, bytes, 512, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
    if (n < HEADER)
        return;
    size_t header = answer_n < HEADER - 2 ? answer_n : HEADER - 2;
    size_t rest = answer_n - header < sizeof bytes - 512 ? answer_n - header : sizeof bytes - 512;
    memcpy(bytes + 2, answer, header);
    memcpy(bytes + n, answer + header, rest);
    bytes[4] = 0;
    bytes[5] = 1;
    send_answer(&from, bytes, (size_t)n + rest);
    memcpy(bytes + 2, "\x81\x82\0\1\0\0\0\0\0\0", HEADER - 2); /* SERVFAIL */
    send_answer(&from, bytes, (size_t)n);
}

static void on_complete(struct look_up_waiter *waiter)
{
    (void)waiter;
    is_complete = true;
    gs_loop_stop(loop);
}

static void start_server(void)
{
    static char resolv[64];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert(!bind(fd, (struct sockaddr *)&address, length));
    assert(!getsockname(fd, (struct sockaddr *)&address, &length));
    gs_dns_port = ntohs(address.sin_port);
    int file = memfd_create("resolv.conf", MFD_CLOEXEC);
    assert(dprintf(file, "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n") > 0);
    snprintf(resolv, sizeof resolv, "/proc/self/fd/%d", file);
    gs_resolv_conf = resolv;
    gs_nsswitch_conf = "/dev/null";
    assert(!gs_loop_new(&loop) && !gs_dns_operations.new(loop, &dns));
    gs_io_init(&server, loop, on_query);
    gs_io_set(&server, fd, GS_READ);
    assert(!gs_io_start(&server));
}

static void check_found(const struct addrinfo *found, int flags)
{
    assert(found && !found->ai_canonname == !(flags & AI_CANONNAME));
    for (; found; found = found->ai_next) {
        bool is_six = found->ai_family == AF_INET6;
        assert(is_six || found->ai_family == AF_INET);
        assert(found->ai_addrlen ==
               (is_six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)));
        assert(((struct sockaddr_in *)(void *)found->ai_addr)->sin_port == htons(PORT));
        assert(found->ai_flags == flags && found->ai_socktype);
    }
}

static void try_answer(int family)
{
    const struct addrinfo hints = {.ai_flags = AI_CANONNAME | AI_NUMERICSERV, .ai_family = family};
    const struct addrinfo numeric = {
        .ai_flags = AI_NUMERICHOST, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct look_up *look_up = gs_look_up_new("name.test.", "80", &hints);
    struct addrinfo **services = &gs_look_up_resolution(look_up)->services;
    struct look_up_waiter waiter = {.look_up = look_up, .complete = on_complete};
    if (!loop)
        start_server();
    gs_hosts_file = "/dev/null";
    gs_look_up_classify(look_up);
    assert(gs_look_up_is_foreign(look_up));
    assert(!getaddrinfo("127.0.0.1", "80", &numeric, services));
    is_complete = false;
    assert(!gs_look_up_start(&waiter, NULL, gs_dns_operations.resolver(dns)));
    while (!is_complete)
        gs_loop_run(loop);
    if (!gs_look_up_result(look_up))
        check_found(gs_look_up_addresses(look_up), hints.ai_flags);
    gs_look_up_release(look_up);
}

/* ---- The input ---- */

enum { NSSWITCH, RESOLV, HOSTS, ANSWER, KINDS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6};
    if (!size)
        return 0;
    int kind = data[0] % KINDS, family = families[data[0] / KINDS % 3];
    answer = data + 1;
    answer_n = size - 1;
    if (kind == ANSWER) {
        try_answer(family);
        return 0;
    }
    char *name = strndup((const char *)data + 1, size - 1);
    assert(name);
    char *newline = strchr(name, '\n'), *text = newline ? newline + 1 : name + strlen(name);
    if (newline)
        *newline = '\0';
    if (kind != HOSTS)
        try_config(kind == RESOLV ? gs_dns_parse_resolv : gs_dns_parse_nsswitch, name, text);
    else if (strlen(name) < WORD_MAX)
        try_hosts(name, text, family);
    free(name);
    return 0;
}
