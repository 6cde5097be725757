#include "http/conn.h"

#include "http/load.h"
#include "http/reply.h"

#include <errno.h>

static bool keeps_alive(const struct gs_http_conn *conn, const struct gs_http_request *request)
{
    uint64_t most = conn->service->options.requests_most;
    return request->keep_alive && !(conn->flags & GS_HTTP_CONN_DRAINING) &&
           (!most || conn->requests + 1 < most);
}

/* There is an output with room for an answer, small: one without ranges; or the connection is closed for want
 * of memory. */
static bool prepare_output(struct gs_http_conn *conn, bool small, uint64_t now_ns)
{
    if (conn->output)
        return gs_http_output_has_room(
            conn->output, small ? GS_HTTP_REPLY_SMALL_BYTES : GS_HTTP_REPLY_BYTES,
            small ? GS_HTTP_REPLY_SMALL_SEGMENTS : GS_HTTP_OUTPUT_SEGMENTS);
    conn->output = gs_http_service_new_output(conn->service);
    if (!conn->output) {
        conn->state = GS_HTTP_CONN_CLOSED;
        return false;
    }
    conn->output->began_ns = now_ns;
    return true;
}

static enum gs_http_answered reply(struct gs_http_conn *conn, const struct gs_http_request *request,
                                   struct gs_http_page *page, unsigned status, uint64_t now_ns)
{
    if (!prepare_output(conn, !page || !request->range.bytes, now_ns))
        return GS_HTTP_BLOCKED;
    struct gs_http_reply reply = {
        .service = conn->service,
        .output = conn->output,
        .request = request,
        .conn = conn,
        .keep_alive = keeps_alive(conn, request) && !(conn->flags & GS_HTTP_CONN_LINGERS),
        .now_ns = now_ns,
    };
    struct gs_http_replied replied =
        page ? gs_http_reply_page(&reply, page) : gs_http_reply_status(&reply, status);
    gs_http_reply_record(&reply, replied);
    conn->requests++;
    if (request->keep_alive && !reply.keep_alive)
        conn->flags |= GS_HTTP_CONN_LINGERS; /* another request may be on its way */
    conn->state = reply.keep_alive ? GS_HTTP_CONN_HEAD : GS_HTTP_CONN_CLOSING;
    return GS_HTTP_ANSWERED;
}

enum gs_http_answered gs_http_refuse(struct gs_http_conn *conn,
                                     const struct gs_http_request *request, unsigned status,
                                     uint64_t now_ns)
{
    uint8_t flags = conn->flags;
    conn->flags |= GS_HTTP_CONN_LINGERS;
    enum gs_http_answered answered = reply(conn, request, NULL, status, now_ns);
    if (answered == GS_HTTP_BLOCKED)
        conn->flags = flags;
    return answered;
}

static enum gs_http_answered start_body(struct gs_http_conn *conn,
                                        const struct gs_http_request *request, uint64_t now_ns)
{
    bool served = request->method == GS_HTTP_GET || request->method == GS_HTTP_HEAD ||
                  request->method == GS_HTTP_OPTIONS;
    if (request->content_length > conn->service->options.body_most)
        return gs_http_refuse(conn, request, 413, now_ns);
    if (request->expects_continue && !served)
        return gs_http_refuse(conn, request, request->method == GS_HTTP_KNOWN_METHOD ? 405 : 501,
                              now_ns);
    if (request->expects_continue) {
        if (!prepare_output(conn, true, now_ns))
            return GS_HTTP_BLOCKED;
        gs_http_reply_continue(conn->output);
    }
    struct gs_http_chunked *body = (struct gs_http_chunked *)conn->body;
    gs_http_chunked_init(body);
    body->left = request->chunked ? body->left : request->content_length;
    conn->flags = (uint8_t)((conn->flags & ~GS_HTTP_CONN_CHUNKED) |
                            (request->chunked ? GS_HTTP_CONN_CHUNKED : 0));
    conn->state = GS_HTTP_CONN_BODY;
    return GS_HTTP_WAITS;
}

/* The file's path below the root in the service's memory; a directory's ends with a slash. Returns
 * 0 or the status to refuse with. */
static unsigned find_path(struct gs_http_service *service, struct gs_http_text target,
                          bool *ret_directory, struct gs_http_text *ret_path)
{
    unsigned flags;
    ssize_t n = gs_http_path_normalise(target, service->path, service->path_size, &flags);
    if (n < 0)
        return n == -ENAMETOOLONG ? 414 : 400;
    if (flags & GS_HTTP_PATH_HIDDEN && !service->options.dotfiles)
        return 404;
    *ret_directory = flags & GS_HTTP_PATH_DIRECTORY;
    if (*ret_directory && n && (size_t)n < service->path_size)
        service->path[n++] = '/';
    *ret_path = (struct gs_http_text){service->path, (size_t)n};
    return 0;
}

/* For how long, since a load of it began, a page is served without asking whether its file has
 * changed. So a change is seen by requests that come as much later. */
#define FRESH_NS (GS_SECOND / 2)

/* And while somebody asks just that: so the first of many requests looks at the file, and not all that come until it has. */
#define ASKED_NS (GS_SECOND * 3 / 4)

/* For how long after that it is served all the same when the kernel lacks what a look at the file
 * needs: descriptors or memory. */
#define STALE_NS (60 * GS_SECOND)

/* What makes the page of this path; NULL: it is a file. */
static const struct gs_http_maker *find_maker(const struct gs_http_options *options,
                                              struct gs_http_text path)
{
    for (unsigned i = 0; i < options->maker_count; i++) {
        const struct gs_http_maker *maker = &options->makers[i];
        if (strlen(maker->path) == path.n && !memcmp(maker->path, path.bytes, path.n))
            return maker;
    }
    return NULL;
}

static bool is_fresh(const struct gs_http_page *page, uint64_t now_ns)
{
    uint64_t age_ns = now_ns - page->checked_ns;
    return age_ns < FRESH_NS || (page->is_being_checked && age_ns < ASKED_NS);
}

static bool is_at_hand(const struct gs_http_page *page, uint64_t now_ns)
{
    return page && now_ns - page->checked_ns < STALE_NS;
}

static enum gs_http_answered answer_file(struct gs_http_conn *conn,
                                         const struct gs_http_request *request, uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    struct gs_http_text path;
    bool directory;
    unsigned status = find_path(service, request->target.path, &directory, &path);
    if (status)
        return reply(conn, request, NULL, status, now_ns);
    const struct gs_http_maker *maker = find_maker(&service->options, path);
    struct gs_http_page *page = maker ? NULL : gs_http_pages_find(&service->pages, path);
    if (page && is_fresh(page, now_ns))
        return reply(conn, request, page, 200, now_ns);
    if (conn->output)
        return GS_HTTP_BLOCKED;
    conn->load = maker
                     ? gs_http_load_new_made(path, maker)
                     : gs_http_load_new(path, directory, service->root_fd, &service->options, page);
    if (!conn->load)
        return reply(conn, request, is_at_hand(page, now_ns) ? page : NULL, 503, now_ns);
    if (page)
        page->is_being_checked = true;
    conn->load->started_ns = now_ns;
    conn->state = GS_HTTP_CONN_LOAD;
    return GS_HTTP_WAITS;
}

/* What a load found belongs into the cache, in whatever state the cache is now. */
static void keep_page(struct gs_http_pages *pages, struct gs_http_load *load)
{
    struct gs_http_page *cached = gs_http_pages_find(pages, load->path);
    if (load->page && load->page == cached)
        gs_http_pages_confirm(pages, cached, load->started_ns);
    else if (load->page)
        gs_http_pages_insert(pages, load->page, load->started_ns);
    else if (cached)
        gs_http_pages_remove(pages, cached);
}

static enum gs_http_answered answer_loaded(struct gs_http_conn *conn,
                                           const struct gs_http_request *request,
                                           struct gs_http_load *load, uint64_t now_ns)
{
    if (load->status == 503 && is_at_hand(load->known, now_ns))
        return reply(conn, request, load->known, 200, now_ns);
    if (!load->maker)
        keep_page(&conn->service->pages, load);
    enum gs_http_answered answered = reply(conn, request, load->page, load->status, now_ns);
    if (conn->output)
        conn->output->began_ns = load->started_ns;
    return answered;
}

enum gs_http_answered gs_http_answer(struct gs_http_conn *conn,
                                     const struct gs_http_request *request, bool body_done,
                                     struct gs_http_load *load, uint64_t now_ns)
{
    if (load)
        return answer_loaded(conn, request, load, now_ns);
    if (!body_done && (request->chunked || request->content_length))
        return start_body(conn, request, now_ns);
    switch (request->method) {
    case GS_HTTP_GET:
    case GS_HTTP_HEAD:
        return answer_file(conn, request, now_ns);
    case GS_HTTP_OPTIONS:
        return reply(conn, request, NULL, 200, now_ns);
    case GS_HTTP_KNOWN_METHOD:
        return reply(conn, request, NULL, 405, now_ns);
    default:
        return reply(conn, request, NULL, 501, now_ns);
    }
}
