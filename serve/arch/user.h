/* What the two files of the architecture `user` share: user.c, what a connection's thread does; user_life.c, how all of it starts and
 * ends. */
#ifndef GS_SERVE_USER_H
#define GS_SERVE_USER_H

#include "serve/accepting.h"
#include "serve/server.h"
#include "serve/shard.h"

#include <gossamer/list.h>
#include <stdatomic.h>

struct serve_site {
    struct serve_server *server;
    struct gs_semaphore places; /* for connections */
    _Atomic(uint64_t) end_ns;   /* of everything; GS_NEVER: the server isn't going down */
    bool completes;             /* threads wait by completions, and stay with their worker */
    struct serve_worker *workers;
    struct serve_accepting *accepting; /* as server->listeners */
    int result;
};

/* What the connections share that came through one worker's listeners. */
struct serve_worker {
    struct serve_shard shard;
    struct serve_site *site;
    pthread_mutex_t users_lock;
    struct gs_list users;
    struct gs_thread *log_thread; /* NULL: there is no log */
    atomic_bool is_log_over;
};

/* A connection's thread as long as it is in its worker's list, from which it is canceled when the server goes down. */
struct serve_user {
    struct gs_list link;
    struct gs_thread *thread;
};

/* The calling thread. */
void serve_user_enlist(struct serve_worker *worker, struct serve_user *user);
void serve_user_strike(struct serve_worker *worker, struct serve_user *user);

/* A serve_arrived_fn: start the thread of a connection, which gives its place back in the end. */
int serve_user_arrived(void *worker, int fd, const struct sockaddr *address);

#endif
