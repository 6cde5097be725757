/* A listener that another thread disables while its callback runs: libevent waits for ever. */
#include "tests/libevent/bev.h"

#include <event2/listener.h>
#include <event2/thread.h>

static int gates[2]; /* a byte from the callback, and one back */

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int length, void *argument)
{
    (void)listener;
    (void)address;
    (void)length;
    (void)argument;
    char byte = 'x';
    CHECK_EQ(write(gates[1], &byte, 1), 1);
    CHECK_EQ(read(gates[1], &byte, 1), 1);
    close(fd);
}

static void *run(void *base)
{
    event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

TEST(a_listener_is_disabled_while_its_callback_runs_in_another_thread)
{
    CHECK_EQ(evthread_use_pthreads(), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gates), 0);
    struct event_base *base = event_base_new();
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct evconnlistener *listener =
        evconnlistener_new_bind(base, on_accept, NULL, LEV_OPT_THREADSAFE | LEV_OPT_CLOSE_ON_FREE,
                                -1, (struct sockaddr *)&address, sizeof address);
    CHECK(listener);
    socklen_t length = sizeof address;
    int fd = evconnlistener_get_fd(listener);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&address, sizeof address), 0);

    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, run, base), 0);
    char byte;
    CHECK_EQ(read(gates[0], &byte, 1), 1);
    CHECK_EQ(evconnlistener_disable(listener), 0);
    CHECK_EQ(write(gates[0], &byte, 1), 1);
    evconnlistener_free(listener);
    event_base_loopbreak(base);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    event_base_free(base);
    close(client);
    close(gates[0]);
    close(gates[1]);
}
