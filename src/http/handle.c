/* Handles a request: decides about the response, builds it, and records it in the counters and the
 * access log. */
#include "http/conn.h"

#include "http/http2.h"
#include "http/listing.h"
#include "http/load.h"
#include "http/response.h"
#include "http/rules.h"
#include "http/variant.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Counters and access log ---- */

static char *copy(char **at, struct gs_http_text text)
{
    if (!text.bytes)
        return NULL;
    char *start = *at;
    memcpy(start, text.bytes, text.n);
    start[text.n] = '\0';
    *at += text.n + 1;
    return start;
}

/* The memory of all lines of the field that names a client. */
static size_t forwarded_size(const struct gs_http_options *options, struct gs_http_text fields)
{
    struct gs_http_text value;
    size_t n = 0;
    while (options->forwarded && gs_http_field_next(&fields, options->forwarded, &value))
        n += value.n + 1;
    return n;
}

/* Lines of a list are one list (RFC 9110, 5.2). Returns NULL if there is none. */
static char *copy_forwarded(char *at, const struct gs_http_options *options,
                            struct gs_http_text fields)
{
    struct gs_http_text value;
    char *start = at;
    while (options->forwarded && gs_http_field_next(&fields, options->forwarded, &value)) {
        memcpy(at, value.bytes, value.n);
        at += value.n;
        *at++ = ',';
    }
    if (at == start)
        return NULL;
    at[-1] = '\0';
    return start;
}

static void count_response(struct gs_http_counts *counts, unsigned status)
{
    gs_http_count(&counts->requests, 1);
    if (status >= 300)
        gs_http_count(status < 400   ? &counts->redirections
                      : status < 500 ? &counts->client_errors
                                     : &counts->server_errors,
                      1);
}

/* Not inlined: the stack that it needs is not part of its caller's. */
static __attribute__((noinline)) void add_log_record(const struct gs_http_response *response,
                                                     struct gs_http_response_info info)
{
    struct gs_http_service *service = response->service;
    const struct gs_http_request *request = response->request;
    struct gs_http_output *output = response->output;
    size_t n = request->line.n + request->referer.n + request->user_agent.n + 3 +
               forwarded_size(&service->options, request->fields);
    struct gs_http_log_record *record = malloc(sizeof *record + n);
    if (!record) { /* the response is more important than its log entry */
        gs_http_lose_log_line(response->conn);
        return;
    }
    char *at = (char *)(record + 1);
    struct gs_http_log_entry *entry = &record->entry;
    memset(record, 0, sizeof *record); /* a literal would take stack */
    record->body = info.body;
    record->end = output->end;
    entry->request_line = copy(&at, request->line);
    entry->request_line_length = request->line.n;
    entry->referer = copy(&at, request->referer);
    entry->user_agent = copy(&at, request->user_agent);
    entry->forwarded = copy_forwarded(at, &service->options, request->fields);
    entry->status = info.status;
    entry->received = gs_http_service_wall_seconds(service, response->now_ns);
    *output->last_log_record = record;
    output->last_log_record = &record->next;
}

static void record_response(const struct gs_http_response *response,
                            struct gs_http_response_info info)
{
    count_response(response->service->counts, info.status);
    response->output->responses++;
    if (response->service->options.log)
        add_log_record(response, info);
}

__attribute__((noinline)) void gs_http_lose_log_line(const struct gs_http_conn *conn)
{
    const struct gs_http_options *options = &conn->service->options;
    options->log(conn, NULL, options->log_data);
}

void gs_http_flush_log(struct gs_http_conn *conn, bool all)
{
    struct gs_http_output *output = conn->output;
    const struct gs_http_options *options = &conn->service->options;
    while (output->log_records && (all || output->log_records->end <= output->position)) {
        struct gs_http_log_record *record = output->log_records;
        uint64_t sent = output->position < record->end ? output->position : record->end;
        record->entry.body_bytes = sent > record->body ? sent - record->body : 0;
        record->entry.started_ns = output->started_ns;
        options->log(conn, &record->entry, options->log_data);
        output->log_records = record->next;
        if (!output->log_records)
            output->last_log_record = &output->log_records;
        free(record);
    }
}

/* ---- Sites and paths ---- */

/* Not inlined, for the same reason. */
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
static unsigned find_path(struct gs_http_service *service, struct gs_http_text target)
{
    struct gs_http_wanted *wanted = &service->wanted;
    unsigned flags;
    ssize_t n = gs_http_path_normalise(target, service->path, service->path_size, &flags);
    wanted->path = (struct gs_http_text){"", 0};
    if (n < 0)
        return n == -ENAMETOOLONG ? 414 : 400;
    wanted->is_directory = flags & GS_HTTP_PATH_DIRECTORY;
    if (wanted->is_directory && n && (size_t)n < service->path_size)
        service->path[n++] = '/';
    wanted->path = (struct gs_http_text){service->path, (size_t)n};
    return flags & GS_HTTP_PATH_HIDDEN && !service->options.dotfiles ? 404 : 0;
}

/* For a response without a file; also for a request without a valid path. Not inlined: it is rare,
 * and needs stack. */
static __attribute__((noinline)) struct gs_http_text
find_fields(struct gs_http_service *service, const struct gs_http_request *request)
{
    (void)find_path(service, request->target.path);
    size_t n = gs_http_rules_fields(service->site, service->options.fields, service->wanted.path,
                                    false, service->site_fields);
    return (struct gs_http_text){service->site_fields, n};
}

/* Not inlined: the stack that it needs is not part of its caller's. */
static __attribute__((noinline)) struct gs_http_text
choose_fields(const struct gs_http_conn *conn, const struct gs_http_request *request,
              const struct gs_http_page *page)
{
    struct gs_http_service *service = conn->service;
    if (is_redirected(conn))
        return (struct gs_http_text){"", 0};
    if (page && !page->is_generated)
        return page->fields;
    return service->site->rule_count ? find_fields(service, request) : service->fields;
}

/* ---- Responses ---- */

static bool may_keep_alive(const struct gs_http_conn *conn, const struct gs_http_request *request)
{
    uint64_t max = conn->service->options.max_requests;
    return request->keep_alive && !(conn->flags & GS_HTTP_CONN_DRAINING) &&
           (!max || conn->requests + 1 < max);
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
    if (!prepare_output(conn, !page || !request->range.bytes, now_ns))
        return GS_HTTP_BLOCKED;
    struct gs_http_response response = {
        .service = conn->service,
        .output = conn->output,
        .request = request,
        .conn = conn,
        .fields = choose_fields(conn, request, page),
        .is_negotiated = page && page->is_negotiated,
        .keep_alive = may_keep_alive(conn, request) && !(conn->flags & GS_HTTP_CONN_MUST_LINGER),
        .now_ns = now_ns,
    };
    struct gs_http_response_info info =
        !page ? gs_http_respond_with_status(&response, status)
        : status & GS_HTTP_AS_ERROR
            ? gs_http_respond_with_error_page(&response, page, status - GS_HTTP_AS_ERROR)
            : gs_http_respond_with_page(&response, page);
    record_response(&response, info);
    conn->requests++;
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

/* A path that no file is looked for at. */
static void report_path(const struct gs_http_service *service,
                        const struct gs_http_request *request, unsigned status,
                        struct gs_http_text path)
{
    if (status == 404)
        report_refusal(&service->options, status, GS_HTTP_REFUSED_DOT_FILE, path);
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
    if (wanted->generator)
        return gs_http_load_new_generated(wanted->path, service->site, wanted->generator);
    struct gs_http_load *load = gs_http_load_new(wanted->path, wanted->is_directory, service->site,
                                                 &service->options, wanted->page);
    if (load && wanted->is_directory && service->site->listing)
        load->listing = listing_format(service->site, request);
    return load;
}

/* Not inlined: the stack that it needs is not part of what other requests need. */
static __attribute__((noinline)) enum gs_http_handled
handle_page(struct gs_http_conn *conn, const struct gs_http_request *request, uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    struct gs_http_wanted *wanted = &service->wanted;
    unsigned status = find_path(service, request->target.path);
    if (status) {
        struct gs_http_text path = wanted->path;
        enum gs_http_handled handled = gs_http_substitute_error(conn, status, now_ns);
        if (handled == GS_HTTP_HANDLED)
            handled = respond(conn, request, wanted->page, wanted->status, now_ns);
        if (handled != GS_HTTP_BLOCKED)
            report_path(service, request, status, path);
        return handled;
    }
    wanted->generator = find_generator(&service->options, wanted->path);
    bool is_found = gs_http_find_page(service, now_ns);
    if (wanted->page && wanted->page->is_listing && is_other_listing(service, request)) {
        wanted->page = NULL;
        wanted->is_fresh = is_found = false;
    }
    if (is_found)
        return respond(conn, request, wanted->page, 200, now_ns);
    if (conn->output)
        return GS_HTTP_BLOCKED;
    if ((service->site->redirect_count || service->site->clean_urls) && !wanted->generator) {
        enum gs_http_handled handled = gs_http_substitute_path(conn, request, now_ns);
        if (handled == GS_HTTP_HANDLED)
            handled = respond(conn, request, NULL, wanted->status, now_ns);
        wanted->location.bytes = NULL;
        if (handled != GS_HTTP_BLOCKED)
            return handled;
    }
    struct gs_http_page *page = wanted->page;
    if (gs_http_start_load(conn, new_load(service, request), now_ns))
        return GS_HTTP_WAITING;
    return respond(conn, request, gs_http_is_usable_on_error(page, now_ns) ? page : NULL, 503,
                   now_ns);
}

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
    select_site(conn->service, request, load);
    if (load)
        return handle_loaded(conn, request, load, now_ns);
    if (!body_done && (request->chunked || request->content_length))
        return start_body(conn, request, now_ns);
    if (is_redirected(conn))
        return redirect(conn, request, now_ns);
    switch (request->method) {
    case GS_HTTP_GET:
    case GS_HTTP_HEAD:
        return handle_page(conn, request, now_ns);
    case GS_HTTP_OPTIONS:
        return respond(conn, request, NULL, 200, now_ns);
    case GS_HTTP_KNOWN_METHOD:
        return respond_with_error(conn, request, 405, now_ns);
    default:
        return respond_with_error(conn, request, 501, now_ns);
    }
}
