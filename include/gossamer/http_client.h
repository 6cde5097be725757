/* HTTP client for user threads.
 *
 *     err = gs_http_client_new(NULL, &client);                          once in a program
 *     err = gs_http_get(client, "http://localhost:8080/", deadline_ns, &response);
 *     if (err) {
 *         fprintf(stderr, "%s\n", gs_http_client_error());
 *     } else {
 *         n = gs_http_response_read_all(response, 1 << 20, deadline_ns, &page);
 *         gs_http_response_free(response);
 *     }
 *
 * HTTP/2, 1.1 and 1.0 are spoken, over TCP or TLS. For https, a program links gossamer-tls, and
 * gives the client a context (tls_context.h):
 *
 *     const struct gs_tls_options tls = {.is_client = true};
 *     err = gs_tls_context_new(&tls, &context, text);
 *     const struct gs_http_client_options options = {.tls = context};
 *     err = gs_http_client_new(&options, &client);
 *
 * The context keeps sessions, unless it forgets them, and new connections to a host and port resume
 * them.
 *
 * Connections are kept, and used again for the same scheme, host and port; one that the server has
 * closed is noticed before it is used. A request that fails on a kept connection before any byte of
 * the response has arrived is sent once more, on a new connection, if that is safe: the method is
 * GET, HEAD, OPTIONS, TRACE, PUT or DELETE, and the body, if any, is in memory (RFC 9110, 9.2.2).
 *
 * HTTP/2 is spoken with servers that choose it, if the context has the protocol "h2" (before
 * "http/1.1"), and the library was built with libnghttp2. All threads share a connection to a host,
 * up to as many requests as the server allows; further ones get another connection. A deadline or a
 * cancellation ends one request, not the connection. A request that the server says it has not
 * processed is sent once more, with any method, unless its body is read by a function. Names of
 * fields in responses are in lower case.
 *
 * Redirects are followed. Bodies are decoded (gzip, br, zstd, as far as the library was built with
 * them). Trailers are ignored.
 *
 * Cookies (RFC 6265) are kept, in memory, by a client that has room for them:
 *
 *     const struct gs_http_client_options options = {.max_cookies = 300};
 *
 * All requests of the client share them, redirects included; programs that act for several users
 * create a client for each. The URL decides which cookies are sent and accepted. A request that has
 * the field Cookie sends that alone, and the cookies of its responses are not kept. Secure cookies
 * are only accepted from https and sent over it, and are not replaced from http. The prefixes
 * __Secure- and __Host- are honoured; HttpOnly and SameSite have no meaning for a program. A cookie
 * has at most 4 KiB, with its attributes; a domain has at most 50; the ones that were not used for
 * the longest time are removed first. The field Cookie has at most 8 KiB.
 *
 * The client has no list of public suffixes. With the attribute Domain a host can set cookies for
 * itself and for its parents of two labels or more, and so also for "co.uk": other hosts there then
 * get a cookie that is not theirs. Do not keep cookies where such hosts do not trust each other.
 *
 * URLs begin with http:// or https://. A host is a name in ASCII, or an address; IPv6 in brackets.
 * Spaces and control characters are refused; other characters that a URL must not contain are
 * percent-encoded. A fragment is not sent. "user:password@" becomes Basic authorization, unless the
 * request has the field Authorization; in a redirect it is ignored.
 *
 * Proxies are those of the environment when the client was created, as curl understands it:
 * http_proxy, https_proxy, HTTPS_PROXY, all_proxy, ALL_PROXY, no_proxy, NO_PROXY. They are reached
 * by http, without TLS; https passes them in a tunnel (CONNECT).
 *
 * Memory: a request in flight has no buffers while it waits for the response. Buffers are in the
 * heap, and as large as what has arrived and has not been read. Work is done on the worker's stack.
 *
 * Threads: these functions are for user threads, except gs_http_client_new and gs_http_client_free.
 * Threads of any workers may use a client at the same time; a response is used by one at a time.
 * Deadlines and cancellation are those of gossamer/io.h. After -ETIMEDOUT and -ECANCELED of a read,
 * it can be repeated.
 */
#ifndef GOSSAMER_HTTP_CLIENT_H
#define GOSSAMER_HTTP_CLIENT_H

#include <gossamer/api.h>
#include <gossamer/buffered.h>
#include <gossamer/clock.h>
#include <gossamer/error.h>
#include <gossamer/http_field.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

GS_BEGIN_DECLS

/* ---- The life of an HTTP client ---- */

struct gs_http_client;
struct gs_tls_context;

/* All members may be 0: then the value in parentheses applies. "A host" means a scheme, a host and
 * a port; requests by a proxy that need no tunnel count for the proxy. */
struct gs_http_client_options {
    struct gs_tls_context *tls;    /* for https: a client's context, which stays the caller's (https
                                    * fails) */
    unsigned max_host_connections; /* to one host; further requests wait for one, in order (no
                                    * limit). With HTTP/2, so many requests to it at a time. */
    unsigned max_host_idle;        /* kept connections to one host (100) */
    unsigned max_idle;             /* kept connections in all; the oldest is closed (1000) */
    uint64_t idle_timeout_ns;      /* a connection is kept for this time (60 s). It is closed when
                                    * the client is used next. */
    uint64_t connect_timeout_ns;   /* a connection must be made in this time, with its tunnel and
                                    * its handshake, if the deadline is not earlier (no limit) */
    unsigned max_redirects;        /* (10) */
    unsigned max_cookies;          /* in all; each request looks at all of them (none are kept) */
    uint64_t max_decoded;          /* bytes of a body that is decoded (256 MiB) */
    bool returns_redirects;        /* redirects are returned as responses, not followed */
    bool allows_downgrade;         /* redirects from https to http are followed */
    bool leaves_encoded;           /* bodies are not decoded, nor asked for in a coding */
    bool ignores_proxies;          /* the environment is not looked at */
    bool assumes_http2;            /* http:// means HTTP/2 without TLS, except by a proxy */
};

/* Create a client; options: may be NULL. Any kernel thread, also while no user threads run.
 * Returns 0, -ENOMEM, or -EAGAIN (there are GS_THREAD_KEYS keys of threads already). */
GS_API GS_MUST_CHECK int gs_http_client_new(const struct gs_http_client_options *options,
                                            struct gs_http_client **ret_client);

/* Close all kept connections, and free the client; its responses have been freed before. May also
 * be called after gs_threads_run has returned. NULL is accepted. */
GS_API void gs_http_client_free(struct gs_http_client *client);

/* ---- Requests of an HTTP client ----
 *
 *     const struct gs_http_field type = {"Content-Type", "application/json"};
 *     const struct gs_http_client_request request = {
 *         .url = url, .fields = &type, .field_count = 1, .body = "{}", .body_n = 2};
 *     err = gs_http_fetch(client, &request, deadline_ns, &response);
 */

/* All members but the URL may be 0. The client adds Host, Connection, Content-Length and
 * Transfer-Encoding, and, unless the request has them, User-Agent, Accept-Encoding, Authorization
 * and Cookie. A request with Accept-Encoding or Range gets the body as it was received. */
struct gs_http_client_request {
    const char *method; /* NULL: GET; or POST, if there is a body */
    const char *url;
    const char *host; /* with its port: the field Host, as a proxy passes it on; not to where a
                       * redirect leads. NULL: that of the URL */
    const struct gs_http_field *fields;
    unsigned field_count;
    const void *body; /* NULL: none, unless read_body is set */
    size_t body_n;
    /* Called for the body's parts, with `data` and the deadline; it may wait. It returns the number
     * of bytes, 0 at the end, or -errno, which becomes the result. NULL: the body is in memory. */
    gs_reader_fn *read_body;
    void *data;
    uint64_t body_length; /* with read_body: bytes of the body; 0 or GS_HTTP_UNKNOWN: it is sent in
                           * chunks */
};

/* A response, as far as its head. The members stay valid until gs_http_response_free. */
struct gs_http_response {
    unsigned status;                    /* 200 and above */
    const char *url;                    /* that has answered, after redirects */
    const struct gs_http_field *fields; /* in order, as they were received */
    unsigned field_count;
    uint64_t content_length; /* bytes of the body; GS_HTTP_UNKNOWN: they were not announced, or the
                              * body is decoded */
    bool is_decoded;         /* Content-Encoding and Content-Length tell how it was sent */
};

/* Get a page: send a GET request, follow redirects, and wait for the head of the response, which
 * the caller frees. A status such as 404 is no error.
 *
 * Redirects: 301 and 302 turn POST into GET, and 303 every method but HEAD, without the body; with
 * 307 and 308 the request is repeated as it was. To another scheme, host or port, the request's
 * fields Authorization and Cookie are not sent. From https to http no redirect is followed
 * (allows_downgrade).
 *
 * Returns 0; -EINVAL (the URL, the host, a field or the method is invalid); -EPROTONOSUPPORT
 * (https without a context); -EPERM (a redirect from https to http); -ELOOP (too many redirects);
 * -ENOTSUP (a body by function would have to be sent twice); -EPROTO (TLS has failed, the response
 * is not one of HTTP, or a redirect leads to no URL of http or https); -EMSGSIZE (its head is
 * longer than 64 KiB, with interim ones, or has more than 256 fields); -ECONNRESET (the server has
 * closed the connection); -ECONNABORTED (a proxy has refused the tunnel); -ENOMEM, -ETIMEDOUT,
 * -ECANCELED, or another error of gs_dial, gs_send or gs_recv. gs_http_client_error tells more. */
GS_API GS_MUST_CHECK int gs_http_get(struct gs_http_client *client, const char *url,
                                     uint64_t deadline_ns, struct gs_http_response **ret_response);

/* The same with any request. If sending the body fails, but the server has responded, that response
 * is returned. Returns what gs_http_get returns, or an error of read_body. */
GS_API GS_MUST_CHECK int gs_http_fetch(struct gs_http_client *client,
                                       const struct gs_http_client_request *request,
                                       uint64_t deadline_ns,
                                       struct gs_http_response **ret_response);

/* Resolve a reference, such as "../a.html" or "//example.org", that a page of the URL `base` has
 * (RFC 3986, 5.2), and write the URL with a NUL to out: without user and fragment, and with what a
 * URL must not contain percent-encoded, so that references to the same page are mostly equal. White
 * space around the reference is ignored. Any kernel thread. Returns 0, -EINVAL (the base or the
 * result is no URL of http or https), -ENAMETOOLONG (`size` bytes are too few), or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_http_resolve_url(const char *base, const char *reference, char *out,
                                             size_t size);

/* Returns one line on the last failure of these functions in the calling thread: what has failed,
 * and a remedy where there is one. It is valid until the next call of one of them. */
GS_API const char *gs_http_client_error(void);

/* ---- Responses of an HTTP client ----
 *
 *     while ((n = gs_http_response_read(response, bytes, sizeof bytes, deadline_ns)) > 0)
 *         fwrite(bytes, 1, (size_t)n, stdout);
 */

/* Returns the value of the first field of this name, in any case; NULL: there is none. */
GS_API const char *gs_http_response_field(const struct gs_http_response *response,
                                          const char *name);

/* Read up to n bytes of the body, as soon as there are some.
 * Returns their number; 0: the end of the body; -EPROTO (chunks or a coding are malformed, or TLS
 * has failed), -EFBIG (the decoded body is longer than max_decoded), -ECONNRESET (the connection
 * has ended before the body), -ENOMEM, -ETIMEDOUT, -ECANCELED, or another error of gs_recv. */
GS_API GS_MUST_CHECK ssize_t gs_http_response_read(struct gs_http_response *response, void *bytes,
                                                   size_t n, uint64_t deadline_ns);

/* Read all of the rest of the body, into memory that the caller frees; a NUL follows it.
 * Returns its length, -EMSGSIZE (it is longer than max bytes), or an error of
 * gs_http_response_read. */
GS_API GS_MUST_CHECK ssize_t gs_http_response_read_all(struct gs_http_response *response,
                                                       size_t max, uint64_t deadline_ns,
                                                       char **ret_body);

/* Free the response. Its connection is kept if the rest of the body has arrived already; otherwise
 * it is closed. Does not wait. NULL is accepted. */
GS_API void gs_http_response_free(struct gs_http_response *response);

GS_END_DECLS

#endif
