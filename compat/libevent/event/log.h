/* Messages to the program: to the function of event_set_log_callback, or to standard error. */
#ifndef GS_COMPAT_LIBEVENT_LOG_H
#define GS_COMPAT_LIBEVENT_LOG_H

#include <stdarg.h>
#include <stdbool.h>

#define GS_EV_PRINTF(format_, first_) __attribute__((format(printf, format_, first_)))

/* A warning; the first one appends the error of errno, the second that of a socket. */
void gs_ev_warn(const char *format, ...) GS_EV_PRINTF(1, 2);
void gs_ev_sock_warn(int fd, const char *format, ...) GS_EV_PRINTF(2, 3);
void gs_ev_warnx(const char *format, ...) GS_EV_PRINTF(1, 2);
void gs_ev_msgx(const char *format, ...) GS_EV_PRINTF(1, 2);

/* An error that leaves no way on: the fatal callback is called, or the program ends with the
 * status. */
_Noreturn void gs_ev_err(int status, const char *format, ...) GS_EV_PRINTF(2, 3);
_Noreturn void gs_ev_errx(int status, const char *format, ...) GS_EV_PRINTF(2, 3);

/* Only if the program has enabled debug logging. */
extern bool gs_ev_is_debug_logged;
void gs_ev_debugx_always(const char *format, ...) GS_EV_PRINTF(1, 2);
#define gs_ev_debugx(...)                                                                          \
    do {                                                                                           \
        if (__builtin_expect(gs_ev_is_debug_logged, 0))                                            \
            gs_ev_debugx_always(__VA_ARGS__);                                                      \
    } while (0)

#endif
