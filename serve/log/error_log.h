/* Messages on standard error, for those who run the server. Errors that end the server, or keep it
 * from starting, are always printed.
 *
 * The reasons for refusals are as many as hostile clients like. So at most
 * SERVE_REFUSALS_PER_SECOND are written per second, by all processes of the server together; then
 * the number of those that were suppressed. */
#ifndef GS_SERVE_ERROR_LOG_H
#define GS_SERVE_ERROR_LOG_H

#include <gossamer/http.h>
#include <stdatomic.h>

enum serve_log_level {
    SERVE_LOG_ERROR,
    SERVE_LOG_WARN, /* also what the server cannot do at the moment, and its summary at the end */
    SERVE_LOG_INFO, /* also why requests are refused with 400, 403 or 404 */
};

/* Set the level of this process and of its future children, initially SERVE_LOG_WARN. Called while
 * there is one kernel thread. Returns 0, or -EINVAL if no level has this name. */
GS_MUST_CHECK int serve_error_log_set_level(const char *name);
enum serve_log_level serve_error_log_level(void);

/* Print "gossamer serve: " and the message, which is dropped if standard error has no room for it:
 * a pipe that nobody reads must not stop the server. */
void serve_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, unless the level is SERVE_LOG_ERROR. */
void serve_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, if the level is SERVE_LOG_INFO. */
void serve_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SERVE_REFUSALS_PER_SECOND 10

/* In memory that the server's processes share; initially zero. */
struct serve_refusals {
    _Atomic(uint64_t) window; /* a second of the monotonic clock, times 2^32, plus lines in it */
    _Atomic(uint64_t) suppressed;
};

/* Write one line: 404 "/path": reason, or 400 "REQUEST LINE": reason. The arguments are those of
 * gs_http_refused_fn; what is not printable is escaped, and the end of a long text is left out. Any
 * kernel thread. */
void serve_refusals_report(unsigned status, enum gs_http_refusal reason, const char *shown,
                           size_t n, void *refusals);

/* Write one line: an answer with this page was broken off, because of this error; -ESTALE: the file
 * has changed. Any kernel thread. NULL: do nothing. */
void serve_transfer_failed(struct serve_refusals *refusals, const char *path, size_t n, int err);

/* Write the number of lines that were suppressed since it was last written, if there are any. */
void serve_refusals_flush(struct serve_refusals *refusals);

#endif
