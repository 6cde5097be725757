#include "http/guard.h"

#include "http/conn.h"
#include "http/load.h"
#include "http/pattern.h"
#include "http/service.h"

const char *gs_http_guard_problem(const struct gs_http_guard *guard)
{
    const char *problem = gs_http_pattern_problem(guard->pattern);
    if (problem || !guard->users)
        return problem;
    if (!guard->realm || strlen(guard->realm) > GS_HTTP_REALM_MAX)
        return "has no realm, or one of more than 128 bytes";
    for (const char *at = guard->realm; *at; at++)
        if ((unsigned char)*at < ' ' || *at == '"' || *at == '\\' || *at == 127)
            return "has a realm with a control character, a quote or a backslash";
    return NULL;
}

const struct gs_http_guard *gs_http_guard_find(const struct gs_http_site *site,
                                               struct gs_http_text path)
{
    for (unsigned i = 0; i < site->guard_count; i++)
        if (gs_http_pattern_match(site->guards[i].pattern, path, NULL))
            return site->guards[i].users ? &site->guards[i] : NULL;
    return NULL;
}

/* The only field of this name; absent: there is none, or there are several. */
static struct gs_http_text find_field(const struct gs_http_request *request)
{
    struct gs_http_text fields = request->fields, first = {NULL, 0}, second;
    if (!gs_http_field_next(&fields, "authorization", &first) ||
        gs_http_field_next(&fields, "authorization", &second))
        return (struct gs_http_text){NULL, 0};
    return first;
}

enum gs_http_passage gs_http_guard_ask(const struct gs_http_guard *guard,
                                       const struct gs_http_request *request, bool is_secure,
                                       uint64_t now_ns, struct gs_http_credentials *ret_credentials)
{
    if (!is_secure && !guard->allows_plain)
        return GS_HTTP_PASSES_BY_TLS;
    if (!gs_http_credentials_parse(find_field(request), ret_credentials))
        return GS_HTTP_PASSES_NOT;
    return gs_http_users_know(guard->users, ret_credentials, now_ns) ? GS_HTTP_PASSES
                                                                     : GS_HTTP_PASSES_IF_CHECK;
}

/* Returns false if there is no memory. */
static bool start_pass(struct gs_http_conn *conn, const struct gs_http_guard *guard,
                       uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    service->pass->users = guard->users;
    struct gs_http_load *load = gs_http_load_new_pass(service->site, service->pass);
    if (!load)
        return false;
    load->started_ns = now_ns;
    conn->load = load;
    conn->state = GS_HTTP_CONN_LOAD;
    return true;
}

static unsigned ask(struct gs_http_conn *conn, const struct gs_http_request *request,
                    const struct gs_http_guard *guard, uint64_t now_ns)
{
    switch (gs_http_guard_ask(guard, request, conn->is_secure, now_ns,
                              &conn->service->pass->credentials)) {
    case GS_HTTP_PASSES:
        return 0;
    case GS_HTTP_PASSES_NOT:
        return 401;
    case GS_HTTP_PASSES_BY_TLS:
        return 403;
    case GS_HTTP_PASSES_IF_CHECK:
        break;
    }
    if (conn->output)
        return GS_HTTP_GUARD_BLOCKED;
    return start_pass(conn, guard, now_ns) ? GS_HTTP_GUARD_WAITS : 503;
}

/* Not inlined: the stack that it needs is not part of its caller's. */
__attribute__((noinline)) unsigned gs_http_guard_request(struct gs_http_conn *conn,
                                                         const struct gs_http_request *request,
                                                         const struct gs_http_load *pass,
                                                         uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    const struct gs_http_guard *guard = gs_http_guard_find(service->site, service->wanted.path);
    if (!guard)
        return 0;
    service->realm = guard->realm;
    unsigned status = !pass                 ? ask(conn, request, guard, now_ns)
                      : pass->status == 200 ? 0
                                            : pass->status;
    gs_http_credentials_wipe(&service->pass->credentials);
    return status;
}

const char *gs_http_guard_user(struct gs_http_service *service,
                               const struct gs_http_request *request)
{
    if (!service->site->guard_count)
        return NULL;
    struct gs_http_credentials *credentials = &service->pass->credentials;
    return gs_http_credentials_parse(find_field(request), credentials) ? credentials->text : NULL;
}
