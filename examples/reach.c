/* Tells whether a server accepts connections: connecting with a time limit, on an event loop.
 *
 *     reach 127.0.0.1 8080
 */
#include <arpa/inet.h>
#include <gossamer/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct gs_op op;
static struct gs_timer timer;
static int64_t outcome;

static void on_timeout(struct gs_timer *expired)
{
    (void)expired;
    gs_op_cancel(&op);
}

static void on_connected(struct gs_op *connected, int64_t result)
{
    (void)connected;
    gs_timer_stop(&timer);
    outcome = result; /* 0, -ECANCELED: too late, or another error */
}

static int reach(struct gs_loop *loop, const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    gs_timer_init(&timer, loop, on_timeout);
    gs_op_init(&op, loop, on_connected);
    int err = gs_timer_start(&timer, gs_clock_now() + 2 * GS_SECOND);
    if (!err)
        err = gs_op_connect(&op, fd, (const struct sockaddr *)address, sizeof *address);
    if (!err)
        err = gs_loop_run(loop);
    close(fd); /* after an error it could not be used any more */
    return err;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct gs_loop *loop;
    if (argc != 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
        fprintf(stderr, "usage: reach IPV4-ADDRESS PORT\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
    if (gs_loop_new(&loop))
        return 1;
    int err = reach(loop, &address);
    gs_loop_free(loop);
    if (err < 0)
        return 1;
    puts(outcome ? strerror((int)-outcome) : "connected");
    return outcome != 0;
}
