/* Content codings: gzip, br and zstd, as far as the library was built with zlib, libbrotlidec and
 * libzstd. The functions run on the worker's stack. */
#ifndef GS_HTTP_CLIENT_DECODER_H
#define GS_HTTP_CLIENT_DECODER_H

#include "http/text.h"

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The value of Accept-Encoding; empty: there is no coding. */
extern const char gs_http_client_codings[];

struct gs_http_client_decoder;

/* Returns whether bodies of this Content-Encoding can be decoded: one coding, in any case. */
bool gs_http_client_can_decode(const char *coding);

/* Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_http_client_decoder_new(const char *coding,
                                             struct gs_http_client_decoder **ret_decoder);
void gs_http_client_decoder_free(struct gs_http_client_decoder *decoder);

/* Decode input, which is advanced, into out. Returns the number of decoded bytes, which may be 0 if
 * all input was used; -EPROTO (the input is malformed), or -ENOMEM. Without input, what is left is
 * written. */
GS_MUST_CHECK ssize_t gs_http_client_decode(struct gs_http_client_decoder *decoder,
                                            struct gs_http_text *input, char *out, size_t room);

/* Returns whether the input so far is complete. */
bool gs_http_client_decoder_is_complete(const struct gs_http_client_decoder *decoder);

#endif
