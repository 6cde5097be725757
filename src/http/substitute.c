/* What a site sends in place of what is missing, or refused. It is loaded as what a request asks
 * for is, after that load:
 *
 *    HTML ----> FILE
 *      |          | not found, or no index file
 *      |          |-----------------> FALLBACK
 *      |          |                    |
 *      `----------'--------------------'-----> ERROR_PAGE ----> the status alone, if it fails
 *
 * What is in the cache takes no load. */
#include "http/conn.h"
#include "http/load.h"
#include "http/redirect.h"
#include "http/service.h"

const char *gs_http_site_error_page(const struct gs_http_site *site, unsigned status)
{
    for (unsigned i = 0; i < site->error_page_count; i++)
        if (site->error_pages[i].status == status)
            return site->error_pages[i].path;
    return NULL;
}

/* No request has a path that begins with a dot and a slash: what the cache has by this name is not
 * what it has for a request that asks for the file. */
static struct gs_http_text name_of(struct gs_http_service *service, const char *file)
{
    char *name = service->page_name;
    size_t n = strlen(file);
    memcpy(name, "./", 2);
    memcpy(name + 2, file, n + 1);
    return (struct gs_http_text){name, n + 2};
}

static enum gs_http_handled find_page(struct gs_http_conn *conn, const char *file,
                                      enum gs_http_attempt attempt, uint64_t now_ns)
{
    struct gs_http_wanted *wanted = &conn->service->wanted;
    wanted->path = name_of(conn->service, file);
    wanted->is_directory = false;
    wanted->generator = NULL;
    if (gs_http_find_page(conn->service, now_ns))
        return GS_HTTP_HANDLED;
    if (conn->output)
        return GS_HTTP_BLOCKED;
    struct gs_http_load *load = gs_http_load_new(wanted->path, false, conn->service->site,
                                                 &conn->service->options, wanted->page);
    if (!gs_http_start_load(conn, load, now_ns)) {
        wanted->page = NULL;
        return GS_HTTP_HANDLED;
    }
    load->attempt = (uint8_t)attempt;
    return GS_HTTP_WAITING;
}

enum gs_http_handled gs_http_substitute_error(struct gs_http_conn *conn, unsigned status,
                                              uint64_t now_ns)
{
    struct gs_http_wanted *wanted = &conn->service->wanted;
    const char *file = gs_http_site_error_page(conn->service->site, status);
    wanted->page = NULL;
    wanted->status = (uint16_t)status;
    if (!file)
        return GS_HTTP_HANDLED;
    enum gs_http_handled handled = find_page(conn, file, GS_HTTP_ATTEMPT_ERROR_PAGE, now_ns);
    if (handled == GS_HTTP_WAITING)
        conn->load->failed_status = (uint16_t)status;
    else if (wanted->page)
        wanted->status |= GS_HTTP_AS_ERROR;
    return handled;
}

/* ---- Redirects and clean URLs ---- */

#define HTML ".html"
#define INDEX "index"

/* Remove .html from the end of the path, and then the name index. */
static bool remove_html(struct gs_http_text *path)
{
    size_t html = sizeof HTML - 1, index = sizeof INDEX - 1, n = path->n;
    if (n <= html || memcmp(path->bytes + n - html, HTML, html) != 0)
        return false;
    n -= html;
    bool is_index = n >= index && !memcmp(path->bytes + n - index, INDEX, index) &&
                    (n == index || path->bytes[n - index - 1] == '/');
    if (is_index)
        n -= n == index ? index : index + 1;
    if (!is_index && path->bytes[n - 1] == '/') /* the file's name is .html */
        return false;
    path->n = n;
    return true;
}

/* Returns false if the path is not redirected. */
static bool find_location(struct gs_http_service *service, const struct gs_http_request *request)
{
    struct gs_http_wanted *wanted = &service->wanted;
    const struct gs_http_redirect *redirect = gs_http_redirect_find(service->site, wanted->path);
    struct gs_http_text path = wanted->path, query = request->target.query;
    size_t n;
    if (redirect)
        n = gs_http_redirect_location(redirect, path, query, service->location);
    else if (service->site->clean_urls && remove_html(&path))
        n = gs_http_path_location(path, query, service->location);
    else
        return false;
    wanted->status = (uint16_t)(!n ? 414 : redirect ? redirect->status : 301);
    if (n)
        wanted->location = (struct gs_http_text){service->location, n};
    return true;
}

/* Load the file with .html behind its name. The page is that of the path without it. */
static bool start_html(struct gs_http_conn *conn, uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    struct gs_http_text path = service->wanted.path;
    if (service->path_size - path.n < sizeof HTML)
        return false;
    memcpy(service->path + path.n, HTML, sizeof HTML);
    struct gs_http_text file = {path.bytes, path.n + sizeof HTML - 1};
    struct gs_http_load *load =
        gs_http_load_new(file, false, service->site, &service->options, service->wanted.page);
    if (!gs_http_start_load(conn, load, now_ns))
        return false;
    load->path.n = path.n;
    load->attempt = GS_HTTP_ATTEMPT_HTML;
    return true;
}

/* Not inlined: the stack that it needs is not part of its caller's. */
__attribute__((noinline)) enum gs_http_handled
gs_http_substitute_path(struct gs_http_conn *conn, const struct gs_http_request *request,
                        uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    if (find_location(service, request))
        return GS_HTTP_HANDLED;
    bool may_be_html = service->site->clean_urls && !service->wanted.is_directory;
    return may_be_html && start_html(conn, now_ns) ? GS_HTTP_WAITING : GS_HTTP_BLOCKED;
}

/* There is no file with .html behind its name. */
static enum gs_http_handled start_file(struct gs_http_conn *conn, struct gs_http_text path,
                                       uint64_t now_ns)
{
    struct gs_http_service *service = conn->service;
    struct gs_http_wanted *wanted = &service->wanted;
    wanted->path = path;
    (void)gs_http_find_page(service, now_ns);
    struct gs_http_load *load =
        gs_http_load_new(path, false, service->site, &service->options, wanted->page);
    if (gs_http_start_load(conn, load, now_ns))
        return GS_HTTP_WAITING;
    wanted->page = NULL;
    wanted->status = 503;
    return GS_HTTP_HANDLED;
}

/* ---- Loads ---- */

static enum gs_http_handled substitute_missing(struct gs_http_conn *conn, const char *fallback,
                                               uint64_t now_ns)
{
    struct gs_http_wanted *wanted = &conn->service->wanted;
    enum gs_http_handled handled = find_page(conn, fallback, GS_HTTP_ATTEMPT_FALLBACK, now_ns);
    wanted->status = wanted->page ? 200 : 503;
    return handled;
}

static bool is_missing(const struct gs_http_load *load)
{
    return load->status == 404 ||
           (load->status == 403 && load->refusal == GS_HTTP_REFUSED_NO_INDEX);
}

/* Nothing that could be sent has this name: it may be a folder's. */
static bool is_absent(const struct gs_http_load *load)
{
    return load->status == 404 || load->status == 301 ||
           (load->status == 403 && load->refusal == GS_HTTP_REFUSED_KIND);
}

/* The time that a response takes counts from the request, and a page's age from the first load. */
static enum gs_http_handled follow(struct gs_http_conn *conn, const struct gs_http_load *load,
                                   enum gs_http_handled handled)
{
    if (handled != GS_HTTP_WAITING)
        return handled;
    conn->load->started_ns = load->started_ns;
    conn->load->wall_ns = load->wall_ns;
    return handled;
}

/* Not inlined: the stack that it needs is not part of its caller's. */
__attribute__((noinline)) enum gs_http_handled
gs_http_substitute_load(struct gs_http_conn *conn, const struct gs_http_load *load, uint64_t now_ns)
{
    struct gs_http_wanted *wanted = &conn->service->wanted;
    const char *fallback = load->generator ? NULL : load->site->fallback;
    wanted->page = load->page;
    wanted->status = (uint16_t)load->status;
    wanted->is_refused = load->status >= 400;
    if (load->attempt == GS_HTTP_ATTEMPT_ERROR_PAGE) {
        if (load->status == 503 && gs_http_is_usable_on_error(load->cached, now_ns))
            wanted->page = load->cached;
        wanted->status = (uint16_t)(load->failed_status | (wanted->page ? GS_HTTP_AS_ERROR : 0));
        return GS_HTTP_HANDLED;
    }
    if (load->attempt == GS_HTTP_ATTEMPT_HTML && is_absent(load)) {
        wanted->is_refused = false;
        return follow(conn, load, start_file(conn, load->path, now_ns));
    }
    if (load->status < 400)
        return GS_HTTP_HANDLED;
    if (load->attempt == GS_HTTP_ATTEMPT_FILE && fallback && is_missing(load)) {
        wanted->is_refused = false;
        return follow(conn, load, substitute_missing(conn, fallback, now_ns));
    }
    return follow(conn, load, gs_http_substitute_error(conn, load->status, now_ns));
}
