#include "serve/log/error_log.h"

#include "serve/log/access_log.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The longest that a path becomes, with its escapes, and a line. */
#define PATH_TEXT_MAX 512
#define MESSAGE_MAX (PATH_TEXT_MAX + 160)

static enum serve_log_level level = SERVE_LOG_WARN;

int serve_error_log_set_level(const char *name)
{
    static const char *const names[] = {
        [SERVE_LOG_ERROR] = "error", [SERVE_LOG_WARN] = "warn", [SERVE_LOG_INFO] = "info"};
    for (int i = SERVE_LOG_ERROR; i <= SERVE_LOG_INFO; i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        level = (enum serve_log_level)i;
        return 0;
    }
    return -EINVAL;
}

enum serve_log_level serve_error_log_level(void)
{
    return level;
}

/* One call, so that lines of several threads or processes do not mix: stderr has no buffer. */
static void write_line(const char *format, va_list arguments)
{
    char line[MESSAGE_MAX] = "gossamer serve: ";
    size_t prefix = strlen(line);
    vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
    size_t n = strlen(line);
    line[n] = '\n';
    line[n + 1] = '\0';
    struct pollfd poll = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (gs_sys_poll(&poll, 1, 0) > 0 && poll.revents & POLLOUT)
        fputs(line, stderr);
}

void serve_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

void serve_warn(const char *format, ...)
{
    if (level < SERVE_LOG_WARN)
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

void serve_info(const char *format, ...)
{
    if (level < SERVE_LOG_INFO)
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

/* ---- Refusals ---- */

static const char *const reasons[] = {
    [GS_HTTP_REFUSED_NOT_FOUND] = "not found",
    [GS_HTTP_REFUSED_DOT_FILE] = "a name begins with a dot (see --dotfiles)",
    [GS_HTTP_REFUSED_LINK] = "a symbolic link leads out of ROOT (see --follow-symlinks)",
    [GS_HTTP_REFUSED_LINK_LOOP] = "too many symbolic links",
    [GS_HTTP_REFUSED_PERMISSION] = "permission denied",
    [GS_HTTP_REFUSED_NO_INDEX] = "the directory has no index.html (see --list)",
    [GS_HTTP_REFUSED_LIST_SIZE] = "the directory has too many entries to be listed",
    [GS_HTTP_REFUSED_KIND] = "not a regular file",
    [GS_HTTP_REFUSED_BYTES] = "a control character, or a line that does not end with CR LF",
    [GS_HTTP_REFUSED_LINE] = "the request line is malformed",
    [GS_HTTP_REFUSED_PATH] = "the path has a malformed escape, or leads above ROOT",
    [GS_HTTP_REFUSED_FIELD] = "a header field is malformed",
    [GS_HTTP_REFUSED_HOST] = "there is no Host field",
    [GS_HTTP_REFUSED_FRAMING] = "the length of the body is ambiguous",
    [GS_HTTP_REFUSED_BODY] = "the body is malformed",
};

/* Count a line in the current second. Returns its number in that second, from 1 on. A thread that
 * read the clock in the previous second counts in the current one. */
static uint32_t count_line(struct serve_refusals *refusals)
{
    uint64_t second = gs_clock_now() / GS_SECOND, before = atomic_load(&refusals->window), after;
    do
        after = second > before >> 32 ? second << 32 | 1 : before + 1;
    while (!atomic_compare_exchange_weak(&refusals->window, &before, after));
    return (uint32_t)after;
}

void serve_refusals_flush(struct serve_refusals *refusals)
{
    uint64_t count = atomic_exchange(&refusals->suppressed, 0);
    if (count)
        serve_warn("%llu more refusals are not shown", (unsigned long long)count);
}

/* Returns whether another line may be written in this second. */
static bool may_write(struct serve_refusals *refusals)
{
    uint32_t number = count_line(refusals);
    if (number > SERVE_REFUSALS_PER_SECOND)
        atomic_fetch_add(&refusals->suppressed, 1);
    if (number == 1)
        serve_refusals_flush(refusals);
    return number <= SERVE_REFUSALS_PER_SECOND;
}

void serve_transfer_failed(struct serve_refusals *refusals, const char *path, size_t n, int err)
{
    char text[PATH_TEXT_MAX + 1];
    if (!refusals || !may_write(refusals))
        return;
    text[serve_log_escape(text, PATH_TEXT_MAX, path, n)] = '\0';
    serve_warn("an answer was broken off: \"/%s\": %s", text,
               err == -ESTALE ? "the file has changed" : strerror(-err));
}

void serve_refusals_report(unsigned status, enum gs_http_refusal reason, const char *shown,
                           size_t n, void *refusals)
{
    char text[PATH_TEXT_MAX + 1];
    if (!may_write(refusals))
        return;
    text[serve_log_escape(text, PATH_TEXT_MAX, shown, n)] = '\0';
    serve_warn("%u \"%s%s\": %s", status, status == 400 ? "" : "/", text, reasons[reason]);
}
