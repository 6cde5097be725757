/* A shared library that waits: compiled by the usual compiler. */
#include <pthread.h>

/* Wait for a byte in one of several ways; return it, or -1. */
int library_read(int fd);
int library_recv(int fd);
int library_poll(int fd);
int library_select(int fd);
int library_epoll(int fd);
int library_locked_read(int fd); /* one at a time */

void library_sleep(void);
void library_spin(const volatile int *flag);

/* Return how often another was inside. */
int library_recursive(void);
int library_checked(void);
int library_write_locked(void);

/* Wait for what kernel threads of the library do. */
long library_join(void);
int library_condition(void);
int library_condition_late(void);
int library_semaphore(void);

/* The value of the calling thread: that of the first call. */
int library_value(int value);
int library_values_freed(void);

/* A start routine: reads from the descriptor that is its argument. */
void *library_start(void *fd);

/* Calls the function, which may wait, under a recursive lock. */
int library_call(int (*function)(int), int argument);
