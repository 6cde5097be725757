/* How the keys of a connection's traffic are learned.
 *
 * OpenSSL derives all keys of TLS 1.3 by the algorithm TLS13-KDF, which it fetches from a provider.
 * Ours notes those of the traffic for the engine whose handshake the kernel thread makes. The key
 * log would tell the secrets, too, but formats each of five by 64 calls of sprintf, which is a
 * twelfth of a handshake.
 *
 * It computes the keys itself, without the look-ups by name and copies that take most of the time
 * of OpenSSL's algorithm, and has OpenSSL do everything else. */
#ifndef GS_TLS_SECRETS_H
#define GS_TLS_SECRETS_H

#include <stdbool.h>

struct gs_tls_engine;

/* For SSL_CTX_new_ex: contexts with these properties derive their keys by our provider. */
#define GS_TLS_SECRETS_PROPERTIES "?provider=gossamer"

/* Have OpenSSL know the provider, once in a process. Returns whether it does. */
bool gs_tls_secrets_init(void);

/* Note the secrets that this kernel thread derives for the engine; NULL: for none. */
void gs_tls_secrets_watch(struct gs_tls_engine *engine);

#endif
