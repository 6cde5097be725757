/* The C library's functions behind those that this library wraps. */
#ifndef GS_COMPAT_PTHREAD_REAL_H
#define GS_COMPAT_PTHREAD_REAL_H

#include <pthread.h>

struct gs_real {
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int (*pthread_cancel)(pthread_t);
};
const struct gs_real *gs_real(void);

/* Looks for all of them. */
void gs_wrappers_start(void);

/* The next definition of a function; it must exist. */
void *gs_real_function(const char *name);

#endif
