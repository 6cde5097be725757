#include "http/load.h"

#include "http/below.h"
#include "http/listing_page.h"
#include "http/media_type.h"
#include "http/rules.h"
#include "http/sibling.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdlib.h>

#define ATTEMPTS_MAX 4 /* for a file that changes while it is read */
#define PARENTS_MAX 16 /* names of a path that may be missing below an absolute link */

static unsigned status_of_error(int64_t err)
{
    switch (-err) {
    case EBADF: /* there is no root */
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ENXIO:
        return 404;
    case EACCES:
    case EPERM:
    case ELOOP:
    case EXDEV:
        return 403;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case EINTR:
        return 503;
    default:
        return 500;
    }
}

static enum gs_http_refusal refusal_of_error(int64_t err)
{
    switch (-err) {
    case EACCES:
    case EPERM:
        return GS_HTTP_REFUSED_PERMISSION;
    case ELOOP:
        return GS_HTTP_REFUSED_LINK_LOOP;
    case EXDEV:
        return GS_HTTP_REFUSED_LINK;
    case ENXIO: /* a Unix socket */
        return GS_HTTP_REFUSED_KIND;
    default:
        return GS_HTTP_REFUSED_NOT_FOUND;
    }
}

/* ---- The end of a file ---- */

static void finish(struct gs_http_load *load, unsigned status)
{
    if (status != 200 && load->page) {
        gs_http_page_unref(load->page);
        load->page = NULL;
    }
    if (!load->coding)
        load->status = status;
    else if (status == 503)
        load->lacks_siblings = true;
    if (load->fd >= 0)
        load->step = GS_HTTP_LOAD_CLOSE;
    else
        gs_http_load_complete(load);
}

static void finish_with(struct gs_http_load *load, enum gs_http_refusal refusal, unsigned status)
{
    if (!load->coding)
        load->refusal = refusal;
    finish(load, status);
}

static void fail(struct gs_http_load *load, int64_t err)
{
    finish_with(load, refusal_of_error(err), status_of_error(err));
}

static void refuse(struct gs_http_load *load, enum gs_http_refusal refusal)
{
    finish_with(load, refusal, 403);
}

void gs_http_load_refuse(struct gs_http_load *load)
{
    finish(load, 503);
}

/* Returns whether to open the file again: the kernel could not check the path because of a
 * concurrent rename, or a signal interrupted the call. */
static bool should_retry_open(struct gs_http_load *load, int64_t result)
{
    return (result == -EAGAIN || result == -EINTR) && ++load->attempts < ATTEMPTS_MAX;
}

/* ---- Absolute symbolic links ----
 * RESOLVE_BENEATH refuses them all. So the path is looked up without it, and the kernel is asked
 * where the file is; if that is below the root, it is opened by that path, with RESOLVE_BENEATH.
 * Whatever changes meanwhile, only that call decides what is served. */

/* Returns whether the path is to be resolved, or the load has failed. */
static bool start_resolving(struct gs_http_load *load)
{
    if (load->follow_symlinks || load->target)
        return false;
    load->target = strdup(load->file);
    if (!load->target) {
        finish(load, 503);
        return true;
    }
    load->parents = 0;
    load->resumed_step = load->step;
    load->step = GS_HTTP_LOAD_RESOLVE;
    return true;
}

/* Cut the last name from the path to resolve. Returns false if there is none, or were too many. */
static bool cut_last_name(struct gs_http_load *load)
{
    if (!load->target[0] || load->parents++ >= PARENTS_MAX)
        return false;
    char *slash = strrchr(load->target, '/');
    *(slash ? slash : load->target) = '\0';
    return true;
}

/* If a name is missing, its directory tells whether clients may know that: it may be outside. */
static void on_resolve(struct gs_http_load *load, int64_t result)
{
    if (should_retry_open(load, result))
        return;
    bool is_missing = result == -ENOENT || result == -ENOTDIR || result == -ENAMETOOLONG;
    if (is_missing && cut_last_name(load))
        return;
    if (result < 0) {
        fail(load, is_missing ? -EXDEV : result);
        return;
    }
    size_t n = strlen(load->target);
    const char *rest = load->file + n + (n && load->file[n] == '/');
    char *path;
    int err = gs_http_path_below(load->root_fd, (int)result, rest, &path);
    gs_sys_close((int)result);
    if (err) {
        fail(load, err);
        return;
    }
    free(load->target);
    load->target = path;
    load->step = load->resumed_step;
}

static void on_open(struct gs_http_load *load, int64_t result)
{
    if (should_retry_open(load, result) || (result == -EXDEV && start_resolving(load)))
        return;
    if (result >= 0) {
        load->fd = (int)result;
        load->step = GS_HTTP_LOAD_STAT;
    } else if (load->is_directory && !load->has_siblings &&
               (result == -ENOENT || result == -ENOTDIR)) {
        gs_http_load_open_directory(load);
    } else {
        fail(load, result);
    }
}

/* Without an index file the directory is listed, or refused, if it exists. */
static void on_open_directory(struct gs_http_load *load, int64_t result)
{
    if (should_retry_open(load, result) || (result == -EXDEV && start_resolving(load)))
        return;
    if (result < 0) {
        fail(load, result);
        return;
    }
    load->fd = (int)result;
    if (load->listing)
        load->step = GS_HTTP_LOAD_LIST;
    else
        refuse(load, GS_HTTP_REFUSED_NO_INDEX);
}

/* The result is the load's, so that it need not be on the stack of a thread that waits for it. */
static void list(void *data)
{
    struct gs_http_load *load = data;
    char *fields = malloc(GS_HTTP_FIELDS_MAX + 1);
    load->work_err = fields ? 0 : -ENOMEM;
    if (!fields)
        return;
    fields[gs_http_rules_fields(load->site, load->fields, load->path, true, fields)] = '\0';
    const struct gs_http_listing_request request = {
        .source = {.root_fd = load->root_fd,
                   .fd = load->fd,
                   .path = load->file,
                   .dotfiles = load->dotfiles,
                   .follow_symlinks = load->follow_symlinks},
        .format = load->listing,
        .is_negotiated = load->site->listing == GS_HTTP_LISTING_HTML,
        .fields = fields,
        .wall_ns = load->wall_ns};
    load->work_err = gs_http_listing_page_new(&request, &load->page);
    free(fields);
}

static void authenticate(void *data)
{
    struct gs_http_load *load = data;
    load->work_err =
        gs_http_users_check(load->pass->users, &load->pass->credentials, load->started_ns);
}

static void on_authenticate(struct gs_http_load *load, int64_t result)
{
    int64_t err = result ? result : load->work_err;
    finish(load, !err ? 200 : err == -EACCES ? 401 : 503);
}

static void on_list(struct gs_http_load *load, int64_t result)
{
    int64_t err = result ? result : load->work_err;
    if (!err) {
        load->page->site = load->site;
        finish(load, 200);
    } else if (err == -E2BIG) {
        refuse(load, GS_HTTP_REFUSED_LIST_SIZE);
    } else {
        fail(load, err);
    }
}

/* The codings that the compressor has for the file. */
static uint8_t find_compressible(const struct gs_http_load *load)
{
    bool is_compressible = load->compressor_codings && !load->coding &&
                           load->stat.st_size >= GS_HTTP_COMPRESSED_MIN &&
                           load->stat.st_size <= GS_HTTP_COMPRESSED_MAX &&
                           gs_http_media_type_is_compressible(gs_http_load_media_type(load));
    return is_compressible ? load->compressor_codings : 0;
}

/* With the fields that the rules of its site give it. */
static struct gs_http_page *new_page(const struct gs_http_load *load, unsigned flags)
{
    struct gs_http_text file = {load->file, load->file_n};
    if (!gs_http_site_has_fields(load->site))
        return gs_http_page_new(file, &load->stat, load->fields, flags);
    char *fields = malloc(GS_HTTP_FIELDS_MAX + 1);
    if (!fields)
        return NULL;
    size_t skipped = load->attempt >= GS_HTTP_ATTEMPT_FALLBACK ? 2 : 0; /* "./" */
    struct gs_http_text path = {file.bytes + skipped, file.n - skipped};
    fields[gs_http_rules_fields(load->site, load->fields, path, true, fields)] = '\0';
    struct gs_http_page *page = gs_http_page_new(file, &load->stat, fields, flags);
    free(fields);
    return page;
}

static void create_page(struct gs_http_load *load)
{
    bool is_small =
        (uint64_t)load->stat.st_size <= load->max_cached_file && load->attempts < ATTEMPTS_MAX;
    uint8_t compressible = find_compressible(load);
    unsigned flags = (is_small ? GS_HTTP_PAGE_IN_MEMORY : 0) |
                     (load->portable_etags ? GS_HTTP_PAGE_PORTABLE_ETAG : 0) |
                     (load->has_siblings || compressible ? GS_HTTP_PAGE_NEGOTIATED : 0);
    load->page = new_page(load, flags | GS_HTTP_PAGE_IN(load->coding));
    if (!load->page) {
        finish(load, 503);
        return;
    }
    load->page->path.n = load->path.n;
    load->page->site = load->site;
    load->page->compressible = load->page->pending = compressible;
    load->page->is_sibling = load->coding;
    uint64_t unchanged_ns = gs_http_page_unchanged_ns(&load->stat, load->wall_ns);
    load->page->is_settled = unchanged_ns > GS_HTTP_SETTLED_NS;
    load->page->fresh_ns =
        is_small && unchanged_ns < GS_HTTP_FRESH_NS ? unchanged_ns : GS_HTTP_FRESH_NS;
    load->read = 0;
    if (!is_small) {
        gs_http_page_set_fd(load->page, load->fd);
        load->fd = -1;
    }
    if (is_small && load->stat.st_size)
        load->step = GS_HTTP_LOAD_READ;
    else
        finish(load, 200);
}

/* Returns whether the cached page is what the file contains. */
static bool is_cached(const struct gs_http_load *load)
{
    const struct gs_http_page *cached = gs_http_load_cached(load);
    return cached && (cached->fd >= 0 || cached->is_settled) &&
           gs_http_page_is_same_file(&cached->stat, &load->stat);
}

static void use_cached(struct gs_http_load *load)
{
    load->page = gs_http_page_ref(gs_http_load_cached(load));
    finish(load, 200);
}

/* The file may have changed under its descriptor: then the page is nobody's answer any more. */
static void on_check(struct gs_http_load *load, int64_t result)
{
    const struct gs_http_page *cached = gs_http_load_cached(load);
    bool is_unchanged = !result && gs_http_page_is_same_file(&cached->stat, &load->stat);
    if (is_unchanged && load->is_fresh) {
        load->coding++;
        if (gs_http_load_find_open(load))
            return;
        load->has_siblings = false;
        use_cached(load);
        return;
    }
    bool is_sibling = load->coding;
    load->coding = GS_HTTP_IN_IDENTITY;
    load->is_fresh = false;
    load->step = GS_HTTP_LOAD_OPEN;
    if (is_unchanged || is_sibling)
        return;
    gs_http_page_unref(load->cached);
    load->cached = NULL;
}

static void on_stat(struct gs_http_load *load, int64_t result)
{
    mode_t mode = load->stat.st_mode;
    if (result < 0) {
        fail(load, result);
    } else if (S_ISDIR(mode) && !load->is_directory) {
        finish(load, 301);
    } else if (!S_ISREG(mode)) {
        refuse(load, GS_HTTP_REFUSED_KIND);
    } else if (gs_http_load_is_outdated(load)) {
        finish(load, 404);
    } else if (is_cached(load)) {
        use_cached(load);
    } else {
        create_page(load);
    }
}

static void on_read(struct gs_http_load *load, int64_t result)
{
    load->read += result > 0 ? (size_t)result : 0;
    if (!result || load->read == (size_t)load->stat.st_size)
        load->step = GS_HTTP_LOAD_VERIFY;
    else if (result < 0 && result != -EINTR)
        fail(load, result);
}

/* A file that has changed since it was opened, or is shorter than its size, is read again; after
 * some attempts it is sent from its descriptor. */
static void on_verify(struct gs_http_load *load, int64_t result)
{
    struct gs_http_page *page = load->page;
    bool is_complete = load->read == (size_t)page->stat.st_size;
    if (result < 0) {
        fail(load, result);
    } else if (is_complete && gs_http_page_is_same_file(&page->stat, &load->stat)) {
        finish(load, 200);
    } else {
        gs_http_page_unref(page);
        load->attempts++;
        create_page(load);
    }
}

static void on_generate(struct gs_http_load *load, int64_t result)
{
    if (result >= 0)
        load->page->stat.st_size = (off_t)result;
    finish(load, result >= 0 ? 200 : result == -EAGAIN || result == -ENOMEM ? 503 : 500);
}

static struct gs_http_file_op open_of(const struct gs_http_load *load)
{
    bool is_directory = load->step == GS_HTTP_LOAD_OPEN_DIRECTORY;
    return (struct gs_http_file_op){
        .kind = GS_HTTP_FILE_OPEN,
        .fd = load->root_fd,
        .path = load->target    ? load->target
                : load->file[0] ? load->file
                                : ".",
        .flags = (uint64_t)(O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) |
                 (is_directory ? O_DIRECTORY : 0),
        .resolve = RESOLVE_NO_MAGICLINKS | (load->follow_symlinks ? 0 : RESOLVE_BENEATH)};
}

bool gs_http_load_next(struct gs_http_load *load, struct gs_http_file_op *ret_op)
{
    struct gs_http_file_op op = {.fd = load->fd};
    switch ((enum gs_http_load_step)load->step) {
    case GS_HTTP_LOAD_OPEN:
    case GS_HTTP_LOAD_OPEN_DIRECTORY:
        op = open_of(load);
        break;
    case GS_HTTP_LOAD_RESOLVE:
        op.kind = GS_HTTP_FILE_OPEN;
        op.fd = load->root_fd;
        op.path = load->target[0] ? load->target : ".";
        op.flags = O_PATH | O_CLOEXEC;
        op.resolve = RESOLVE_NO_MAGICLINKS;
        break;
    case GS_HTTP_LOAD_CHECK:
    case GS_HTTP_LOAD_STAT:
    case GS_HTTP_LOAD_VERIFY:
        op.fd = load->step == GS_HTTP_LOAD_CHECK ? gs_http_load_cached(load)->fd : load->fd;
        op.kind = GS_HTTP_FILE_STAT;
        op.stat = &load->stat;
        break;
    case GS_HTTP_LOAD_READ:
        op.kind = GS_HTTP_FILE_READ;
        op.bytes = load->page->body + load->read;
        op.n = (size_t)load->stat.st_size - load->read;
        op.offset = load->read;
        break;
    case GS_HTTP_LOAD_CLOSE:
        op.kind = GS_HTTP_FILE_CLOSE;
        break;
    case GS_HTTP_LOAD_GENERATE:
        op.kind = GS_HTTP_FILE_GENERATE;
        op.generator = load->generator;
        op.bytes = load->page->body;
        op.n = load->generator->max_size;
        break;
    case GS_HTTP_LOAD_LIST:
    case GS_HTTP_LOAD_AUTHENTICATE:
        op.kind = GS_HTTP_FILE_WORK;
        op.work = load->step == GS_HTTP_LOAD_LIST ? list : authenticate;
        op.data = load;
        break;
    case GS_HTTP_LOAD_COMPLETE:
        return false;
    }
    *ret_op = op;
    return true;
}

void gs_http_load_set_result(struct gs_http_load *load, int64_t result)
{
    switch ((enum gs_http_load_step)load->step) {
    case GS_HTTP_LOAD_OPEN:
        on_open(load, result);
        break;
    case GS_HTTP_LOAD_OPEN_DIRECTORY:
        on_open_directory(load, result);
        break;
    case GS_HTTP_LOAD_RESOLVE:
        on_resolve(load, result);
        break;
    case GS_HTTP_LOAD_CHECK:
        on_check(load, result);
        break;
    case GS_HTTP_LOAD_STAT:
        on_stat(load, result);
        break;
    case GS_HTTP_LOAD_READ:
        on_read(load, result);
        break;
    case GS_HTTP_LOAD_VERIFY:
        on_verify(load, result);
        break;
    case GS_HTTP_LOAD_CLOSE:
        load->fd = -1;
        gs_http_load_complete(load);
        break;
    case GS_HTTP_LOAD_GENERATE:
        on_generate(load, result);
        break;
    case GS_HTTP_LOAD_LIST:
        on_list(load, result);
        break;
    case GS_HTTP_LOAD_AUTHENTICATE:
        on_authenticate(load, result);
        break;
    case GS_HTTP_LOAD_COMPLETE:
        break;
    }
}

static int64_t run_op(const struct gs_http_file_op *op)
{
    switch (op->kind) {
    case GS_HTTP_FILE_OPEN: {
        struct open_how how = {.flags = op->flags, .resolve = op->resolve};
        return gs_sys_openat2(op->fd, op->path, &how);
    }
    case GS_HTTP_FILE_STAT:
        return gs_sys_fstat(op->fd, op->stat);
    case GS_HTTP_FILE_READ:
        return gs_sys_pread(op->fd, op->bytes, op->n, (off_t)op->offset);
    case GS_HTTP_FILE_CLOSE:
        return gs_sys_close(op->fd);
    case GS_HTTP_FILE_GENERATE:
        return op->generator->generate(op->bytes, op->n, op->generator->data);
    case GS_HTTP_FILE_WORK:
        op->work(op->data);
        return 0;
    }
    return -EINVAL;
}

void gs_http_load_run(struct gs_http_load *load)
{
    struct gs_http_file_op op;
    while (gs_http_load_next(load, &op))
        gs_http_load_set_result(load, run_op(&op));
}
