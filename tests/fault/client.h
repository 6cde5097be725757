/* A client that knows what the answer must be, to each byte, and tells a connection that broke from
 * one that lied. */
#ifndef GS_TESTS_FAULT_CLIENT_H
#define GS_TESTS_FAULT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

/* Stands for any byte in the text of a body. */
#define CLIENT_ANY '\001'

struct client_answer {
    unsigned status;
    const char *body; /* of body_n bytes; NULL: any, as the status has one */
    size_t body_n;
    bool is_head; /* answers HEAD: no body */
};

enum client_result {
    CLIENT_RIGHT,
    CLIENT_BROKEN,  /* the connection ended before the answer did; up to there it was right */
    CLIENT_REFUSED, /* a whole answer of 500 or 503 instead */
    CLIENT_WRONG,   /* client_problem says what */
};

struct client {
    int fd; /* -1: none */
    char *bytes;
    size_t n, used; /* received, and gone past */
};

/* small: with a receive buffer that holds little. */
enum client_result client_open(struct client *client, unsigned port, bool small);
void client_close(struct client *client);

/* Close it with a reset. */
void client_reset(struct client *client);

enum client_result client_say(struct client *client, const char *text);

/* Take the next answer. Nothing for five seconds is wrong. */
enum client_result client_hear(struct client *client, const struct client_answer *expected);

/* The server ends the connection, and has nothing more to say. */
enum client_result client_hear_end(struct client *client);

/* Receive n bytes and leave them unread. */
enum client_result client_wait(struct client *client, size_t n);

const char *client_problem(void);

#endif
