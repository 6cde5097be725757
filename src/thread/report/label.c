/* How reports name a thread. The control block has no function once the thread has started; but the
 * end of the stack has it, in a word that the first frame needs anyway (context_make). */
#include "thread/report/backtrace.h"
#include "thread/schedule/thread_extra.h"
#include "thread/stack/shared_stack.h"

#include <stdio.h>
#include <string.h>

/* A stack of the program's own may begin with frames of the program's. */
NOT_FOR_TSAN uintptr_t gs_report_function_at(const struct gs_thread *thread)
{
    if (!thread->stack_top || thread->stack_class == CLASS_USER_STACK)
        return 0;
    return context_label(thread_first_top(thread));
}

NOT_FOR_ASAN NOT_FOR_TSAN const void *gs_report_function(const struct gs_thread *thread)
{
    uintptr_t at = gs_report_function_at(thread);
    if (!at)
        return NULL;
    struct gs_spin *lock = gs_stack_reading_lock(thread);
    const void *const *word = gs_stack_readable(thread, at);
    const void *function = word ? *word : NULL;
    gs_stack_reading_unlock(lock, thread);
    return function;
}

const char *gs_report_label(const char *name, const void *function, char ret_label[LABEL_SIZE])
{
    struct symbol symbol = {0};
    if (!*name && function)
        gs_symbols_find(function, &symbol);
    if (symbol.name)
        snprintf(ret_label, LABEL_SIZE, "%.*s()", LABEL_SIZE - 3, symbol.name);
    else
        snprintf(ret_label, LABEL_SIZE, "%s", name);
    return ret_label;
}

const char *gs_report_label_of(const struct gs_thread *thread, char ret_label[LABEL_SIZE])
{
    return gs_report_label(thread_name(thread), gs_report_function(thread), ret_label);
}
