/* Users and groups of all kernel threads (credentials.c). */
#ifndef GS_COMPAT_PTHREAD_CREDENTIALS_H
#define GS_COMPAT_PTHREAD_CREDENTIALS_H

struct task;

enum { GS_SET_USER = 33 }; /* the C library's signal */

/* A kernel thread that the C library has made for the runtime. */
struct gs_native_thread {
    struct gs_native_thread *next;
    void *(*fn)(void *argument);
    void *argument;
    void *thread_pointer;
    int tid;
};

/* Called by it; the memory stays in use. */
void gs_native_thread_begins(struct gs_native_thread *thread);

/* The C library sends its signal to a thread. Returns 0 or -ESRCH. */
long gs_credentials_signal(struct task *task, unsigned tid);

/* A signal asks this kernel thread to make the call. */
void gs_credentials_change(void);

/* While the runtime opens its descriptors. */
void gs_credentials_start(void);
void gs_credentials_forget(void);

#endif
