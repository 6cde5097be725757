#include "http/load.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>

#define INDEX_FILE "index.html"
#define TRIES_MOST 4 /* of a file that changes while it is read */

struct gs_http_load *gs_http_load_new(struct gs_http_text path, bool directory, int root_fd,
                                      const struct gs_http_options *options,
                                      struct gs_http_page *known)
{
    struct gs_http_load *load = malloc(sizeof *load + path.n + sizeof INDEX_FILE);
    if (!load)
        return NULL;
    memcpy(load->file, path.bytes, path.n);
    memcpy(load->file + path.n, directory ? INDEX_FILE : "", directory ? sizeof INDEX_FILE : 1);
    *load = (struct gs_http_load){
        .directory = directory,
        .any_symlink = options->follow_symlinks,
        .root_fd = root_fd,
        .fd = -1,
        .cached_file_most = options->cached_file_most,
        .known = known ? gs_http_page_ref(known) : NULL,
        .path = {load->file, path.n},
    };
    return load;
}

struct gs_http_load *gs_http_load_new_made(struct gs_http_text path,
                                           const struct gs_http_maker *maker)
{
    static const struct gs_http_options none;
    struct gs_http_load *load = gs_http_load_new(path, false, -1, &none, NULL);
    if (!load)
        return NULL;
    load->stat.st_size = (off_t)maker->size_most;
    load->page = gs_http_page_new(path, &load->stat, true);
    if (!load->page) {
        gs_http_load_free(load);
        return NULL;
    }
    load->page->is_made = true;
    load->page->media_type = (struct gs_http_text){maker->media_type, strlen(maker->media_type)};
    load->maker = maker;
    load->step = GS_HTTP_LOAD_MAKE;
    return load;
}

const struct gs_http_maker *gs_http_load_maker(const struct gs_http_load *load)
{
    return load->maker;
}

void gs_http_load_free(struct gs_http_load *load)
{
    if (!load)
        return;
    gs_http_page_unref(load->known);
    gs_http_page_unref(load->page);
    free(load);
}

static unsigned status_of(int64_t err)
{
    switch (-err) {
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

static void finish(struct gs_http_load *load, unsigned status)
{
    if (status != 200 && load->page) {
        gs_http_page_unref(load->page);
        load->page = NULL;
    }
    load->status = status;
    load->step = load->fd >= 0 ? GS_HTTP_LOAD_CLOSE : GS_HTTP_LOAD_COMPLETE;
}

void gs_http_load_refuse(struct gs_http_load *load)
{
    finish(load, 503);
}

/* Whether to open it once more: a rename under way kept the kernel from judging the path, or a
 * signal came. */
static bool opens_again(struct gs_http_load *load, int64_t result)
{
    return (result == -EAGAIN || result == -EINTR) && ++load->tries < TRIES_MOST;
}

static void opened(struct gs_http_load *load, int64_t result)
{
    if (opens_again(load, result))
        return;
    if (result >= 0) {
        load->fd = (int)result;
        load->step = GS_HTTP_LOAD_STAT;
    } else if (load->directory && (result == -ENOENT || result == -ENOTDIR)) {
        load->file[load->path.n] = '\0';
        load->step = GS_HTTP_LOAD_OPEN_DIRECTORY;
    } else {
        finish(load, status_of(result));
    }
}

/* There is no index file: the directory itself is there, but is not listed. */
static void opened_directory(struct gs_http_load *load, int64_t result)
{
    if (opens_again(load, result))
        return;
    if (result >= 0)
        load->fd = (int)result;
    finish(load, result >= 0 ? 403 : status_of(result));
}

static void start_page(struct gs_http_load *load)
{
    bool small = (uint64_t)load->stat.st_size <= load->cached_file_most && load->tries < TRIES_MOST;
    struct gs_http_text file = {load->file, strlen(load->file)};
    load->page = gs_http_page_new(file, &load->stat, small);
    if (!load->page) {
        finish(load, 503);
        return;
    }
    load->page->path.n = load->path.n;
    load->status = 200;
    load->read = 0;
    if (!small) {
        load->page->fd = load->fd;
        load->fd = -1;
    }
    if (small && load->stat.st_size)
        load->step = GS_HTTP_LOAD_READ;
    else
        finish(load, 200);
}

static void stated(struct gs_http_load *load, int64_t result)
{
    mode_t mode = load->stat.st_mode;
    if (result < 0) {
        finish(load, status_of(result));
    } else if (S_ISDIR(mode) && !load->directory) {
        finish(load, 301);
    } else if (!S_ISREG(mode)) {
        finish(load, 403);
    } else if (load->known && gs_http_page_same_file(&load->known->stat, &load->stat)) {
        load->page = gs_http_page_ref(load->known);
        finish(load, 200);
    } else {
        start_page(load);
    }
}

/* A file that turns out shorter has changed: its new state is loaded, and after some tries served
 * from its descriptor. */
static void has_read(struct gs_http_load *load, int64_t result)
{
    if (result > 0) {
        load->read += (size_t)result;
        if (load->read == (size_t)load->stat.st_size)
            finish(load, 200);
    } else if (result == 0) {
        gs_http_page_unref(load->page);
        load->page = NULL;
        load->tries++;
        load->step = GS_HTTP_LOAD_STAT;
    } else if (result != -EINTR) {
        finish(load, status_of(result));
    }
}

static void made(struct gs_http_load *load, int64_t result)
{
    if (result >= 0)
        load->page->stat.st_size = (off_t)result;
    finish(load, result >= 0 ? 200 : result == -EAGAIN || result == -ENOMEM ? 503 : 500);
}

bool gs_http_load_next(struct gs_http_load *load, struct gs_http_file_op *ret_op)
{
    struct gs_http_file_op op = {.fd = load->fd};
    switch ((enum gs_http_load_step)load->step) {
    case GS_HTTP_LOAD_OPEN:
    case GS_HTTP_LOAD_OPEN_DIRECTORY:
        op.kind = GS_HTTP_FILE_OPEN;
        op.fd = load->root_fd;
        op.path = load->file[0] ? load->file : ".";
        op.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
        if (load->step == GS_HTTP_LOAD_OPEN_DIRECTORY)
            op.flags |= O_DIRECTORY;
        op.resolve = RESOLVE_NO_MAGICLINKS | (load->any_symlink ? 0 : RESOLVE_BENEATH);
        break;
    case GS_HTTP_LOAD_STAT:
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
    case GS_HTTP_LOAD_MAKE:
        op.kind = GS_HTTP_FILE_MAKE;
        op.maker = load->maker;
        op.bytes = load->page->body;
        op.n = load->maker->size_most;
        break;
    case GS_HTTP_LOAD_COMPLETE:
        return false;
    }
    *ret_op = op;
    return true;
}

void gs_http_load_result(struct gs_http_load *load, int64_t result)
{
    switch ((enum gs_http_load_step)load->step) {
    case GS_HTTP_LOAD_OPEN:
        opened(load, result);
        break;
    case GS_HTTP_LOAD_OPEN_DIRECTORY:
        opened_directory(load, result);
        break;
    case GS_HTTP_LOAD_STAT:
        stated(load, result);
        break;
    case GS_HTTP_LOAD_READ:
        has_read(load, result);
        break;
    case GS_HTTP_LOAD_CLOSE:
        load->fd = -1;
        load->step = GS_HTTP_LOAD_COMPLETE;
        break;
    case GS_HTTP_LOAD_MAKE:
        made(load, result);
        break;
    case GS_HTTP_LOAD_COMPLETE:
        break;
    }
}
