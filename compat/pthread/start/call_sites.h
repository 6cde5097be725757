/* System calls of the C library without the signal (--rewrite-calls): call_sites.c. */
#ifndef GS_COMPAT_PTHREAD_CALL_SITES_H
#define GS_COMPAT_PTHREAD_CALL_SITES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* An instruction "syscall" of the C library, in place of which there is a jump to code of ours now.
 * That has the address of this in rcx; call_site_entry.S knows the first two offsets. */
struct call_site {
    uintptr_t next; /* the address behind the instruction, which the kernel would have stored */
    uintptr_t by_signal; /* the same instruction, for calls that need the signal */
    uintptr_t start;     /* of the jump */
    uintptr_t end;       /* where the C library continues */
    int32_t limit;       /* what is compared with the result between `next` and `end` */
    bool is_narrow;      /* as 32 bits */
};

/* Rewrite the calls of the C library. While the process has one thread. */
void gs_call_sites_start(void);

/* A kick has interrupted the program on its way from a call site: it begins the call again. */
void gs_call_sites_roll_back(ucontext_t *context);

/* Called by call_site_entry.S, inside. Returns if the kernel shall restore the context. */
void gs_on_call_site(ucontext_t *context, const struct call_site *site);

/* call_site_entry.S: where call sites jump to, and from where on the task is inside. */
extern const char gs_call_site_entry[], gs_call_site_is_inside[];

/* By number: calls that need the signal. Read by call_site_entry.S. */
enum { CALL_SITE_NUMBERS = 512 };
extern const unsigned char gs_call_site_needs_signal[CALL_SITE_NUMBERS];

/* All calls need the signal, which the kernel sends to workers only, until as many times resumed:
 * others than they run with the thread-local storage of a task, which call sites go by. */
extern atomic_uint gs_call_sites_suspended;
void gs_call_sites_suspend(void);
void gs_call_sites_resume(void);

/* For ever: a process is made that shares the memory while its parent runs. */
void gs_call_sites_stop(void);

#endif
