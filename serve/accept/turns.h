/* Turns: locks that kernel threads of several processes share. When a process dies in its turn, the
 * next one has it. */
#ifndef GS_SERVE_TURNS_H
#define GS_SERVE_TURNS_H

#include <gossamer/api.h>
#include <pthread.h>
#include <stdatomic.h>

/* In memory that the processes share. Returns 0 or -errno. */
GS_MUST_CHECK int serve_turn_init(pthread_mutex_t *turn);

/* As many turns at the same time. */
#define SERVE_TURNS_MAX 64u
struct serve_turns {
    unsigned count;
    atomic_uint next; /* where the next search for one that nobody has starts */
    pthread_mutex_t items[SERVE_TURNS_MAX];
};

/* count: at least 1; SERVE_TURNS_MAX count at most. Returns 0 or -errno. */
GS_MUST_CHECK int serve_turns_init(struct serve_turns *turns, unsigned count);

/* Wait for one of them. Returns which, to be unlocked. */
pthread_mutex_t *serve_turns_take(struct serve_turns *turns);

#endif
