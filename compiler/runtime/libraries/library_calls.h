/* The files of functions that shared libraries get in place of the C library's (libraries.h).
 *
 * What waits for descriptors or for time is the runtime's. Objects of synchronisation stay as the C
 * library has them, because kernel threads that a library has made use them, too. The values of
 * keys belong to the thread of the program. */
#ifndef GS_COMPILER_LIBRARY_CALLS_H
#define GS_COMPILER_LIBRARY_CALLS_H

#include "compiler/runtime/libraries/libraries.h"
#include "compiler/runtime/threads/thread.h"

/* The thread on whose stack the library runs. NULL: a kernel thread, or code that must not wait. */
static inline struct thread *thread_on_stack(void)
{
    struct thread *self = thread_self();
    return self && self->stack ? self : NULL;
}

/* A function that the runtime has under the same name. */
#define RUNTIME(result_, name_, parameters_, ...)                                                  \
    result_ gs_cc_##name_ parameters_;                                                             \
    static result_ library_##name_ parameters_                                                     \
    {                                                                                              \
        if (!thread_on_stack())                                                                    \
            return name_(__VA_ARGS__);                                                             \
        return gs_cc_##name_(__VA_ARGS__);                                                         \
    }

#define REPLACED(name_) {#name_, (void (*)(void))library_##name_}

/* Those of one file, in the order of strcmp. */
struct gs_cc_replacements {
    const struct gs_cc_replacement *first;
    unsigned count;
};
#define REPLACEMENTS(array_) {(array_), sizeof(array_) / sizeof *(array_)}

extern const struct gs_cc_replacements gs_cc_library_io, gs_cc_library_locals, gs_cc_library_locks,
    gs_cc_library_processes, gs_cc_library_threads;

#endif
