/* Fetch pages concurrently, with a common deadline: fetch SECONDS HOST:PORT/PATH...
 * At most eight connections are open at a time. Ctrl-C cancels the requests in flight. */
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sync.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static struct gs_semaphore slots = {.count = 8};
static uint64_t deadline_ns;
static unsigned active;

static ssize_t fetch(const char *address)
{
    char host[270], path[512] = "", bytes[4096];
    if (sscanf(address, "%269[^/]/%511s", host, path) < 1)
        return -EINVAL;
    int fd = gs_dial(host, deadline_ns);
    if (fd < 0)
        return fd;
    int length = snprintf(bytes, sizeof bytes, "GET /%s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host);
    ssize_t n = gs_send_all(fd, bytes, (size_t)length, deadline_ns), total = 0;
    while (n > 0 && (n = gs_recv(fd, bytes, sizeof bytes, 0, deadline_ns)) > 0)
        total += n;
    gs_close(fd);
    return n < 0 ? n : total;
}

static void *fetch_and_print(void *address)
{
    ssize_t n = gs_semaphore_wait(&slots, deadline_ns);
    if (!n) {
        n = fetch(address);
        gs_semaphore_post(&slots);
    }
    const char *outcome = n < 0 ? gs_strerror((int)n) : "complete";
    printf("%s: %s, %zd bytes\n", (const char *)address, outcome, n < 0 ? 0 : n);
    if (!--active)
        gs_threads_cancel_all(); /* wakes the first thread, which waits for Ctrl-C */
    return NULL;
}

static void *run(void *addresses)
{
    for (char **address = addresses; *address; address++)
        active += gs_thread_spawn(NULL, fetch_and_print, *address, NULL) == 0;
    if (active && !gs_wait_signal(SIGINT, GS_NEVER))
        gs_threads_cancel_all();
    return NULL;
}

int main(int argc, char **argv)
{
    deadline_ns = gs_clock_now() + (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) * GS_SECOND;
    return argc < 3 || gs_threads_run(NULL, run, argv + 2, NULL);
}
