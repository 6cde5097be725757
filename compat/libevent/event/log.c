#include "compat/libevent/event/log.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_MESSAGE 1024
/* The status of a program that ends because of an error within the library. */
#define INTERNAL_ERROR ((int)0xdeaddead)

bool gs_ev_is_debug_logged;

static event_log_cb program_log;
static event_fatal_cb program_fatal;

void event_set_log_callback(event_log_cb cb)
{
    program_log = cb;
}

void event_set_fatal_callback(event_fatal_cb cb)
{
    program_fatal = cb;
}

void event_enable_debug_logging(ev_uint32_t which)
{
    gs_ev_is_debug_logged = which != EVENT_DBG_NONE;
}

static const char *name_of(int severity)
{
    static const char *const names[] = {"debug", "msg", "warn", "err"};
    return severity >= EVENT_LOG_DEBUG && severity <= EVENT_LOG_ERR ? names[severity] : "???";
}

/* error: appended to the message; 0: none. */
static void say(int severity, int error, const char *format, va_list arguments)
{
    char message[MAX_MESSAGE];
    int length = format ? vsnprintf(message, sizeof message, format, arguments) : 0;
    if (length <= 0)
        message[length = 0] = '\0';
    size_t used = (size_t)length < sizeof message ? (size_t)length : sizeof message - 1;
    if (error)
        snprintf(message + used, sizeof message - used, ": %s", strerror(error));
    if (program_log)
        program_log(severity, message);
    else
        fprintf(stderr, "[%s] %s\n", name_of(severity), message);
}

static _Noreturn void end(int status)
{
    if (program_fatal) {
        program_fatal(status);
        exit(status);
    }
    if (status == INTERNAL_ERROR)
        abort();
    exit(status);
}

void gs_ev_warn(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    say(EVENT_LOG_WARN, error, format, arguments);
    va_end(arguments);
    errno = error;
}

void gs_ev_sock_warn(int fd, const char *format, ...)
{
    int error = errno;
    int pending = 0;
    socklen_t size = sizeof pending;
    if (error == EAGAIN && fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &pending, &size) &&
        pending)
        error = pending;
    va_list arguments;
    va_start(arguments, format);
    say(EVENT_LOG_WARN, error, format, arguments);
    va_end(arguments);
    errno = error;
}

void gs_ev_warnx(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(EVENT_LOG_WARN, 0, format, arguments);
    va_end(arguments);
}

void gs_ev_msgx(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(EVENT_LOG_MSG, 0, format, arguments);
    va_end(arguments);
}

void gs_ev_debugx_always(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(EVENT_LOG_DEBUG, 0, format, arguments);
    va_end(arguments);
}

void gs_ev_err(int status, const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    say(EVENT_LOG_ERR, error, format, arguments);
    va_end(arguments);
    end(status);
}

void gs_ev_errx(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(EVENT_LOG_ERR, 0, format, arguments);
    va_end(arguments);
    end(status);
}
