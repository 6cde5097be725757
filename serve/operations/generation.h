/* A generation: a server that a supervisor has started (supervisor.h). The next one takes its
 * listeners while it drains.
 *
 *     supervisor                        generation
 *         | fork, exec                       |
 *         |------ listeners (LISTEN_FDS) --->| opens what else it needs
 *         |<--- READY=1, its listeners ------|
 *         |<--- WATCHDOG=1 ------------------|
 *         |------ SIGTERM ------------------>| drains
 *
 * They talk over a socket pair, in messages of the form of sd_notify(3), and share a page of
 * memory. When the supervisor is gone, the generation drains, too. */
#ifndef GS_SERVE_GENERATION_H
#define GS_SERVE_GENERATION_H

#include <gossamer/api.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct serve_server;

/* Generations that exist at the same time: one serves, one starts, and the others drain. */
#define SERVE_GENERATIONS_MAX 32u

/* Descriptors in one message. */
#define SERVE_SENT_MAX 200u

/* The environment variable: the number of the generation, its place, and two descriptors. */
#define SERVE_GENERATION_VARIABLE "GOSSAMER_GENERATION"

/* In memory that all generations and the supervisor share; initially zero. */
struct serve_generation_page {
    atomic_bool is_ending; /* the server ends: no generation follows */
    struct serve_generation_place {
        atomic_bool is_draining;
        _Atomic(uint64_t) open; /* connections, while it is draining */
    } places[SERVE_GENERATIONS_MAX];
};

struct serve_generation {
    uint64_t number; /* 0: there is no supervisor */
    unsigned place;
    int control_fd;
    bool has_offered;
    struct serve_generation_page *page; /* NULL: there is no supervisor */
};

/* Whether the environment says that a supervisor has started this process. */
bool serve_generation_is_expected(void);

/* Take it from the environment, which is emptied of it. Returns 0, or -errno after one line on
 * stderr. */
GS_MUST_CHECK int serve_generation_open(struct serve_generation *generation);
void serve_generation_close(struct serve_generation *generation);

/* Say that the server is ready, and pass its listeners on. Without a supervisor, nothing is
 * done. */
void serve_generation_offer(struct serve_server *server);

/* Whether another generation, or the one before, accepts from the same sockets. */
bool serve_generation_hands_over(const struct serve_generation *generation);

/* The sum over the generations that drain. */
void serve_generation_count(const struct serve_generation *generation, uint64_t *ret_draining,
                            uint64_t *ret_open);

#endif
