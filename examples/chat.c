/* A chat: one thread listens to a guest, another talks to it, and a channel brings what others say.
 * A guest that reads too slowly misses something: nobody waits for it. Ctrl-C ends the chat. */
#include <gossamer/io.h>
#include <gossamer/sync.h>
#include <gossamer/sys.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>

struct words {
    ssize_t n;
    char text[200];
};
/* By the guest's descriptor. No lock: with one worker, nobody else runs between two waits. */
static struct gs_channel *heard[256];

static void *talk_to(void *guest)
{
    int fd = (int)(intptr_t)guest;
    struct words words;
    ssize_t n = 1;
    while (n > 0 && !gs_channel_receive(heard[fd], &words, GS_NEVER))
        n = gs_send_all(fd, words.text, (size_t)words.n, gs_clock_now() + 60 * GS_SECOND);
    gs_sys_shutdown(fd, SHUT_RDWR); /* so listen_to ends, too */
    return NULL;
}

static void *listen_to(void *guest)
{
    int fd = (int)(intptr_t)guest;
    struct gs_thread *talker;
    struct words words;
    int err = gs_channel_new(sizeof words, 32, &heard[fd]);
    if (!err && !(err = gs_thread_spawn(NULL, talk_to, guest, &talker))) {
        while ((words.n = gs_recv(fd, words.text, sizeof words.text, 0, GS_NEVER)) > 0)
            for (int other = 0; other < 256; other++)
                if (other != fd && heard[other] && gs_channel_send(heard[other], &words, 0))
                    printf("guest %d misses something\n", other);
        gs_channel_close(heard[fd]);
        gs_thread_set_cancelable(false);
        err = gs_thread_join(talker, GS_NEVER, NULL);
    }
    gs_channel_free(heard[fd]);
    heard[fd] = NULL;
    gs_close(fd);
    return (void *)(intptr_t)err;
}

static void *accept_all(void *listener)
{
    int fd;
    while ((fd = gs_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER)) >= 0)
        if (fd >= 256 || gs_thread_spawn(NULL, listen_to, (void *)(intptr_t)fd, NULL))
            gs_close(fd);
    return NULL;
}

static void *run(void *listener)
{
    int err = gs_thread_spawn(NULL, accept_all, listener, NULL);
    if (!err)
        err = gs_wait_signal(SIGINT, GS_NEVER);
    gs_threads_cancel_all();
    return (void *)(intptr_t)err;
}

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (gs_sys_bind(fd, (struct sockaddr *)&at, length) || gs_sys_listen(fd, 128) ||
        gs_sys_getsockname(fd, (struct sockaddr *)&at, &length))
        return 1;
    printf("chatting on port %d\n", ntohs(at.sin_port));
    return fflush(stdout) || gs_threads_run(NULL, run, &fd, NULL);
}
