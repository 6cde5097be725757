/* What shared libraries call. They were not compiled, and run on the stacks of threads; so that a
 * library that waits does not stop the other threads of its worker, its calls that wait are the
 * runtime's. */
#ifndef GS_COMPILER_LIBRARIES_H
#define GS_COMPILER_LIBRARIES_H

#include <pthread.h>
#include <stdbool.h>

struct thread;

/* A function that a library gets in place of the C library's. */
struct gs_cc_replacement {
    const char *name;
    void (*function)(void);
};

/* Returns the number of the function's replacement; -1: libraries keep the C library's. */
int gs_cc_find_replacement(const char *name);

/* NULL: there are no more. */
#define GS_CC_MAX_REPLACEMENTS 96
const struct gs_cc_replacement *gs_cc_replacement_at(unsigned i);

/* Whether there are any but the C library and what belongs to it. */
bool gs_cc_has_other_libraries(void);

/* Gives all libraries that are loaded the replacements; those that have them keep them. */
void gs_cc_replace_in_libraries(void);

/* As dlclose. */
int gs_cc_close_library(void *library);

/* ---- Cleanups of libraries (cancel.c): jumps into their functions ---- */

void gs_cc_register_cleanup(struct thread *self, __pthread_unwind_buf_t *buffer);
void gs_cc_unregister_cleanup(struct thread *self, __pthread_unwind_buf_t *buffer);

/* ---- Mutexes of libraries that know their owner (owned_mutex.c) ---- */

bool gs_cc_has_owner(const pthread_mutex_t *mutex);

/* As pthread_mutex_trylock: EBUSY if another thread has it, EDEADLK if the thread itself has one
 * that checks for errors. */
int gs_cc_owned_trylock(pthread_mutex_t *mutex, const struct thread *self);
int gs_cc_owned_unlock(pthread_mutex_t *mutex, const struct thread *self);

/* Whether a thread of the program has locked it in compiled code. */
bool gs_cc_mutex_is_ours(const pthread_mutex_t *mutex);

/* Where a condition variable has the first thread that waits in compiled code. */
#define GS_CC_COND_QUEUE 8

#endif
