/* A kernel thread per connection. */
#include "bench/toys/toy.h"

#include <pthread.h>
#include <stdint.h>

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    TOY_SERVE(read, write, fd);
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    int listener = toy_listen(argc > 1 ? argv[1] : "127.0.0.1");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, TOY_STACK_SIZE);
    for (;;) {
        pthread_t thread;
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && pthread_create(&thread, &attributes, serve, (void *)(intptr_t)fd))
            close(fd);
    }
}
