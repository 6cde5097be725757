/* Ask several servers of this host at once, and print the first answer: fastest SECONDS PORT...
 * The threads that ask are a scope: all of them have ended when it has. */
#include <gossamer/io.h>
#include <gossamer/scope.h>
#include <gossamer/sys.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct race {
    struct gs_scope scope;
    char answer[1024];
    unsigned servers;
    uint64_t deadline_ns;
    char **ports;
};
struct runner {
    struct race *race;
    uint16_t port;
};

static ssize_t ask(const struct runner *runner, char *bytes, size_t n)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(runner->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    ssize_t received = gs_connect(fd, (const void *)&to, sizeof to, GS_NEVER);
    if (!received)
        received = gs_recv(fd, bytes, n, 0, GS_NEVER);
    gs_close(fd);
    return received;
}

/* A server that fails is out of the race; only the last one ends it. */
static int run(void *runner_)
{
    const struct runner *runner = runner_;
    struct race *race = runner->race;
    char bytes[sizeof race->answer] = "";
    ssize_t n = ask(runner, bytes, sizeof bytes - 1);
    if (n <= 0)
        return --race->servers ? 0 : -ECONNREFUSED;
    if (!*race->answer)
        memcpy(race->answer, bytes, sizeof bytes);
    gs_scope_cancel(&race->scope);
    return 0;
}

static void *hold(void *race_)
{
    struct race *race = race_;
    struct runner runners[16];
    int err = 0;
    for (unsigned i = 0; !err && i < 16 && race->ports[i]; i++, race->servers++) {
        runners[i] = (struct runner){race, (uint16_t)strtoul(race->ports[i], NULL, 10)};
        err = gs_scope_spawn(&race->scope, run, &runners[i], GS_NEVER);
    }
    int outcome = gs_scope_wait(&race->scope, race->deadline_ns);
    printf("%s\n", outcome ? strerror(-outcome) : race->answer);
    return NULL;
}

int main(int argc, char **argv)
{
    struct race race = {.deadline_ns = gs_clock_now(), .ports = argv + 2};
    race.deadline_ns += (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) * GS_SECOND;
    return argc < 3 || gs_threads_run(NULL, hold, &race, NULL);
}
