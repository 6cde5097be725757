/* Base64 (RFC 4648), of histograms and of passwords. */
#ifndef GS_HTTP_BASE64_H
#define GS_HTTP_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* The length of the text of n bytes. */
#define GS_HTTP_BASE64_LENGTH(n) (((n) + 2) / 3 * 4)

/* Write the text of n bytes, GS_HTTP_BASE64_LENGTH(n) characters without NUL, to out. */
void gs_http_base64_write(char *out, const uint8_t *bytes, size_t n);

#endif
