/* The open connections of the architectures in which a kernel thread or process waits for its
 * connection: what each waits for, so that another thread can choose one that gives way to others
 * (serve/accept/eviction.h) and have its wait end.
 *
 * The table is in memory that processes share, and may be used by any kernel thread of any process
 * that was forked after it was made. Each entry is written by the owner of its connection. */
#ifndef GS_SERVE_CONNECTION_TABLE_H
#define GS_SERVE_CONNECTION_TABLE_H

#include "serve/accept/eviction.h"

#include <gossamer/api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct serve_entry {
    _Atomic(pid_t) owner; /* 0: the entry is free */
    _Atomic(int) fd;
    _Atomic(uint64_t) address;
    _Atomic(uint64_t) waits;   /* as serve_waits; SERVE_BUSY: it does not wait */
    _Atomic(uint64_t) evicted; /* the number of the wait that was ended, or is to be ended */
};

struct serve_table {
    unsigned size;          /* entries: as many connections may be open */
    bool has_processes;     /* each connection has a process of its own */
    _Atomic(unsigned) used; /* entries; from here on private */
    _Atomic(unsigned) hint; /* where a free one may be */
    atomic_bool is_watched; /* full_fd is to be written when the table becomes full */
    int full_fd;            /* an eventfd */
    pthread_mutex_t lock;   /* without processes: while a wait is ended, or an entry removed */
    unsigned next;          /* where the next choice begins */
    struct serve_entry entries[];
};

/* Returns 0 or -errno. */
GS_MUST_CHECK int serve_table_new(unsigned size, bool has_processes,
                                  struct serve_table **ret_table);

/* NULL is accepted. */
void serve_table_free(struct serve_table *table);

/* address: as serve_eviction_address. Returns the connection's entry, whose `waits` the caller sets
 * while it waits; or NULL: none is free. In a process that has one, a signal (SIGURG) ends waits
 * from now on. */
struct serve_entry *serve_table_add(struct serve_table *table, int fd, uint64_t address);

/* Before the descriptor is closed. */
void serve_table_remove(struct serve_table *table, struct serve_entry *entry);

/* Whether no more connections can be open. If not, it becomes readable (full_fd) when that changes;
 * called by one thread, which reads full_fd before. */
bool serve_table_is_full(struct serve_table *table);

/* Have full_fd become readable: connections should be closed for another reason. Any thread. */
void serve_table_watch(struct serve_table *table);

/* End the waits of up to `max` connections, as if their clients had closed. Only waits that began
 * before a time are ended; crowd_before_ns: of an address with more than its share. Called by one
 * thread. Returns how many were ended. */
unsigned serve_table_evict(struct serve_table *table, unsigned max, uint64_t crowd_before_ns,
                           uint64_t before_ns);

#endif
