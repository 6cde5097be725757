/* The echo server of echo_threads.c with TLS: tls_echo CERTIFICATE KEY, two files in PEM. */
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/tls.h>

#include <arpa/inet.h>
#include <stdio.h>

#define IDLE_MAX (60 * GS_SECOND)

static struct gs_tls_context *context;

static void echo(struct gs_tls *tls)
{
    char bytes[1024];
    ssize_t n;
    do {
        n = gs_tls_recv(tls, bytes, sizeof bytes, gs_clock_now() + IDLE_MAX);
        if (n > 0)
            n = gs_tls_send_all(tls, bytes, (size_t)n, gs_clock_now() + IDLE_MAX);
    } while (n > 0);
    gs_tls_close(tls, gs_clock_now() + GS_SECOND);
}

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char text[GS_TLS_TEXT];
    struct gs_tls *tls;
    if (gs_tls_accept(context, fd, gs_clock_now() + 10 * GS_SECOND, &tls, text)) {
        fprintf(stderr, "no handshake: %s\n", text);
        gs_close(fd);
    } else {
        echo(tls);
    }
    return NULL;
}

static int listen_anywhere(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = gs_listen("127.0.0.1:0", NULL); /* a free port */
    if (fd < 0 || gs_sys_getsockname(fd, (struct sockaddr *)&address, &length))
        return -1;
    printf("echoing on port %d\n", ntohs(address.sin_port));
    return fflush(stdout) ? -1 : fd;
}

static void *accept_all(void *unused)
{
    const struct gs_thread_attributes attributes = {.name = "client", .migrates = true};
    int listener = listen_anywhere(), fd;
    (void)unused;
    while ((fd = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER)) >= 0)
        if (gs_thread_spawn(&attributes, serve, (void *)(intptr_t)fd, NULL))
            gs_close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    char text[GS_TLS_TEXT] = "usage: tls_echo CERTIFICATE KEY";
    struct gs_tls_certificate certificate = {.chain = argv[1], .key = argv[argc - 1]};
    const struct gs_tls_options options = {.certificates = &certificate, .certificate_count = 1};
    if (argc != 3 || gs_tls_context_new(&options, &context, text)) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    return gs_threads_run(NULL, accept_all, NULL, NULL) != 0;
}
