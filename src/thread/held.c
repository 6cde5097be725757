/* Kernel mutexes and locks of stdio that a thread holds while it waits: where the library gossamer_check is loaded, it is asked at
 * each switch, and what it says is reported. */
#include "thread/preload/held.h"

#include "thread/state.h"

#include <dlfcn.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <string.h>

static gs_held_at_wait_fn *at_wait;

void gs_held_start(void)
{
    at_wait = (gs_held_at_wait_fn *)dlsym(RTLD_DEFAULT, GS_HELD_AT_WAIT);
    gs_runtime.looks_at_switches = at_wait && gs_report_fd() >= 0;
}

void gs_held_look(const struct gs_thread *thread)
{
    struct gs_held last;
    Dl_info info = {0};
    char line[256], place[128];
    unsigned count = at_wait(thread, &last);
    if (!count)
        return;
    dladdr(last.locked_by, &info);
    const char *module = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    size_t offset = (size_t)((const char *)last.locked_by - (const char *)info.dli_fbase);
    if (info.dli_sname)
        snprintf(place, sizeof place, "%s (%s+0x%zx)", info.dli_sname, module ? module + 1 : "",
                 offset);
    else
        snprintf(place, sizeof place, "%s+0x%zx", module ? module + 1 : "?", offset);
    int n = snprintf(line, sizeof line,
                     "held: thread \"%s\" waits while it holds %u kernel mutex%s or stream%s, last "
                     "%p, locked in %s\n",
                     thread->name, count, count > 1 ? "es" : "", count > 1 ? "s" : "", last.lock,
                     place);
    (void)gs_sys_write(gs_report_fd(), line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}
