/* The memory of the library, from the functions of event_set_mem_functions. */
#ifndef GS_COMPAT_LIBEVENT_MEMORY_H
#define GS_COMPAT_LIBEVENT_MEMORY_H

#include <stddef.h>

/* As those of the C library: each returns NULL and sets errno to ENOMEM on failure. */
void *gs_ev_malloc(size_t size);
void *gs_ev_calloc(size_t count, size_t size);
void *gs_ev_realloc(void *memory, size_t size);
char *gs_ev_strdup(const char *text);
void gs_ev_free(void *memory);

#endif
