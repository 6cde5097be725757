/* Fetch pages at the same time, all before one deadline: fetch SECONDS HOST:PORT/PATH...
 * No more than eight connections are open at once. Ctrl-C gives up what is not there yet. */
#include <gossamer/io.h>
#include <gossamer/sync.h>
#include <gossamer/sys.h>

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gs_semaphore slots = {.count = 8};
static uint64_t deadline_ns;
static unsigned fetching;

static int connect_to(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    int fd = gs_resolve(host, port, &hints, deadline_ns, &all);
    if (fd)
        return fd;
    int err = -EHOSTUNREACH;
    for (const struct addrinfo *to = all; to && err; to = to->ai_next) {
        fd = gs_sys_socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        err = fd < 0 ? fd : gs_connect(fd, to->ai_addr, to->ai_addrlen, deadline_ns);
        if (err && fd >= 0)
            gs_close(fd);
    }
    freeaddrinfo(all);
    return err ? err : fd;
}

static ssize_t fetch(const char *address)
{
    char host[256], port[6], path[512] = "", bytes[4096];
    if (sscanf(address, "%255[^:/]:%5[0-9]/%511s", host, port, path) < 2)
        return -EINVAL;
    int fd = connect_to(host, port);
    if (fd < 0)
        return fd;
    int length = snprintf(bytes, sizeof bytes, "GET /%s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host);
    ssize_t n = gs_send_all(fd, bytes, (size_t)length, deadline_ns), total = 0;
    while (n > 0 && (n = gs_recv(fd, bytes, sizeof bytes, 0, deadline_ns)) > 0)
        total += n;
    gs_close(fd);
    return n < 0 ? n : total;
}

static void *fetch_in_turn(void *address)
{
    ssize_t n = gs_semaphore_wait(&slots, deadline_ns);
    if (!n) {
        n = fetch(address);
        gs_semaphore_post(&slots);
    }
    const char *problem = n < 0 ? strerror((int)-n) : "all there";
    printf("%s: %s, %zd bytes\n", (const char *)address, problem, n < 0 ? 0 : n);
    if (!--fetching)
        gs_threads_cancel_all(); /* the first thread need not wait for Ctrl-C any more */
    return NULL;
}

static void *run(void *addresses)
{
    for (char **address = addresses; *address; address++)
        fetching += gs_thread_spawn(NULL, fetch_in_turn, *address, NULL) == 0;
    if (fetching && !gs_wait_signal(SIGINT, GS_NEVER))
        gs_threads_cancel_all();
    return NULL;
}

int main(int argc, char **argv)
{
    deadline_ns = gs_clock_now() + (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) * GS_SECOND;
    return argc < 3 || gs_threads_run(NULL, run, argv + 2, NULL);
}
