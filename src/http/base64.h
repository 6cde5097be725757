/* Base64 (RFC 4648), of histograms and of passwords. */
#ifndef GS_HTTP_BASE64_H
#define GS_HTTP_BASE64_H

#include "http/text.h"

#include <stdint.h>
#include <sys/types.h>

/* The length of the text of n bytes. */
#define GS_HTTP_BASE64_LENGTH(n) (((n) + 2) / 3 * 4)

/* Write the text of n bytes, GS_HTTP_BASE64_LENGTH(n) characters without NUL, to out. */
void gs_http_base64_write(char *out, const uint8_t *bytes, size_t n);

/* Read a text, with its padding, into `size` bytes. Returns the length, or -EINVAL: it is malformed
 * or too long. */
ssize_t gs_http_base64_read(char *out, size_t size, struct gs_http_text text);

#endif
