/* A shared library that waits: compiled by the usual compiler. */
#include <pthread.h>
#include <sys/types.h>

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

/* Functions that the program calls through a variable. They call the function so often. */
struct library_operations {
    long (*sum)(int (*function)(int), int count);
};
extern const struct library_operations library_operations;

int library_is_self(pthread_t thread);

/* The value of the calling thread, of a key that the library created when it started. */
void library_keep(void *value);
void *library_kept(void);

/* Set what library_hooked calls in place of read. */
void library_set_hook(ssize_t (*hook)(int, void *, size_t));
ssize_t library_hooked(int fd, void *bytes, size_t n);

/* Calls readv, which the program may define. */
ssize_t library_readv(void);

/* The status of a child process that waits. */
int library_child(void);
int library_child_until(int fd);
int library_named_child_until(int fd);
int library_command_until(int fd);
int library_stream_until(int fd);

/* Read with a cleanup, which is counted, and unlocks what is locked meanwhile. */
int library_read_cleanly(int fd);
int library_cleanups(void);

/* With locks and conditions of the program. */
void library_lock(pthread_mutex_t *mutex);
void library_unlock(pthread_mutex_t *mutex);
void library_await(pthread_cond_t *condition, pthread_mutex_t *mutex, const int *flag);
void library_signal(pthread_cond_t *condition, pthread_mutex_t *mutex, int *flag);
