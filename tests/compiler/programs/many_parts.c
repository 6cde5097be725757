/* Calls with more parts than are transferred at once, to and from descriptors that are ready for
 * all of them: nobody does anything meanwhile that would make them ready again. */
#include "program.h"

enum { PARTS = 400, SIZE = 10 };

static char bytes[PARTS][SIZE];
static struct iovec parts[PARTS];

static void *write_pipe(void *fds)
{
    for (int i = 0; i < 3; i++)
        printf("%zd written\n", writev(((int *)fds)[1], parts, PARTS));
    return NULL;
}

static void *send_all(void *fds)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = PARTS};
    printf("%zd written\n", writev(((int *)fds)[1], parts, PARTS));
    printf("%zd sent\n", sendmsg(((int *)fds)[1], &message, 0));
    return NULL;
}

static void *receive_all(void *fds)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = PARTS};
    printf("%zd received\n", recvmsg(((int *)fds)[0], &message, MSG_WAITALL));
    return NULL;
}

static void run(void *(*fn)(void *), int *fds)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fn, fds))
        return;
    pthread_join(thread, NULL);
}

int main(void)
{
    int fds[2];
    for (int i = 0; i < PARTS; i++)
        parts[i] = (struct iovec){bytes[i], SIZE};
    if (pipe(fds))
        return 1;
    run(write_pipe, fds);
    close(fds[0]);
    close(fds[1]);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        return 1;
    run(send_all, fds);
    run(receive_all, fds);
    return 0;
}
