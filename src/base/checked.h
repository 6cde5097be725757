/* Checks of misuse. They exist only in the library gossamer_checked, which is compiled from the
 * same sources with GS_CHECKED; elsewhere the macros vanish. A misuse is reported by one line that
 * says which function was called, what is wrong and where the call is, and by a backtrace; then the
 * process is aborted.
 *
 *     gossamer: gs_thread_join: thread "x" was joined before (in main (server+0x3456))
 *
 * loop/checked.h and thread/checked.h have the checks of these modules. */
#ifndef GS_BASE_CHECKED_H
#define GS_BASE_CHECKED_H

#ifdef GS_CHECKED
#define GS_IS_CHECKED 1

#include "base/hidden.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A call of a public function. */
struct gs_call {
    const char *function;
    const void *site; /* its return address */
};

/* The call of the public function that contains this, and that the program has named so. */
#define CALL_OF(name_) ((struct gs_call){name_, __builtin_return_address(0)})
#define THIS_CALL CALL_OF(__func__)

/* Report the misuse and abort. */
_Noreturn __attribute__((format(printf, 2, 3))) void gs_misuse(struct gs_call call,
                                                               const char *format, ...);

/* Stop unless the condition holds. Further arguments: what is wrong, as for printf. */
#define CHECKED(condition_, ...)                                                                   \
    do {                                                                                           \
        if (!(condition_))                                                                         \
            gs_misuse(THIS_CALL, __VA_ARGS__);                                                     \
    } while (0)

/* Call a function that exists only here. */
#define IF_CHECKED(call_) ((void)(call_))

/* A deadline that is a duration rather than a time lies long before the start of the program:
 * stop. */
void gs_checked_deadline(struct gs_call call, uint64_t deadline_ns);
#define CHECKED_DEADLINE(deadline_ns_) gs_checked_deadline(THIS_CALL, deadline_ns_)

/* How reports are written: to `fd`, and with `describe`, which names the function that contains the
 * address. By default the dynamic linker's names are used. */
struct gs_checked_reports {
    int fd;
    void (*describe)(const void *pc, char *ret_text, size_t size);
};
extern GS_HIDDEN struct gs_checked_reports gs_checked_reports;
#define CHECKED_REPORT_TO(fd_) ((void)(gs_checked_reports.fd = (fd_)))

#else
#define GS_IS_CHECKED 0
#define CHECKED(condition_, ...) ((void)0)
#define IF_CHECKED(call_) ((void)0)
#define CHECKED_DEADLINE(deadline_ns_) ((void)0)
#define CHECKED_REPORT_TO(fd_) ((void)0)
#endif

#endif
