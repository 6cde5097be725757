/* Base64 (RFC 4648), of histograms and of passwords. */
#ifndef GS_LOAD_BASE64_H
#define GS_LOAD_BASE64_H

#include <stdint.h>
#include <stdio.h>

void gs_load_base64_write(FILE *file, const uint8_t *bytes, size_t n);

#endif
