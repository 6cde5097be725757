/* A State Threads thread per connection. */
#include "bench/toys/toy.h"

#include <st.h>

static ssize_t receive(st_netfd_t socket, void *bytes, size_t n)
{
    return st_read(socket, bytes, n, ST_UTIME_NO_TIMEOUT);
}

static ssize_t respond(st_netfd_t socket, const void *bytes, size_t n)
{
    return st_write(socket, bytes, n, ST_UTIME_NO_TIMEOUT);
}

static void *serve(void *socket)
{
    TOY_SERVE(receive, respond, socket);
    st_netfd_close(socket);
    return NULL;
}

int main(int argc, char **argv)
{
    int listener = toy_listen(argc > 1 ? argv[1] : "127.0.0.1");
    toy_check(!st_set_eventsys(ST_EVENTSYS_ALT) && !st_init(), "st_init");
    st_netfd_t accepting = st_netfd_open_socket(listener);
    for (;;) {
        st_netfd_t socket = st_accept(accepting, NULL, NULL, ST_UTIME_NO_TIMEOUT);
        if (socket && !st_thread_create(serve, socket, 0, TOY_STACK_SIZE))
            st_netfd_close(socket);
    }
}
