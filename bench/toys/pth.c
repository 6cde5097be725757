/* A GNU Pth thread per connection. */
#include "bench/toys/toy.h"

#include <pth.h>
#include <stdint.h>

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    TOY_SERVE(pth_read, pth_write, fd);
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    int listener = toy_listen(argc > 1 ? argv[1] : "127.0.0.1");
    toy_check(pth_init(), "pth_init");
    pth_attr_t attributes = pth_attr_new();
    pth_attr_set(attributes, PTH_ATTR_JOINABLE, FALSE);
    pth_attr_set(attributes, PTH_ATTR_STACK_SIZE, TOY_STACK_SIZE);
    for (;;) {
        int fd = pth_accept(listener, NULL, NULL);
        if (fd >= 0 && !pth_spawn(attributes, serve, (void *)(intptr_t)fd))
            close(fd);
    }
}
