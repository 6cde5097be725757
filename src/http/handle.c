/* Handles a request: decides about the response, builds it, and records it in the counters and the
 * access log. */
#include "http/conn.h"

#include "http/cors.h"
#include "http/guard.h"
#include "http/http2.h"
#include "http/listing.h"
#include "http/load.h"
#include "http/record.h"
#include "http/rules.h"
#include "http/variant.h"

#include <errno.h>

/* ---- Counters ---- */

static void count_response(struct gs_http_counts *counts, unsigned status)
{
    gs_http_count(&counts->requests, 1);
    if (status >= 300)
        gs_http_count(status < 400   ? &counts->redirections
                      : status < 500 ? &counts->client_errors
                                     : &counts->server_errors,
                      1);
}

static void record_response(const struct gs_http_response *response,
                            struct gs_http_response_info info)
{
    count_response(response->service->counts, info.status);
    response->output->responses++;
    if (response->service->options.log && !response->is_quiet)
        gs_http_add_log_record(response, info);
}

/* ---- Sites and paths ---- */

/* Not inlined: the stack that it needs is not part of its caller's. */
static __attribute__((noinline)) const struct gs_http_site *
find_site(const struct gs_http_service *service, const struct gs_http_request *request)
{
    return gs_http_sites_find(&service->sites, gs_http_site_host(request));
}

/* With one site, it stays selected. */
static inline void select_site(struct gs_http_service *service,
                               const struct gs_http_request *request,
                               const struct gs_http_load *load)
{
    if (service->sites.count > 1)
        service->site = load ? load->site : find_site(service, request);
}

/* To https, unless the site does not want that. */
static bool is_redirected(const struct gs_http_conn *conn)
{
    return conn->flags & GS_HTTP_CONN_REDIRECT && conn->service->site->https_port;
}

/* Find the file's path below the root, in the service's memory; that of a directory ends with a
 * slash. Returns 0 or the status to refuse the request with: 404 because of a dot file. */
static inline __attribute__((always_inline)) unsigned
find_path(const struct gs_http_service *service, struct gs_http_text target, bool *ret_is_directory,
          struct gs_http_text *ret_path)
{
    unsigned flags;
    ssize_t n = gs_http_path_normalise(target, service->path, service->path_size, &flags);
    if (n < 0)
        return n == -ENAMETOOLONG ? 414 : 400;
    *ret_is_directory = flags & GS_HTTP_PATH_DIRECTORY;
    if (*ret_is_directory && n && (size_t)n < service->path_size)
        service->path[n++] = '/';
    *ret_path = (struct gs_http_text){service->path, (size_t)n};
    return flags & GS_HTTP_PATH_HIDDEN && !service->options.dotfiles ? 404 : 0;
}

/* The same for what the request wants. */
static __attribute__((noinline)) unsigned find_wanted_path(struct gs_http_service *service,
                                                           const struct gs_http_request *request)
{
    struct gs_http_wanted *wanted = &service->wanted;
    wanted->path = (struct gs_http_text){"", 0};
    return find_path(service, request->target.path, &wanted->is_directory, &wanted->path);
}

/* For a response without a file; also for a request without a valid path. Not inlined: it is rare,
 * and needs stack. */
static __attribute__((noinline)) struct gs_http_text
find_fields(struct gs_http_service *service, const struct gs_http_request *request)
{
    (void)find_wanted_path(service, request);
    size_t n = gs_http_rules_fields(service->site, service->options.fields, service->wanted.path,
                                    false, service->site_fields);
    return (struct gs_http_text){service->site_fields, n};
}

/* The same for any response without a file. */
static struct gs_http_text other_fields(const struct gs_http_conn *conn,
                                        const struct gs_http_request *request)
{
    struct gs_http_service *service = conn->service;
    if (is_redirected(conn))
        return (struct gs_http_text){"", 0};
    return gs_http_site_has_fields(service->site) ? find_fields(service, request) : service->fields;
}

/* Not inlined, for the same reason. */
static __attribute__((noinline)) bool find_origin(struct gs_http_service *service,
                                                  const struct gs_http_request *request)
{
    service->wanted.origin = gs_http_cors_origin(service->site, request);
    return service->wanted.origin.n > 0;
}

/* ---- Responses ---- */

static bool may_keep_alive(const struct gs_http_conn *conn, const struct gs_http_request *request,
                           const struct gs_http_page *page)
{
    uint64_t max = conn->service->options.max_requests;
    return request->keep_alive && !(conn->flags & GS_HTTP_CONN_DRAINING) &&
           (!max || conn->requests + 1 < max || (page && page->is_quiet));
}

/* Returns whether there is an output with room for a response (is_small: for one without ranges).
 * If memory for an output is exhausted, the connection is closed. */
static bool prepare_output(struct gs_http_conn *conn, bool is_small, uint64_t now_ns)
{
    if (conn->output)
        return gs_http_output_has_room(
            conn->output,
            (is_small ? GS_HTTP_RESPONSE_SMALL_BYTES : GS_HTTP_RESPONSE_BYTES) +
                conn->service->fields_room,
            is_small ? GS_HTTP_RESPONSE_SMALL_SEGMENTS : GS_HTTP_OUTPUT_SEGMENTS);
    conn->output = gs_http_service_new_output(conn->service);
    if (!conn->output) {
        conn->state = GS_HTTP_CONN_CLOSED;
        return false;
    }
    conn->output->started_ns = now_ns;
    return true;
}

/* A shorter answer is in the peer's kernel before a reset can be. Lingering costs two calls. */
#define LONG_BYTES 16384

/* Respond with the page, or with the status if page is NULL; with both if it is an error. */
static __attribute__((noinline)) enum gs_http_handled
respond_with(struct gs_http_conn *conn, const struct gs_http_request *request,
             struct gs_http_page *page, unsigned status, uint64_t now_ns)
{
    if (page && page->fd >= 0 && gs_http2_speaks(conn) && request->method == GS_HTTP_GET &&
        !gs_http2_may_keep_file(conn, page))
        return GS_HTTP_CROWDED;
    if (!prepare_output(conn, !page || !request->range.bytes, now_ns)) {
        conn->service->wanted.location.bytes = NULL;
        return GS_HTTP_BLOCKED;
    }
    struct gs_http_response response = {
        .service = conn->service,
        .output = conn->output,
        .request = request,
        .conn = conn,
        .fields = page && !page->is_generated ? page->fields : other_fields(conn, request),
        .has_page_fields = page && !page->is_generated,
        .is_negotiated = page && page->is_negotiated,
        .has_origin = conn->service->site->cors && find_origin(conn->service, request),
        .keep_alive =
            may_keep_alive(conn, request, page) && !(conn->flags & GS_HTTP_CONN_MUST_LINGER),
        .is_quiet = page && page->is_quiet,
        .now_ns = now_ns,
    };
    struct gs_http_response_info info =
        !page ? gs_http_respond_with_status(&response, status)
        : status & GS_HTTP_AS_ERROR
            ? gs_http_respond_with_error_page(&response, page, status - GS_HTTP_AS_ERROR)
            : gs_http_respond_with_page(&response, page);
    record_response(&response, info);
    conn->requests +=
        !response.is_quiet || !conn->requests; /* the first tells that there was one */
    /* Another request may be in flight; and whatever the peer announced, it may send on while it
     * takes a long answer. */
    if (!response.keep_alive &&
        (request->keep_alive || conn->output->end - info.body >= LONG_BYTES))
        conn->flags |= GS_HTTP_CONN_MUST_LINGER;
    conn->state = response.keep_alive ? GS_HTTP_CONN_HEAD : GS_HTTP_CONN_CLOSING;
    return GS_HTTP_HANDLED;
}

/* With the variant of the page that the client accepts; without one, an error has its status
 * alone. Inlined, so that it needs no stack of its own. */
static inline __attribute__((always_inline)) enum gs_http_handled
respond(struct gs_http_conn *conn, const struct gs_http_request *request, struct gs_http_page *page,
        unsigned status, uint64_t now_ns)
{
    if (page && __builtin_expect(page->is_negotiated, 0)) {
        page = gs_http_choose(conn->service, request, page, now_ns);
        if (!page)
            status = status & GS_HTTP_AS_ERROR ? status & ~GS_HTTP_AS_ERROR : 406;
    }
    return respond_with(conn, request, page, status, now_ns);
}

/* Not inlined: the stack that the caller's function needs is not part of gs_http_handle's. */
static __attribute__((noinline)) void report_refusal(const struct gs_http_options *options,
                                                     unsigned status, enum gs_http_refusal reason,
                                                     struct gs_http_text text)
{
    if (options->refused && (status == 400 || status == 403 || status == 404))
        options->refused(status, reason, text.bytes, text.n, options->refused_data);
}

enum gs_http_handled gs_http_refuse(struct gs_http_conn *conn,
                                    const struct gs_http_request *request, unsigned status,
                                    uint64_t now_ns)
{
    uint8_t flags = conn->flags;
    select_site(conn->service, request, NULL);
    if (status == 505 && gs_http2_detect(conn, &request->line))
        return GS_HTTP_BLOCKED;
    conn->flags |= GS_HTTP_CONN_MUST_LINGER;
    enum gs_http_handled handled = respond(conn, request, NULL, status, now_ns);
    if (handled == GS_HTTP_BLOCKED)
        conn->flags = flags;
    else
        report_refusal(&conn->service->options, status, request->refusal, request->line);
    return handled;
}

/* ---- Requests with a body ---- */

/* Not inlined, for the same reason. */
static __attribute__((noinline)) enum gs_http_handled
start_body(struct gs_http_conn *conn, const struct gs_http_request *request, uint64_t now_ns)
{
    bool is_supported = is_redirected(conn) || request->method == GS_HTTP_GET ||
                        request->method == GS_HTTP_HEAD || request->method == GS_HTTP_OPTIONS;
    if (request->content_length > conn->service->options.max_body)
        return gs_http_refuse(conn, request, 413, now_ns);
    if (request->expects_continue && !is_supported)
        return gs_http_refuse(conn, request, request->method == GS_HTTP_KNOWN_METHOD ? 405 : 501,
                              now_ns);
    if (request->expects_continue) {
        if (!prepare_output(conn, true, now_ns))
            return GS_HTTP_BLOCKED;
        gs_http_respond_continue(conn->output);
    }
    struct gs_http_chunked *body = (struct gs_http_chunked *)conn->body;
    gs_http_chunked_init(body);
    body->left = request->chunked ? body->left : request->content_length;
    conn->flags = (uint8_t)((conn->flags & ~GS_HTTP_CONN_CHUNKED) |
                            (request->chunked ? GS_HTTP_CONN_CHUNKED : 0));
    conn->state = GS_HTTP_CONN_BODY;
    return GS_HTTP_WAITING;
}

/* ---- Requests for pages ---- */

/* The generator of the page with this path; NULL: it is a file. */
static const struct gs_http_generator *find_generator(const struct gs_http_options *options,
                                                      struct gs_http_text path)
{
    for (unsigned i = 0; i < options->generator_count; i++) {
        const struct gs_http_generator *generator = &options->generators[i];
        if (strlen(generator->path) == path.n && !memcmp(generator->path, path.bytes, path.n))
            return generator;
    }
    return NULL;
}

/* A path that no file is looked for at. Not inlined, like report_refusal. */
static __attribute__((noinline)) void
report_path(struct gs_http_service *service, const struct gs_http_request *request, unsigned status)
{
    (void)find_wanted_path(service, request); /* `wanted` may be for an error page */
    if (status == 404)
        report_refusal(&service->options, status, GS_HTTP_REFUSED_DOT_FILE, service->wanted.path);
    else if (status == 403)
        report_refusal(&service->options, status, GS_HTTP_REFUSED_PLAIN, service->wanted.path);
    else
        report_refusal(&service->options, status, GS_HTTP_REFUSED_PATH, request->line);
}

/* The format in which the client gets the listing of a directory, if it is one. Where people are
 * served, a client gets JSON if it accepts that and not HTML by name. */
static uint8_t listing_format(const struct gs_http_site *site,
                              const struct gs_http_request *request)
{
    struct gs_http_text fields = request->fields, value;
    bool has_json = false;
    while (site->listing == GS_HTTP_LISTING_HTML && gs_http_field_next(&fields, "accept", &value)) {
        if (memmem(value.bytes, value.n, "text/html", 9))
            return GS_HTTP_LISTING_HTML;
        has_json |= memmem(value.bytes, value.n, "application/json", 16) != NULL;
    }
    return has_json ? GS_HTTP_LISTING_JSON : site->listing;
}

/* Only the site's own format is cached. Not inlined, like report_refusal. */
static __attribute__((noinline)) bool is_other_listing(const struct gs_http_service *service,
                                                       const struct gs_http_request *request)
{
    return listing_format(service->site, request) != service->site->listing;
}

bool gs_http_start_load(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    const struct gs_http_wanted *wanted = &service->wanted;
    if (!load)
        return false;
    if (wanted->is_fresh)
        gs_http_load_check_only(load);
    else if (wanted->page)
        wanted->page->is_revalidating = true;
    load->started_ns = now_ns;
    load->wall_ns = now_ns + service->wall_offset_ns;
    conn->load = load;
    conn->state = GS_HTTP_CONN_LOAD;
    return true;
}

/* Not inlined, like report_refusal. */
static __attribute__((noinline)) struct gs_http_load *
new_load(const struct gs_http_service *service, const struct gs_http_request *request)
{
    const struct gs_http_wanted *wanted = &service->wanted;
    struct gs_http_load *load = gs_http_load_new(wanted->path, wanted->is_directory, service->site,
                                                 &service->options, wanted->page);
    if (load && wanted->is_directory && service->site->listing)
        load->listing = listing_format(service->site, request);
    return load;
}

/* As gs_http_find_page; a listing in another format than the client wants is not found. */
static bool find_shown(struct gs_http_service *service, const struct gs_http_request *request,
                       uint64_t now_ns)
{
    struct gs_http_wanted *wanted = &service->wanted;
    bool is_found = gs_http_find_page(service, now_ns);
    if (!wanted->page || !wanted->page->is_listing || !is_other_listing(service, request))
        return is_found;
    wanted->page = NULL;
    wanted->is_fresh = false;
    return false;
}

/* What is not in the cache is loaded, or redirected. GS_HTTP_HANDLED: `wanted` has the response.
 * Not inlined, like report_refusal. */
static __attribute__((noinline)) enum gs_http_handled
start_page(struct gs_http_conn *conn, const struct gs_http_request *request, uint64_t now_ns)
{
    const struct gs_http_site *site = conn->service->site;
    struct gs_http_wanted *wanted = &conn->service->wanted;
    enum gs_http_handled handled = GS_HTTP_BLOCKED;
    if (conn->output)
        return GS_HTTP_BLOCKED;
    if ((site->redirect_count || site->clean_urls) && !wanted->generator)
        handled = gs_http_substitute_path(conn, request, now_ns);
    if (handled != GS_HTTP_BLOCKED)
        return handled;
    struct gs_http_page *page = wanted->page;
    struct gs_http_load *load =
        wanted->generator ? gs_http_load_new_generated(wanted->path, site, wanted->generator)
                          : new_load(conn->service, request);
    if (gs_http_start_load(conn, load, now_ns))
        return GS_HTTP_WAITING;
    wanted->status = 503;
    if (!gs_http_is_usable_on_error(page, now_ns))
        wanted->page = NULL;
    return GS_HTTP_HANDLED;
}

/* The page that most requests are for: it is in the cache, and can be sent as it is. NULL: there is
 * none, or it takes a closer look. Not inlined, like report_refusal. */
static __attribute__((noinline)) struct gs_http_page *
find_ready(struct gs_http_service *service, const struct gs_http_request *request, uint64_t now_ns)
{
    struct gs_http_text path;
    bool is_directory;
    if (find_path(service, request->target.path, &is_directory, &path) ||
        (service->options.generator_count && find_generator(&service->options, path)))
        return NULL;
    struct gs_http_page *page = gs_http_cache_find(&service->cache, service->site, path);
    return page && !page->is_listing && gs_http_is_ready(service, page, now_ns) ? page : NULL;
}

/* Not inlined: the stack that it needs is not part of what other requests need. */
static __attribute__((noinline)) enum gs_http_handled
handle_other(struct gs_http_conn *conn, const struct gs_http_request *request,
             const struct gs_http_load *pass, uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    struct gs_http_wanted *wanted = &service->wanted;
    enum gs_http_handled handled = GS_HTTP_HANDLED;
    unsigned status = find_wanted_path(service, request);
    if (!status && service->site->guard_count)
        status = gs_http_guard_request(conn, request, pass, now_ns);
    if (status >= GS_HTTP_GUARD_WAITS)
        return status == GS_HTTP_GUARD_WAITS ? GS_HTTP_WAITING : GS_HTTP_BLOCKED;
    wanted->generator = status ? NULL : find_generator(&service->options, wanted->path);
    wanted->status = 200;
    if (status)
        handled = gs_http_substitute_error(conn, status, now_ns);
    else if (!find_shown(service, request, now_ns))
        handled = start_page(conn, request, now_ns);
    wanted->changed = NULL;
    if (handled == GS_HTTP_HANDLED)
        handled = respond(conn, request, wanted->page, wanted->status, now_ns);
    if (status && handled != GS_HTTP_BLOCKED)
        report_path(service, request, status);
    return handled;
}

/* ---- Loads ---- */

/* Of several loads of the same file, the page of the first is used. */
static void use_cached(struct gs_http_load *load, struct gs_http_page *cached)
{
    if (!load->page || !cached || (cached->fd < 0 && !cached->is_settled) ||
        !gs_http_page_is_same_file(&load->page->stat, &cached->stat))
        return;
    gs_http_page_unref(load->page);
    load->page = gs_http_page_ref(cached);
}

/* Store the result of a load in the cache, whose contents may have changed since the load started.
 */
static void update_cache(struct gs_http_cache *cache, struct gs_http_load *load)
{
    struct gs_http_page *cached = gs_http_cache_find(cache, load->site, load->path);
    use_cached(load, cached);
    if (load->page && load->page == cached)
        gs_http_cache_revalidate(cache, cached, load->started_ns);
    else if (load->page)
        gs_http_cache_insert(cache, load->page, load->started_ns);
    else if (cached)
        gs_http_cache_remove(cache, cached);
    if (load->page && load->knows_siblings)
        gs_http_set_siblings(cache, load->page, load->siblings);
}

static enum gs_http_handled respond_stale(struct gs_http_conn *conn,
                                          const struct gs_http_request *request,
                                          struct gs_http_page *page, uint64_t now_ns)
{
    struct gs_http_cache *cache = &conn->service->cache;
    if (gs_http_cache_find(cache, page->site, page->path) == page)
        gs_http_cache_use(cache, page, now_ns);
    return respond(conn, request, page, 200, now_ns);
}

/* Not inlined, like report_refusal. */
static __attribute__((noinline)) enum gs_http_handled
handle_loaded(struct gs_http_conn *conn, const struct gs_http_request *request,
              struct gs_http_load *load, uint64_t now_ns)
{
    struct gs_http_wanted *wanted = &conn->service->wanted;
    if (load->status == 503 && load->attempt != GS_HTTP_ATTEMPT_ERROR_PAGE &&
        gs_http_is_usable_on_error(load->cached, now_ns))
        return respond_stale(conn, request, load->cached, now_ns);
    bool is_preliminary = load->attempt == GS_HTTP_ATTEMPT_HTML && load->status != 200;
    bool is_other = load->page && load->page->is_listing && load->listing != load->site->listing;
    if (!load->generator && !load->is_fresh && !is_preliminary && !is_other)
        update_cache(&conn->service->cache, load);
    enum gs_http_handled handled = gs_http_substitute_load(conn, load, now_ns);
    bool is_refused = wanted->is_refused;
    if (handled == GS_HTTP_HANDLED)
        handled = respond(conn, request, wanted->page, wanted->status, now_ns);
    if (handled != GS_HTTP_BLOCKED && is_refused)
        report_refusal(&conn->service->options, load->status, load->refusal, load->path);
    if (conn->output)
        conn->output->started_ns = load->started_ns;
    return handled;
}

/* To what the client knows the server by; its port is replaced. */
static enum gs_http_handled redirect(struct gs_http_conn *conn,
                                     const struct gs_http_request *request, uint64_t now_ns)
{
    if (conn->output)
        return GS_HTTP_BLOCKED; /* the new location may be long */
    return respond(conn, request, NULL, gs_http_may_redirect(request) ? 308 : 400, now_ns);
}

/* Not inlined, like report_refusal. */
static __attribute__((noinline)) enum gs_http_handled
respond_with_error(struct gs_http_conn *conn, const struct gs_http_request *request,
                   unsigned status, uint64_t now_ns)
{
    const struct gs_http_wanted *wanted = &conn->service->wanted;
    enum gs_http_handled handled = gs_http_substitute_error(conn, status, now_ns);
    return handled == GS_HTTP_HANDLED ? respond(conn, request, wanted->page, wanted->status, now_ns)
                                      : handled;
}

enum gs_http_handled gs_http_handle(struct gs_http_conn *conn,
                                    const struct gs_http_request *request, bool body_done,
                                    struct gs_http_load *load, uint64_t now_ns)
{
    struct gs_http_page *page;
    select_site(conn->service, request, load);
    if (load && load->pass)
        return handle_other(conn, request, load, now_ns);
    if (load)
        return handle_loaded(conn, request, load, now_ns);
    if (!body_done && (request->chunked || request->content_length))
        return start_body(conn, request, now_ns);
    if (is_redirected(conn))
        return redirect(conn, request, now_ns);
    switch (request->method) {
    case GS_HTTP_GET:
    case GS_HTTP_HEAD:
        /* What is guarded is not sent just because it is there. */
        page = conn->service->site->guard_count ? NULL : find_ready(conn->service, request, now_ns);
        return page ? respond(conn, request, page, 200, now_ns)
                    : handle_other(conn, request, NULL, now_ns);
    case GS_HTTP_OPTIONS:
        return respond(conn, request, NULL, 200, now_ns);
    case GS_HTTP_KNOWN_METHOD:
        return respond_with_error(conn, request, 405, now_ns);
    default:
        return respond_with_error(conn, request, 501, now_ns);
    }
}
