/* Programs that are built with the thread sanitizer. */
#ifndef GS_COMPAT_PTHREAD_SANITIZER_H
#define GS_COMPAT_PTHREAD_SANITIZER_H

#include <pthread.h>
#include <stdbool.h>

/* Called when the program creates its first thread, before anything of the runtime exists. Sets
 * gs_run.is_watched if the program is built with the thread sanitizer. */
void gs_sanitizer_start(void);

/* pthread_create of the C library, and not the sanitizer's. */
int gs_create_unwatched(pthread_t *ret_thread, const pthread_attr_t *attributes,
                        void *(*fn)(void *), void *argument);

/* gs_run.is_watched: create a kernel thread of the runtime. As pthread_create, but before the first
 * task runs only: EAGAIN afterwards. The program's first thread, which the sanitizer knows, calls
 * the C library, and must be in gs_sanitizer_create_threads for that. */
int gs_sanitizer_create_thread(pthread_t *ret_thread, const pthread_attr_t *attributes,
                               void *(*fn)(void *), void *argument);
void gs_sanitizer_create_threads(unsigned count);

/* In a child, whose handlers of pthread_atfork run next. That of the sanitizer may start a kernel
 * thread of its own, when the runtime's have not prepared a new start yet. */
void gs_sanitizer_forget(void);
bool gs_sanitizer_is_forking(void);

#endif
