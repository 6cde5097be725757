/* What compiled code shares with the runtime. compiler/plugin/convert/record.cpp generates accesses
 * to these structures.
 *
 * A thread that waits consists of records, one for each of its calls that is not complete: the
 * innermost first, each with the values that its function needs to continue. A function whose
 * callee has to wait finds `suspending` set, makes its record, and returns. */
#ifndef GS_COMPILER_ABI_H
#define GS_COMPILER_ABI_H

#include <stddef.h>
#include <stdint.h>

struct gs_cc_record;
struct thread;

/* A place where a function waits. */
struct gs_cc_site {
    void (*resume)(struct gs_cc_record *record);
    uint32_t size;                /* of its records */
    uint32_t index;               /* of the place in its function */
    const char *function, *place; /* place: a file and a line; NULL: not known */
    const char *callee;           /* which it waits for; NULL: it is not known */
    const char *locals;           /* in debug builds what records hold (frame_locals.h); or NULL */
};

struct gs_cc_record {
    const struct gs_cc_site *site;
    struct gs_cc_record *caller;
};

#define MAY_LEAVE_OFFSET 4
#define RESUMING_OFFSET 40
#define TURNS_OFFSET 48
#define RESULT_OFFSET 64

/* The state of a kernel thread. */
struct gs_cc_state {
    uint32_t suspending; /* the running thread has to wait: all calls return */
    uint32_t
        may_leave; /* the running thread is on the stack of its worker, and leaves it to wait */
    struct thread *self;               /* the running thread; NULL: none of the program's */
    struct gs_cc_record *first, *last; /* that were made since `suspending` was set */
    int *err;                          /* the address of errno */
    struct gs_cc_record *resuming;     /* of a function that finds it when it is called */
    int32_t turns;       /* calls of gs_cc___waiting_loop that compiled code still leaves out */
    uint32_t steps;      /* how often threads have run on the stack of the worker */
    int64_t calls_left;  /* that do not wait, until the next turn of others (take_turn) */
    uint64_t result[8];  /* of the function that was resumed last */
    uint64_t scheduling; /* the attributes whose CPUs and scheduling the kernel thread has; or 0 */
    unsigned locks;      /* of the runtime that the kernel thread holds: no handler jumps then */
};
_Static_assert(offsetof(struct gs_cc_state, may_leave) == MAY_LEAVE_OFFSET, "as in record.cpp");
_Static_assert(offsetof(struct gs_cc_state, turns) == TURNS_OFFSET, "as in record.cpp");
_Static_assert(offsetof(struct gs_cc_state, resuming) == RESUMING_OFFSET, "as in record.cpp");
_Static_assert(offsetof(struct gs_cc_state, result) == RESULT_OFFSET, "as in record.cpp");

extern _Thread_local struct gs_cc_state gs_cc_state __attribute__((tls_model("initial-exec")));

/* ---- Called by compiled code ---- */

struct gs_cc_record *gs_cc_record(const struct gs_cc_site *site);
void gs_cc_record_free(struct gs_cc_record *record);

/* A function with slots for its values (compiler/plugin/convert/slots.h) has a row for each place
 * where it waits, with what is to be copied between slots and record. */
struct gs_cc_copy {
    uint32_t slot, record, size;
};
struct gs_cc_place {
    const struct gs_cc_site *site;
    const struct gs_cc_copy *copies;
    uint64_t count;
};
void gs_cc_save(const char *slots, const struct gs_cc_place *places, uint64_t index);
/* Restores `resuming`, and returns where to continue. */
uint64_t gs_cc_restore(char *slots, const struct gs_cc_place *places);

/* A block of the running thread that is freed when the function that has it returns, or the thread
 * ends. */
void *gs_cc_environment(uint64_t size);
void gs_cc_environment_free(void *block);

/* The arguments and the result of a call on a stack. */
void *gs_cc_box(uint64_t size);
void gs_cc_box_free(void *box, uint64_t size);
/* need: how much stack the call needs, 0 if there is no bound. */
void gs_cc___on_stack(void (*call)(void *box), void *box, const unsigned *need);
/* The same in a kernel thread of the pool, for calls that block. The size is that of the box, which
 * is freed if the thread is canceled. */
void gs_cc___blocking(void (*call)(void *box), void *box, uint64_t size);

/* The thread-local variables of the running thread: their address at this offset. */
void *gs_cc_thread_local(uint64_t offset);

/* ---- Defined by compiled code ---- */

int gs_cc_main(int argc, char **argv, char **environment);
/* Whether the first thread runs on a stack, as main is not converted. */
extern const char gs_cc_first_has_stack;
extern const char gs_cc_thread_image[];
extern const uint64_t gs_cc_thread_image_size, gs_cc_thread_image_alignment;
/* What threads take along of their kernel thread's (kept.h); the runtime may add to it. */
extern unsigned char gs_cc_kept;
/* Whether the program calls the C library and nothing else that was not compiled with it. */
extern const char gs_cc_is_self_contained;

/* ---- Defined by the driver (compiler/driver/stacks.h) ---- */

/* What calls on stacks need, and the handler of signals that needs most; 0: there is none. */
extern const unsigned gs_cc_stack_needs[], gs_cc_handler_need;

/* Where the running kernel thread has the thread-local variables of machine code in the program:
 * those with initial values, and the others. */
struct gs_cc_foreign_locals {
    const char *at;
    unsigned long size;
};
void gs_cc_find_foreign_locals(struct gs_cc_foreign_locals ret_locals[2]);

#endif
