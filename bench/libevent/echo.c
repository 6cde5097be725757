/* The cost of an echo with bufferevents: PROGRAM [ROUNDS] prints the processor time of the server,
 * in nanoseconds per message of 128 bytes. A child process has all the connections, and sends the
 * next message on each when the last one is back. It is compiled with our library and with
 * libevent. */
#include "bench/threads/measure.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS 1000
#define MESSAGE 128
#define BATCH 256
#define DEFAULT_ROUNDS 200

static struct event_base *base;
static unsigned long messages;
static int open_count;
static double started_ns;

static double processor_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

/* ---- The server ---- */

static void on_read(struct bufferevent *bev, void *argument)
{
    (void)argument;
    messages++;
    bufferevent_write_buffer(bev, bufferevent_get_input(bev));
}

static void on_end(struct bufferevent *bev, short what, void *argument)
{
    (void)what, (void)argument;
    bufferevent_free(bev);
    if (!--open_count)
        event_base_loopbreak(base);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int length, void *argument)
{
    (void)listener, (void)address, (void)length, (void)argument;
    struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    must(bev != NULL);
    bufferevent_setcb(bev, on_read, NULL, on_end, NULL);
    must(!bufferevent_enable(bev, EV_READ | EV_WRITE));
    if (++open_count == CONNECTIONS)
        started_ns = processor_ns();
}

/* ---- The client ---- */

static void connect_all(const struct sockaddr_in *address, int set)
{
    static const char message[MESSAGE];
    int fds[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        must(fds[i] >= 0);
        must(!connect(fds[i], (const struct sockaddr *)address, sizeof *address));
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[i]};
        must(!epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event));
    }
    usleep(200000); /* the server accepts the last ones */
    for (int i = 0; i < CONNECTIONS; i++)
        must(write(fds[i], message, sizeof message) == sizeof message);
}

static void run_client(const struct sockaddr_in *address, long rounds)
{
    char message[MESSAGE];
    int set = epoll_create1(EPOLL_CLOEXEC);
    must(set >= 0);
    connect_all(address, set);
    for (long left = rounds * CONNECTIONS; left > 0;) {
        struct epoll_event events[BATCH];
        int count = epoll_wait(set, events, BATCH, -1);
        must(count > 0);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            must(read(fd, message, sizeof message) == sizeof message);
            if (--left >= CONNECTIONS)
                must(write(fd, message, sizeof message) == sizeof message);
        }
    }
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : DEFAULT_ROUNDS;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    signal(SIGPIPE, SIG_IGN);
    base = event_base_new();
    must(base != NULL);
    struct evconnlistener *listener =
        evconnlistener_new_bind(base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE, 2 * CONNECTIONS,
                                (struct sockaddr *)&address, sizeof address);
    must(listener != NULL);
    must(!getsockname(evconnlistener_get_fd(listener), (struct sockaddr *)&address, &length));
    pid_t client = fork();
    must(client >= 0);
    if (!client) {
        run_client(&address, rounds);
        return 0;
    }
    must(event_base_dispatch(base) >= 0);
    must(messages > 0);
    printf("%.1f\n", (processor_ns() - started_ns) / (double)messages);
    int status;
    must(waitpid(client, &status, 0) == client);
    evconnlistener_free(listener);
    event_base_free(base);
    return status;
}
