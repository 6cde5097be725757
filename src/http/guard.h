/* What guards the paths of a site: basic authentication (RFC 7617).
 *
 * Credentials that are known let a request pass at once. Others are verified by a load, after which
 * the request is handled once more, so each architecture hashes where it waits for disks. */
#ifndef GS_HTTP_GUARD_H
#define GS_HTTP_GUARD_H

#include "http/site.h"
#include "http/users.h"

#define GS_HTTP_REALM_MAX 128

/* Returns NULL, or what is wrong with it, as the end of a sentence: "is ...". */
const char *gs_http_guard_problem(const struct gs_http_guard *guard);

/* The guard of a path below the root; NULL: there is none. */
const struct gs_http_guard *gs_http_guard_find(const struct gs_http_site *site,
                                               struct gs_http_text path);

/* Credentials, and whose they are. */
struct gs_http_pass {
    struct gs_http_users *users; /* borrowed */
    struct gs_http_credentials credentials;
};

enum gs_http_passage {
    GS_HTTP_PASSES,
    GS_HTTP_PASSES_NOT,     /* 401 */
    GS_HTTP_PASSES_BY_TLS,  /* 403: only with TLS, and nobody is asked to send a password */
    GS_HTTP_PASSES_IF_CHECK /* *ret_credentials are to be verified */
};

/* Whether the request passes the guard. */
enum gs_http_passage gs_http_guard_ask(const struct gs_http_guard *guard,
                                       const struct gs_http_request *request, bool is_secure,
                                       uint64_t now_ns,
                                       struct gs_http_credentials *ret_credentials);

struct gs_http_conn;
struct gs_http_load;

/* In place of a status: a load verifies the request; it will do so when the output is empty. */
#define GS_HTTP_GUARD_WAITS 1000u
#define GS_HTTP_GUARD_BLOCKED 1001u

/* Ask the guard of the path that the service wants. pass: the load that has verified the request;
 * NULL: none has. Returns 0 if it passes, the status to refuse it with, or one of the above. */
unsigned gs_http_guard_request(struct gs_http_conn *conn, const struct gs_http_request *request,
                               const struct gs_http_load *pass, uint64_t now_ns);

struct gs_http_service;

/* The user that the request names, for the log, in the service's memory; NULL: none, or the site
 * asks for none. */
const char *gs_http_guard_user(struct gs_http_service *service,
                               const struct gs_http_request *request);

#endif
