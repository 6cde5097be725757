/* The records of TLS 1.3 after the handshake (RFC 8446, section 5).
 *
 * OpenSSL makes the handshake. Once it is complete, all that a connection needs are the two secrets
 * of its traffic and a number for each direction. So OpenSSL's object is freed, and records are
 * sealed and opened here, with OpenSSL's ciphers: without copies, without a state machine, and
 * without memory but the output. Connections of TLS 1.2 stay with OpenSSL.
 *
 *     handshake, by OpenSSL ----------------------------> connection of TLS 1.2, by OpenSSL
 *         :   the keys it derives are noted (secrets.h, traffic.h)
 *         :   a server: at the end of the handshake
 *         :   a client: with the first plaintext, before which tickets may arrive
 *         '---- gs_tls_records_take_over ---> records, here
 */
#ifndef GS_TLS_RECORDS_H
#define GS_TLS_RECORDS_H

#include "tls/seal.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gs_tls_engine;
struct gs_tls_input;

struct gs_tls_records {
    struct gs_tls_keys sent, received;
    unsigned char *partial; /* a record that has not arrived as a whole; NULL: none */
    size_t partial_n;
    unsigned char *rest; /* plaintext for which the caller had no room; NULL: none */
    size_t rest_at, rest_n, rest_size;
    size_t skipped;           /* bytes that are still to come of a message that is ignored */
    unsigned char message[5]; /* of a handshake, that has not arrived as a whole */
    unsigned char message_n;
    bool is_peer_closed;
    bool owes_update; /* the peer has asked for new keys of ours */
};

/* Take the connection over from OpenSSL, if this is possible now. */
void gs_tls_records_take_over(struct gs_tls_engine *engine);

/* As gs_tls_engine_read and gs_tls_engine_write. */
ssize_t gs_tls_records_read(struct gs_tls_engine *engine, struct gs_tls_input *input, void *plain,
                            size_t size);
ssize_t gs_tls_records_write(struct gs_tls_engine *engine, const void *bytes, size_t n);

/* Tell the peer that nothing more will be sent. */
void gs_tls_records_close(struct gs_tls_engine *engine);

void gs_tls_records_free(struct gs_tls_records *records);

#endif
