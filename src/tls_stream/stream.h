/* Internals of a TLS connection of user threads.
 *
 *     gs_tls_recv --> gs_recv_with --> ciphertext in the worker's buffer --.
 *                                                                          v
 *     the caller's bytes <------------------------------------------- the engine
 *                                                                        |
 *     gs_tls_send_all --> the engine --> its output <--- answers --------'
 *                                            '--> gs_send, by the holder of the mutex
 *
 * One thread may receive while another sends, perhaps on another worker. The engine and its output
 * belong to the holder of the mutex, which does not wait: its calls have the deadline 0. What can
 * happen at the same time:
 *
 *   1. The sender waits for room in the socket, and the engine answers a message that the receiver
 *      has received. Both send from the start of the engine's output, and remove what the socket
 *      has taken before they release the mutex. So the bytes reach the socket in the order in which
 *      the engine has made them. The sender returns when no output is left: it sends the answer,
 *      too.
 *   2. An answer does not fit into the socket, and nobody sends. The receiver waits until the
 *      socket is readable or writable. It does not stop receiving because it cannot send, so two
 *      peers that both send do not wait for each other. Only if a peer provokes answers and does
 *      not read them, the receiver stops at GS_TLS_UNSENT_MAX.
 *   3. The receiver runs on the worker's stack (gs_recv_with), where it must not wait, while the
 *      sender has the mutex on another worker. The receiver keeps the ciphertext, and decrypts it
 *      when it has got the mutex.
 *   4. A call that sends fails within a record, for instance at its deadline. The receiver may send
 *      the rest of the output, but the engine encrypts nothing more, not even the end of the
 *      stream: so the peer learns that bytes are missing.
 *   5. A client sends while its server has sent only a part of a ticket: until the rest has been
 *      decrypted, OpenSSL encrypts nothing. If a thread is receiving (has_receiver), the sender
 *      waits until that one has decrypted something; otherwise it receives itself, and keeps a
 *      byte of plaintext that may follow.
 *
 *          sender                                   receiver
 *          ------                                   --------
 *          mutex: write: -EAGAIN, is_awaited = 1    has_receiver = 1, receives
 *          mutex: wait while is_awaited and         mutex: decrypts, is_awaited = 0, signal
 *                 has_receiver                      has_receiver = 0; if is_awaited: mutex, signal
 *
 *      A receiver that has decrypted the rest before the sender waits has reset is_awaited under
 *      the mutex. One that gives up first resets has_receiver and then reads is_awaited, and the
 *      sender first sets is_awaited and then reads has_receiver, in one order for all threads: one
 *      of them sees what the other has done. A receiver that comes while the sender receives waits
 *      at the same condition, with the same order. So at most one thread waits there. */
#ifndef GS_TLS_STREAM_STREAM_H
#define GS_TLS_STREAM_STREAM_H

#include <gossamer/sync.h>
#include <gossamer/tls.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A receive. It comes first in its connection, of which the lines behind it then return to the
 * cache while the kernel receives (gs_recv_with). */
struct gs_tls_receiving {
    struct gs_tls *tls;
    char *bytes;
    size_t n;
    ssize_t result; /* bytes of plaintext; 0: close_notify; -EAGAIN: none of them; -EPROTO */
};

struct gs_tls {
    struct gs_tls_receiving receiving; /* the receiver's */
    struct gs_mutex mutex;             /* of the engine */
    struct gs_tls_engine *engine;
    int fd;

    atomic_bool has_receiver; /* a thread is receiving */
    atomic_bool is_awaited;   /* by a thread at `progress`; changed with the mutex */
    struct gs_cond progress;  /* where one of the two waits for the other */

    /* A client's. */
    struct gs_tls_context *context; /* that keeps sessions; NULL: none is kept */
    char *server_name;
    struct gs_tls_session *offered; /* NULL: none */

    /* The sender's. */
    int send_error; /* why nothing more can be sent; 0: it can */
    unsigned sends;

    /* The receiver's, who has set has_receiver. */
    int receive_error; /* why received bytes are lost: -ENOMEM; 0: none are */
    bool is_drained;   /* neither the engine nor `input` has plaintext */
    bool has_first;
    char first;               /* byte of plaintext, which came with the end of the handshake */
    size_t unsent;            /* how much output the receiver could not send */
    char *input;              /* ciphertext that was kept; NULL: none */
    struct gs_tls_input left; /* what the engine has not taken of it */
};

/* Call fn on the worker's stack, with the mutex. */
void gs_tls_call(struct gs_tls *tls, void *(*fn)(void *argument), void *argument);

/* ---- In receive.c ---- */

/* What a peer may provoke without reading it. */
#define GS_TLS_UNSENT_MAX (128u << 10)

/* Decrypt what was received before; without anything, begin a client's handshake. */
void gs_tls_take(struct gs_tls_receiving *receiving);

/* Become the receiver if there is none. Returns whether the caller is it now. */
bool gs_tls_claim_input(struct gs_tls *tls);
void gs_tls_release_input(struct gs_tls *tls);

/* Receive once, and decrypt that. Returns 0, also if the result is still -EAGAIN, or -errno. */
GS_MUST_CHECK int gs_tls_receive(struct gs_tls_receiving *receiving, uint64_t deadline_ns);

/* ---- In send.c ---- */

/* Send as much output as the socket takes. The caller has the mutex. Returns 0, -EAGAIN (the socket
 * is full), or an error of gs_send. */
GS_MUST_CHECK int gs_tls_send_now(struct gs_tls *tls, size_t *ret_unsent);

/* Send all output. Returns 0 or -errno. */
GS_MUST_CHECK int gs_tls_flush(struct gs_tls *tls, uint64_t deadline_ns);

#endif
