/* An engine of a server and one of a client, which pass their output to each other. */
#ifndef GS_TESTS_TLS_PAIR_H
#define GS_TESTS_TLS_PAIR_H

#include <gossamer/tls_engine.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pair {
    struct gs_tls_context *server_context, *client_context;
    struct gs_tls_engine *server, *client;
    size_t step; /* output is passed on in pieces of so many bytes */
};

/* Contexts with a certificate for server.test, which the client does not verify, unless the options
 * say otherwise; NULL: as they are. Exits if that fails. */
void pair_init(struct pair *pair, const struct gs_tls_options *server,
               const struct gs_tls_options *client);
void pair_done(struct pair *pair);

/* Have the contexts speak TLS 1.2 only. */
void pair_speak_1_2(struct pair *pair);

/* Replace the engines by new ones. server_name: the client's. */
void pair_renew(struct pair *pair, const char *server_name);

/* Pass the output on, both ways, until there is none. Returns 0 or the first error. */
int pair_exchange(struct pair *pair);

/* One side writes, and the other reads the same. Returns whether it does. */
bool pair_talk(struct gs_tls_engine *from, struct gs_tls_engine *to, size_t n, size_t step);

/* Pass the output of one side to the other, until that has plaintext. Returns its last result. */
ssize_t pair_pass(struct gs_tls_engine *from, struct gs_tls_engine *to, size_t step, void *plain,
                  size_t size);

#endif
