/* Where the head of a request (RFC 9112: request line and fields) ends. */
#ifndef GS_HTTP_HEAD_H
#define GS_HTTP_HEAD_H

#include <stddef.h>
#include <sys/types.h>

/* Look for the empty line that ends the head, from bytes[*scanned] on, where *scanned is 0 at first
 * and is kept between calls with more of the same bytes. Returns the head's length with its empty
 * line; 0 if it is not complete; or -EPROTO as soon as a byte has been seen that no head may hold:
 * a control character other than a tab, CR without LF, LF without CR. So a complete head holds CR
 * and LF as line ends only. */
ssize_t gs_http_head_end(const char *bytes, size_t n, size_t *scanned);

#endif
