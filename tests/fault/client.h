/* A client that compares each response byte for byte with the expected one, and distinguishes a
 * broken connection from a wrong response. */
#ifndef GS_TESTS_FAULT_CLIENT_H
#define GS_TESTS_FAULT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

/* In an expected body: matches any byte. */
#define CLIENT_ANY '\001'

struct client_answer {
    unsigned status;
    const char *body; /* has body_n bytes; NULL: any body */
    size_t body_n;
    bool is_head; /* response to HEAD, without a body */
};

enum client_result {
    CLIENT_RIGHT,
    CLIENT_BROKEN,  /* the connection ended within the response; what was received is correct */
    CLIENT_REFUSED, /* a complete response with status 500 or 503 instead */
    CLIENT_WRONG,   /* see client_problem() */
};

struct client {
    int fd; /* -1: closed */
    char *bytes;
    size_t n, used; /* bytes received, and bytes consumed */
};

/* small: use a small receive buffer. */
enum client_result client_open(struct client *client, unsigned port, bool small);
void client_close(struct client *client);

/* Close the connection with a reset. */
void client_reset(struct client *client);

enum client_result client_send(struct client *client, const char *text);

/* Receive the next response and compare it. If it does not arrive, that is CLIENT_WRONG. */
enum client_result client_receive(struct client *client, const struct client_answer *expected);

/* Wait for the server to close the connection; further bytes count as CLIENT_WRONG. */
enum client_result client_receive_end(struct client *client);

/* Wait until n bytes have been received and not consumed. */
enum client_result client_wait(struct client *client, size_t n);

/* Whether the server has sent something, or ended the connection. */
bool client_hears(const struct client *client);

const char *client_problem(void);

#endif
