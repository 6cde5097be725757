#include "serve/accept/turns.h"

#include <errno.h>
#include <stdbool.h>

int serve_turn_init(pthread_mutex_t *turn)
{
    pthread_mutexattr_t attributes;
    int err = pthread_mutexattr_init(&attributes);
    if (err)
        return -err;
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    err = pthread_mutex_init(turn, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return -err;
}

/* What the last owner did is of no consequence, should it have died. */
static bool is_taken(pthread_mutex_t *turn, int err)
{
    if (err == EOWNERDEAD)
        pthread_mutex_consistent(turn);
    return !err || err == EOWNERDEAD;
}

int serve_turns_init(struct serve_turns *turns, unsigned count)
{
    int err = 0;
    atomic_init(&turns->next, 0);
    turns->count = count < SERVE_TURNS_MAX ? count : SERVE_TURNS_MAX;
    for (unsigned i = 0; !err && i < turns->count; i++)
        err = serve_turn_init(&turns->items[i]);
    return err;
}

pthread_mutex_t *serve_turns_take(struct serve_turns *turns)
{
    unsigned at = atomic_fetch_add_explicit(&turns->next, 1, memory_order_relaxed), tried = 0;
    pthread_mutex_t *turn;
    do {
        turn = &turns->items[at++ % turns->count];
        if (is_taken(turn, pthread_mutex_trylock(turn)))
            return turn;
    } while (++tried < turns->count);
    (void)is_taken(turn, pthread_mutex_lock(turn));
    return turn;
}
