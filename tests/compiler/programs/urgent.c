/* A read stops in front of urgent data, and the next one begins behind it: a socket from which less
 * was read than asked for is not always empty. */
#include "program.h"

static int connected, accepted;

static void check(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static void make_connection(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(!bind(listener, (struct sockaddr *)&address, length), "bind");
    check(!listen(listener, 1), "listen");
    check(!getsockname(listener, (struct sockaddr *)&address, &length), "getsockname");
    connected = socket(AF_INET, SOCK_STREAM, 0);
    check(!connect(connected, (struct sockaddr *)&address, length), "connect");
    accepted = accept(listener, NULL, NULL);
    check(accepted >= 0, "accept");
    close(listener);
}

static void send_text(const char *text, int flags)
{
    check(send(connected, text, strlen(text), flags) == (ssize_t)strlen(text), "send");
}

/* Prints what each call got, until the end. */
static void *read_all(void *by_recv)
{
    char bytes[64];
    ssize_t n;
    while ((n = by_recv ? recv(accepted, bytes, sizeof bytes, 0)
                        : read(accepted, bytes, sizeof bytes)) > 0) {
        printf("%.*s\n", (int)n, bytes);
        send(accepted, "+", 1, 0);
    }
    printf("%zd\n", n);
    return NULL;
}

static void wait_for_answers(int count)
{
    char byte;
    for (int i = 0; i < count; i++)
        check(recv(connected, &byte, 1, 0) == 1 && byte == '+', "recv");
}

static void *send_all(void *unused)
{
    send_text("first", 0);
    wait_for_answers(1);
    send_text("in front", 0);
    send_text("!", MSG_OOB);
    send_text("behind", 0);
    wait_for_answers(2);
    send_text("last", 0);
    wait_for_answers(1);
    /* The end arrives together with what is in front of it. */
    send_text("the end", 0);
    shutdown(connected, SHUT_WR);
    return unused;
}

static void run(intptr_t by_recv)
{
    pthread_t reader, sender;
    make_connection();
    pthread_create(&reader, NULL, read_all, (void *)by_recv);
    pthread_create(&sender, NULL, send_all, NULL);
    pthread_join(sender, NULL);
    pthread_join(reader, NULL);
    close(connected);
    close(accepted);
}

int main(void)
{
    run(0);
    run(1);
    return 0;
}
