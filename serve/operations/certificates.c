#include "serve/operations/certificates.h"

#include "http2/http2.h"
#include "serve/log/error_log.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <stdlib.h>
#include <string.h>

/* A certificate that expires sooner is reported when it is loaded. */
#define EXPIRES_SOON_DAYS 14
#define DAY_S INT64_C(86400)

/* ---- The files ---- */

static const char *key_of(const struct gs_tls_certificate *item)
{
    return item->key ? item->key : item->chain;
}

/* What can't be found is all zero; so is no file. */
static void look_at(const char *file, struct stat *ret_stat)
{
    if (!file || stat(file, ret_stat))
        *ret_stat = (struct stat){0};
}

static void look_at_all(const struct serve_certificates *certificates,
                        struct serve_certificate_files *ret_files)
{
    for (unsigned i = 0; i < certificates->count; i++) {
        look_at(certificates->items[i].chain, &ret_files[i].chain);
        look_at(key_of(&certificates->items[i]), &ret_files[i].key);
        if (certificates->ocsp_files)
            look_at(certificates->ocsp_files[i], &ret_files[i].ocsp);
    }
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           !memcmp(&a->st_mtim, &b->st_mtim, sizeof a->st_mtim) &&
           !memcmp(&a->st_ctim, &b->st_ctim, sizeof a->st_ctim);
}

static bool are_same(const struct serve_certificates *certificates,
                     const struct serve_certificate_files *a,
                     const struct serve_certificate_files *b)
{
    for (unsigned i = 0; i < certificates->count; i++)
        if (!is_same(&a[i].chain, &b[i].chain) || !is_same(&a[i].key, &b[i].key) ||
            !is_same(&a[i].ocsp, &b[i].ocsp))
            return false;
    return true;
}

static void warn_of_open_keys(const struct serve_certificates *certificates)
{
    for (unsigned i = 0; i < certificates->count; i++)
        if (certificates->loaded[i].key.st_mode & S_IROTH)
            serve_warn("every user can read the key %s: chmod o-r",
                       key_of(&certificates->items[i]));
}

/* ---- Loading ---- */

static void note_expiry(struct serve_certificates *certificates, int64_t expiry)
{
    int64_t now = (int64_t)(gs_clock_wall() / GS_SECOND);
    atomic_store(&certificates->counts->expiry, expiry);
    if (expiry <= now)
        serve_warn("a certificate has expired");
    else if (expiry - now < EXPIRES_SOON_DAYS * DAY_S)
        serve_warn("a certificate expires in %lld days", (long long)((expiry - now) / DAY_S));
}

/* A response that has expired is not stapled; that is said once. */
static void warn_of_old_responses(struct serve_certificates *certificates)
{
    if (certificates->ocsp_expiry > (int64_t)(gs_clock_wall() / GS_SECOND))
        return;
    certificates->ocsp_expiry = INT64_MAX;
    serve_warn("a response of OCSP has expired, and is not stapled");
}

static int try_to_load(const struct gs_tls_certificate *item, char *ret_text)
{
    const struct gs_tls_options options = {.certificates = item, .certificate_count = 1};
    struct gs_tls_context *context = NULL;
    int err = gs_tls_context_new(&options, &context, ret_text);
    gs_tls_context_release(context);
    return err;
}

/* Leave out each response without which its certificate can be used. */
static void leave_out_responses(struct serve_certificates *certificates, bool is_silent)
{
    char text[GS_TLS_TEXT];
    for (unsigned i = 0; i < certificates->count; i++) {
        struct gs_tls_certificate *item = &certificates->items[i];
        const struct gs_tls_certificate alone = {
            .chain = item->chain, .key = item->key, .passphrase_file = item->passphrase_file};
        if (!item->ocsp_file || !try_to_load(item, text) || try_to_load(&alone, NULL))
            continue;
        item->ocsp_file = NULL;
        if (!is_silent)
            serve_warn("no response of OCSP is stapled: %s", text);
    }
}

static int make_context(struct serve_certificates *certificates,
                        const struct gs_tls_options *options, struct gs_tls_context **ret_context,
                        char *ret_text)
{
    for (unsigned i = 0; certificates->ocsp_files && i < certificates->count; i++)
        certificates->items[i].ocsp_file = certificates->ocsp_files[i];
    int err = gs_tls_context_new(options, ret_context, ret_text);
    if (!err || !certificates->ocsp_files)
        return err;
    leave_out_responses(certificates, !ret_text);
    return gs_tls_context_new(options, ret_context, ret_text);
}

/* Returns 0, or -errno and the reason. ret_text: NULL: another process has told it. */
static int load(struct serve_certificates *certificates, char ret_text[GS_TLS_TEXT])
{
    static const char *const protocols[] = {"h2", "http/1.1"};
    bool has_http2 = gs_http2_operations() != NULL;
    const struct gs_tls_options options = {
        .certificates = certificates->items,
        .certificate_count = certificates->count,
        .protocols = has_http2 ? protocols : protocols + 1,
        .protocol_count = has_http2 ? 2 : 1,
        .is_modern = certificates->is_modern,
    };
    struct gs_tls_context *context, *old;
    int err = make_context(certificates, &options, &context, ret_text);
    if (err)
        return err;
    pthread_mutex_lock(&certificates->lock);
    old = certificates->context;
    certificates->context = context;
    pthread_mutex_unlock(&certificates->lock);
    gs_tls_context_release(old);
    return 0;
}

/* In the first process. */
static int load_first(struct serve_certificates *certificates, char ret_text[GS_TLS_TEXT])
{
    int err = load(certificates, ret_text);
    if (err)
        return err;
    certificates->generation = atomic_fetch_add(&certificates->counts->generation, 1) + 1;
    note_expiry(certificates, gs_tls_context_expiry(certificates->context));
    certificates->ocsp_expiry = gs_tls_context_ocsp_expiry(certificates->context);
    warn_of_old_responses(certificates);
    warn_of_open_keys(certificates);
    return 0;
}

static int allocate(struct serve_certificates *certificates, const struct serve_options *options)
{
    unsigned count = (unsigned)options->certificates.count;
    certificates->items = calloc(count, sizeof *certificates->items);
    certificates->loaded = calloc(count, sizeof *certificates->loaded);
    certificates->seen = calloc(count, sizeof *certificates->seen);
    if (!certificates->items || !certificates->loaded || !certificates->seen)
        return -ENOMEM;
    certificates->count = count;
    certificates->ocsp_files = options->ocsp.items; /* NULL: there are none */
    certificates->is_modern = options->is_modern;
    for (unsigned i = 0; i < count; i++)
        certificates->items[i] = (struct gs_tls_certificate){
            .chain = options->certificates.items[i],
            .key = options->keys.count ? options->keys.items[i] : NULL,
            .passphrase_file = options->passphrase_file,
        };
    return 0;
}

int serve_certificates_open(struct serve_certificates *certificates,
                            const struct serve_options *options, struct serve_tls_counts *counts)
{
    char text[GS_TLS_TEXT] = "";
    certificates->counts = counts;
    certificates->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    int err = allocate(certificates, options);
    if (!err) {
        look_at_all(certificates, certificates->loaded);
        memcpy(certificates->seen, certificates->loaded,
               certificates->count * sizeof *certificates->seen);
        err = load_first(certificates, text);
    }
    if (err)
        serve_error("%s", *text ? text : strerror(-err));
    return err;
}

void serve_certificates_close(struct serve_certificates *certificates)
{
    gs_tls_context_release(certificates->context);
    free(certificates->items);
    free(certificates->loaded);
    free(certificates->seen);
}

void serve_certificates_look(struct serve_certificates *certificates, bool at_once)
{
    char text[GS_TLS_TEXT] = "";
    struct serve_certificate_files *files =
        certificates->count ? calloc(certificates->count, sizeof *files) : NULL;
    if (!files)
        return;
    warn_of_old_responses(certificates);
    look_at_all(certificates, files);
    bool is_settled = at_once || are_same(certificates, files, certificates->seen);
    bool is_new = !are_same(certificates, files, certificates->loaded);
    free(certificates->seen);
    certificates->seen = files;
    if (!is_settled || !is_new)
        return;
    memcpy(certificates->loaded, files, certificates->count * sizeof *files);
    if (!load_first(certificates, text))
        return;
    atomic_fetch_add(&certificates->counts->failed_loads, 1);
    serve_warn("the certificate in use stays, since a new one can't be used: %s",
               *text ? text : "there is no memory");
}

void serve_certificates_follow(struct serve_certificates *certificates)
{
    if (!certificates->counts)
        return;
    unsigned generation = atomic_load(&certificates->counts->generation);
    if (generation == certificates->generation)
        return;
    certificates->generation = generation;
    (void)!load(certificates, NULL);
}

/* ---- Use ---- */

struct gs_tls_context *serve_certificates_get(struct serve_certificates *certificates)
{
    pthread_mutex_lock(&certificates->lock);
    struct gs_tls_context *context = certificates->context;
    gs_tls_context_hold(context);
    pthread_mutex_unlock(&certificates->lock);
    return context;
}

void serve_certificates_count(struct serve_certificates *certificates,
                              const struct gs_tls_info *info)
{
    struct serve_tls_counts *counts = certificates->counts;
    bool is_1_3 = info->version && !strcmp(info->version, "TLSv1.3");
    if (info->failure || !info->is_established) {
        atomic_fetch_add_explicit(&counts->failed[info->failure], 1, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(is_1_3 ? &counts->handshakes_1_3 : &counts->handshakes_1_2, 1,
                              memory_order_relaxed);
    if (info->is_resumed)
        atomic_fetch_add_explicit(&counts->resumed, 1, memory_order_relaxed);
}
