/* SipHash-2-4 with 128 bits (Aumasson and Bernstein, "SipHash: a fast short-input PRF"): a keyed
 * hash that nobody without the key can compute or compare. */
#ifndef GS_HTTP_SIPHASH_H
#define GS_HTTP_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

void gs_http_siphash(const uint64_t key[2], const void *bytes, size_t n, uint64_t ret_hash[2]);

#endif
