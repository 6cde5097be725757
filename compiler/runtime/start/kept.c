/* What a thread takes along, as compiler/plugin/convert/kept_state.h has found it. */
#include "compiler/runtime/start/kept.h"
#include "compiler/runtime/libraries/library_locals.h"
#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/threads/thread.h"

#include <fenv.h>
#include <locale.h>
#include <netdb.h>

#define OF_C_LIBRARY (KEPT_LOCALE | KEPT_H_ERRNO | KEPT_NUMBERS)

struct kept {
    locale_t locale;
    fenv_t numbers;
    int h_err;
};

static struct kept *kept_of(struct thread *thread)
{
    struct extra *extra = gs_cc_extra(thread);
    if (!extra->kept) {
        extra->kept = gs_cc_allocate(sizeof *extra->kept);
        *extra->kept = (struct kept){.locale = LC_GLOBAL_LOCALE};
        fegetenv(&extra->kept->numbers);
    }
    return extra->kept;
}

static bool is_kept(unsigned what)
{
    return __atomic_load_n(&gs_cc_kept, __ATOMIC_RELAXED) & what;
}

void gs_cc_kept_new(struct thread *thread)
{
    if (is_kept(OF_C_LIBRARY))
        (void)kept_of(thread);
}

void gs_cc_kept_enter(struct thread *thread)
{
    if (is_kept(KEPT_LIBRARIES))
        gs_cc_locals_enter(thread);
    if (!is_kept(OF_C_LIBRARY))
        return;
    const struct kept *kept = kept_of(thread);
    if (is_kept(KEPT_LOCALE))
        uselocale(kept->locale);
    if (is_kept(KEPT_H_ERRNO))
        h_errno = kept->h_err;
    if (is_kept(KEPT_NUMBERS))
        fesetenv(&kept->numbers);
}

void gs_cc_kept_leave(struct thread *thread)
{
    if (is_kept(KEPT_LIBRARIES))
        gs_cc_locals_leave(thread);
    if (!is_kept(OF_C_LIBRARY))
        return;
    struct kept *kept = kept_of(thread);
    if (is_kept(KEPT_LOCALE))
        kept->locale = uselocale(NULL);
    if (is_kept(KEPT_H_ERRNO))
        kept->h_err = h_errno;
    if (is_kept(KEPT_NUMBERS))
        fegetenv(&kept->numbers);
}

void gs_cc_kept_free(struct extra *extra)
{
    if (extra->kept)
        gs_cc_release(extra->kept, sizeof *extra->kept);
    gs_cc_locals_free(extra);
}
