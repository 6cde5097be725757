/* The text of the last failure in each thread. */
#ifndef GS_HTTP_CLIENT_ERROR_H
#define GS_HTTP_CLIENT_ERROR_H

#include <gossamer/api.h>

/* The longest text, with its NUL. */
#define GS_HTTP_CLIENT_TEXT 512

/* Create the key of the threads' texts, once. Returns 0 or -EAGAIN. */
GS_MUST_CHECK int gs_http_client_error_init(void);

/* Set the text of the calling thread. Returns err. */
GS_PRINTF(2, 3) int gs_http_client_fail(int err, const char *format, ...);

/* Forget the text, at the beginning of a call. */
void gs_http_client_error_clear(void);

/* Set a text for err unless there is one already. Returns err. */
int gs_http_client_fail_plainly(int err, const char *what);

#endif
