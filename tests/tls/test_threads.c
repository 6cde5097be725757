/* Kernel threads that make handshakes at the same time, with the same contexts. */
#include "tests/test.h"
#include "tests/tls/pair.h"
#include "tls/engine.h"

#include <pthread.h>

#define THREADS 4
#define HANDSHAKES 25

/* Returns whether it was made, and the records are handled here, on both sides. */
static bool shake_hands(const struct pair *shared)
{
    struct pair pair = {.step = 100000,
                        .server_context = shared->server_context,
                        .client_context = shared->client_context};
    char plain[10];
    pair_renew(&pair, "server.test");
    bool is_made = !pair_exchange(&pair) && gs_tls_engine_write(pair.server, "to", 2) == 2 &&
                   pair_pass(pair.server, pair.client, 100, plain, sizeof plain) == 2 &&
                   gs_tls_engine_write(pair.client, "and fro", 7) == 7 &&
                   pair_pass(pair.client, pair.server, 100, plain, sizeof plain) == 7 &&
                   pair.server->records && pair.client->records;
    gs_tls_engine_free(pair.server);
    gs_tls_engine_free(pair.client);
    return is_made;
}

static void *shake_many(void *shared)
{
    uintptr_t made = 0;
    for (int i = 0; i < HANDSHAKES; i++)
        made += shake_hands(shared);
    return (void *)made;
}

TEST(threads_make_handshakes_at_the_same_time)
{
    struct pair shared;
    pthread_t threads[THREADS];
    void *made;
    pair_init(&shared, NULL, NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, shake_many, &shared), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], &made), 0);
        CHECK_EQ((uintptr_t)made, HANDSHAKES);
    }
    pair_done(&shared);
}
