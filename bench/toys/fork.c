/* A process per connection. */
#include "bench/toys/toy.h"

#include <sys/wait.h>

/* The CPU time of a child is added to that of its parent when it is reaped. */
static void reap(int number)
{
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

int main(int argc, char **argv)
{
    int listener = toy_listen(argc > 1 ? argv[1] : "127.0.0.1");
    signal(SIGCHLD, reap);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && !fork()) {
            TOY_SERVE(read, write, fd);
            _exit(0);
        }
        close(fd);
    }
}
