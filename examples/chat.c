/* A chat server: chat [SECONDS]. Each client has a thread that receives its messages, and one that
 * sends it the messages of others from a channel. A slow reader misses messages; one that takes
 * nothing for SECONDS is dropped. Ctrl-C ends the server. */
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sync.h>
#include <gossamer/sys.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct message {
    ssize_t n;
    char text[200];
};
/* By descriptor. No lock is needed: with one worker, no other thread runs between two waits. */
static struct gs_channel *inboxes[256];
static uint64_t stuck_max_ns;

static void *send_messages(void *client)
{
    int fd = (int)(intptr_t)client;
    struct message message;
    for (ssize_t n = 1; n > 0 && !gs_channel_receive(inboxes[fd], &message, GS_NEVER);)
        n = gs_send_all(fd, message.text, (size_t)message.n, gs_clock_now() + stuck_max_ns);
    gs_sys_shutdown(fd, SHUT_RDWR); /* ends receive_messages, too */
    return NULL;
}

static void *receive_messages(void *client)
{
    int fd = (int)(intptr_t)client;
    struct gs_thread *sender;
    struct message message;
    if (!gs_channel_new(sizeof message, 32, &inboxes[fd]) &&
        !gs_thread_spawn(NULL, send_messages, client, &sender)) {
        while ((message.n = gs_recv(fd, message.text, sizeof message.text, 0, GS_NEVER)) > 0)
            for (int other = 0; other < 256; other++)
                if (other != fd && inboxes[other]) /* if it is full, the client misses this */
                    (void)!gs_channel_send(inboxes[other], &message, 0);
        gs_channel_close(inboxes[fd]);
        gs_thread_set_cancelable(false);
        (void)!gs_thread_join(sender, GS_NEVER, NULL);
    }
    gs_channel_free(inboxes[fd]);
    inboxes[fd] = NULL;
    gs_close(fd);
    return NULL;
}

static void *accept_all(void *listener)
{
    for (int fd; (fd = gs_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER)) >= 0;)
        if (fd >= 256 || gs_thread_spawn(NULL, receive_messages, (void *)(intptr_t)fd, NULL))
            gs_close(fd);
    return NULL;
}

static void *run(void *listener)
{
    if (!gs_thread_spawn(NULL, accept_all, listener, NULL) && !gs_wait_signal(SIGINT, GS_NEVER))
        gs_threads_cancel_all();
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = gs_listen("127.0.0.1:0", NULL); /* a free port */
    if (fd < 0 || gs_sys_getsockname(fd, (struct sockaddr *)&address, &length))
        return 1;
    stuck_max_ns = (argc > 1 ? strtoul(argv[1], NULL, 10) : 60) * GS_SECOND;
    printf("chatting on port %d\n", ntohs(address.sin_port));
    return fflush(stdout) || gs_threads_run(NULL, run, &fd, NULL);
}
