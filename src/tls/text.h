/* Descriptions of errors, for persons. */
#ifndef GS_TLS_TEXT_H
#define GS_TLS_TEXT_H

#include <gossamer/tls_context.h>
#include <openssl/x509.h>
#include <stdbool.h>

/* Write one line, unless ret_text is NULL, in which only ASCII stays as it is: certificates hold
 * anything. Returns -EINVAL. */
__attribute__((format(printf, 2, 3))) int gs_tls_say(char *ret_text, const char *format, ...);

/* Replace all that is not ASCII, and control characters, in place. */
void gs_tls_keep_ascii(char *text);

/* The name that a certificate is for: its first DNS name, or else its common name. */
struct gs_tls_name_text {
    char text[100];
    bool is_common;
};
struct gs_tls_name_text gs_tls_name_of(const X509 *certificate);

/* What OpenSSL says of the last error in its queue, which is emptied. */
const char *gs_tls_last_reason(void);

#endif
