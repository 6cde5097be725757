/* Locks, for programs whose threads share a base, a buffer or a bufferevent. They are set before
 * the first base is created. */
#ifndef EVENT2_THREAD_H_INCLUDED_
#define EVENT2_THREAD_H_INCLUDED_

#include <event2/event-config.h>
#include <event2/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_base;
struct timeval;

/* Modes of locking. */
#define EVTHREAD_WRITE 0x04
#define EVTHREAD_READ 0x08
#define EVTHREAD_TRY 0x10

#define EVTHREAD_LOCK_API_VERSION 1
#define EVTHREAD_LOCKTYPE_RECURSIVE 1
#define EVTHREAD_LOCKTYPE_READWRITE 2

struct evthread_lock_callbacks {
    int lock_api_version;
    unsigned supported_locktypes;
    void *(*alloc)(unsigned locktype);
    void (*free)(void *lock, unsigned locktype);
    int (*lock)(unsigned mode, void *lock);
    int (*unlock)(unsigned mode, void *lock);
};

/* NULL: no locks any more. Returns 0, or -1 if the callbacks are incomplete or locks are already in
 * use. */
EVENT2_EXPORT_SYMBOL
int evthread_set_lock_callbacks(const struct evthread_lock_callbacks *);

#define EVTHREAD_CONDITION_API_VERSION 1

struct evthread_condition_callbacks {
    int condition_api_version;
    void *(*alloc_condition)(unsigned condtype);
    void (*free_condition)(void *cond);
    int (*signal_condition)(void *cond, int broadcast);
    /* Returns 0, 1 after the timeout, or -1. */
    int (*wait_condition)(void *cond, void *lock, const struct timeval *timeout);
};

EVENT2_EXPORT_SYMBOL
int evthread_set_condition_callbacks(const struct evthread_condition_callbacks *);

EVENT2_EXPORT_SYMBOL
void evthread_set_id_callback(unsigned long (*id_fn)(void));

/* Use the locks of pthreads. In the library libevent_pthreads. */
#define EVTHREAD_USE_PTHREADS_IMPLEMENTED 1
EVENT2_EXPORT_SYMBOL
int evthread_use_pthreads(void);

/* Check how the library itself uses locks: to be called after they are set, and before any base is
 * created. */
EVENT2_EXPORT_SYMBOL
void evthread_enable_lock_debugging(void);
EVENT2_EXPORT_SYMBOL
void evthread_enable_lock_debuging(void);

/* Let other threads end the wait of this base's loop. A base that has a lock can be woken
 * anyway. */
EVENT2_EXPORT_SYMBOL
int evthread_make_base_notifiable(struct event_base *base);

#ifdef __cplusplus
}
#endif

#endif
