/* How large the stack of a call is whose need was proven: as long as nothing is on it that the
 * compiler has not seen. */
#include "compiler/runtime/start/stack_size.h"
#include "compiler/runtime/libraries/libraries.h"
#include "compiler/runtime/threads/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>

static size_t for_handlers;
static atomic_bool is_unbounded;

/* The handlers of all signals may interrupt each other, each in a frame of the kernel and some of
 * ours. One is of the C library: setuid in another kernel thread. */
void gs_cc_stack_sizes_start(void)
{
    enum { LEAST_FRAME = 2048, OUR_FRAMES = 1024 };
    size_t frame = getauxval(AT_MINSIGSTKSZ);
    frame = (frame > LEAST_FRAME ? frame : LEAST_FRAME) + OUR_FRAMES;
    for_handlers = frame + (gs_cc_handler_need ? (frame + gs_cc_handler_need) * (NSIG - 1) : 0);
    /* They may have handlers, and functions in place of the C library's. */
    if (gs_cc_has_other_libraries())
        gs_cc_stack_sizes_forget();
}

void gs_cc_stack_sizes_forget(void)
{
    atomic_store_explicit(&is_unbounded, true, memory_order_relaxed);
}

size_t gs_cc_stack_size_for(unsigned need, size_t most)
{
    size_t size = need + for_handlers;
    bool is_bounded = need && !atomic_load_explicit(&is_unbounded, memory_order_relaxed);
    return is_bounded && size < most ? size : most;
}
