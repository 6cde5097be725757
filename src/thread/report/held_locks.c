/* Pthread mutexes and stdio locks that a thread holds while it waits: if the library gossamer_check
 * is loaded, it is asked at each switch, and its answer is reported. */
#include "thread/preload/lock_tracker.h"

#include "thread/report/report.h"
#include "thread/schedule/thread_extra.h"

#include <dlfcn.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <string.h>

static gs_held_locks_at_wait_fn *at_wait;

/* Nothing is looked for in vain: another thread may have the loader's lock, while it waits for what
 * the runtime does. */
void gs_held_locks_start(void)
{
    at_wait = gs_report_fd() < 0
                  ? NULL
                  : (gs_held_locks_at_wait_fn *)dlsym(RTLD_DEFAULT, GS_HELD_LOCKS_AT_WAIT);
    gs_runtime.ticks_at_each_switch = at_wait;
}

void gs_held_locks_report(const struct gs_thread *thread)
{
    struct gs_held_lock last;
    Dl_info info = {0};
    char line[256], location[128];
    unsigned count = at_wait(thread, &last);
    if (!count)
        return;
    dladdr(last.lock_site, &info);
    const char *module = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    size_t offset = (size_t)((const char *)last.lock_site - (const char *)info.dli_fbase);
    if (info.dli_sname)
        snprintf(location, sizeof location, "%s (%s+0x%zx)", info.dli_sname,
                 module ? module + 1 : "", offset);
    else
        snprintf(location, sizeof location, "%s+0x%zx", module ? module + 1 : "?", offset);
    int n =
        snprintf(line, sizeof line,
                 "held: thread \"%s\" waits while it holds %u pthread mutex%s or stream%s, last "
                 "%p, locked in %s\n",
                 thread_name(thread), count, count > 1 ? "es" : "", count > 1 ? "s" : "", last.lock,
                 location);
    (void)gs_sys_write(gs_report_fd(), line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}
