/* A server of libmicrohttpd with a thread for each connection, as its manual recommends for
 * handlers that block. It is measured natively and under `gossamer run`.
 *
 *     microhttpd SIZE [ADDRESS]    responds to each GET with SIZE bytes; listens on a free port of
 *                                  127.0.0.1 or ADDRESS, and prints its URL */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CONNECTIONS_MAX = 100000, BACKLOG = 4096 };

static struct MHD_Response *page;

static enum MHD_Result respond(void *of_server, struct MHD_Connection *connection, const char *url,
                               const char *method, const char *version, const char *body,
                               size_t *body_size, void **state)
{
    (void)of_server, (void)url, (void)version, (void)body, (void)body_size;
    if (strcmp(method, "GET"))
        return MHD_NO;
    if (!*state) { /* the head has arrived, perhaps not the rest */
        *state = page;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, page);
}

static struct MHD_Daemon *start(const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return NULL;
    /* poll(), since select() has no place for more than 1024 descriptors. */
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL;
    return MHD_start_daemon(flags, 0, NULL, NULL, respond, NULL, MHD_OPTION_SOCK_ADDR, &address,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                            MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)BACKLOG, MHD_OPTION_END);
}

int main(int argc, char **argv)
{
    size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const char *host = argc > 2 ? argv[2] : "127.0.0.1";
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* in all threads: this one waits for it */
    char *bytes = calloc(1, size + 1);
    page = bytes ? MHD_create_response_from_buffer(size, bytes, MHD_RESPMEM_PERSISTENT) : NULL;
    struct MHD_Daemon *daemon = page ? start(host) : NULL;
    const union MHD_DaemonInfo *info =
        daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info)
        return 1;
    MHD_add_response_header(page, MHD_HTTP_HEADER_CONTENT_TYPE, "text/html");
    printf("listening on http://%s:%u\n", host, info->port);
    fflush(stdout);
    int number;
    return sigwait(&ends, &number) != 0;
}
