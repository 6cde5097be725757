/* Thread-local variables of shared libraries and of machine code. Those of the program itself are
 * in a block for each thread (cancel.c), as compiled code asks for them.
 *
 * A library asks __tls_get_addr for the address of a variable. It is given that in a block that the
 * thread of the program has for this library. Other code knows where a variable is from the pointer
 * of the kernel thread: of a library of which one variable is reached so, and of machine code in
 * the program, each thread has a copy, which is exchanged with what the kernel thread has whenever
 * the thread begins or ceases to run. The first thread has the variables of the kernel thread that
 * has started the libraries. */
#ifndef GS_COMPILER_LIBRARY_LOCALS_H
#define GS_COMPILER_LIBRARY_LOCALS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thread;
struct extra;

/* ---- What has such variables (libraries.c looks for it) ---- */

/* There are other libraries than the C library. */
void gs_cc_locals_begin_search(void);

/* A library was closed: if it is loaded again, its variables have their first values. */
void gs_cc_locals_forget_closed(void);

/* The program, or a library; those that are known stay as they are. */
void gs_cc_locals_add_program(const struct dl_phdr_info *information);
void gs_cc_locals_add_library(const struct dl_phdr_info *information);

/* A table of addresses has the place of a variable from the pointer of the kernel thread. */
void gs_cc_locals_are_reached(uintptr_t offset);

/* A table has what does not tell whose variables are reached. */
void gs_cc_locals_all_are_reached(void);

/* All has been looked at. */
void gs_cc_locals_end_search(void);

/* ---- Threads ---- */

/* The thread begins or ceases to run on this kernel thread. */
void gs_cc_locals_enter(struct thread *thread);
void gs_cc_locals_leave(struct thread *thread);

void gs_cc_locals_free(struct extra *extra);

/* Call what libraries have registered for the end of the thread, which has `extra`. */
void gs_cc_run_enders(struct thread *self);

#endif
