#include "http/service.h"

#include "http/redirect.h"
#include "http/rules.h"

#include <errno.h>
#include <stdlib.h>

/* Maximum number of free outputs: about as many as are in use at once in one iteration of a loop,
 * not as many as slow readers have. */
#define FREE_OUTPUTS_MAX 32

void gs_http_options_default(struct gs_http_options *ret_options)
{
    *ret_options = (struct gs_http_options){
        .max_request_line = 8192,
        .max_header = 32768,
        .max_fields = 100,
        .max_body = 1 << 20,
        .header_timeout_ns = 10 * GS_SECOND,
        .idle_timeout_ns = 60 * GS_SECOND,
        .rate_window_ns = 10 * GS_SECOND,
        .min_rate = 1024,
        .max_cached_file = 64 << 10,
        .max_cache = 64 << 20,
        .max_cached_descriptors = 256,
    };
}

/* What the constants for a head include. */
#define USUAL_FIELDS 256

/* Returns 0 or -EINVAL. */
static int measure_fields(struct gs_http_service *service, const struct gs_http_site *site)
{
    const char *common = service->options.fields;
    if (gs_http_site_problem(site, common))
        return -EINVAL;
    size_t n = gs_http_rules_max(site, common).bytes;
    if (n > service->fields_room + USUAL_FIELDS)
        service->fields_room = n - USUAL_FIELDS;
    return 0;
}

/* A thousand sites may share theirs. */
static bool has_same_settings(const struct gs_http_site *a, const struct gs_http_site *b)
{
    return a->rules == b->rules && a->rule_count == b->rule_count &&
           a->error_pages == b->error_pages && a->error_page_count == b->error_page_count &&
           a->redirects == b->redirects && a->redirect_count == b->redirect_count &&
           a->fallback == b->fallback;
}

static int add_sites(struct gs_http_service *service)
{
    const struct gs_http_options *options = &service->options;
    bool has_rules = false, has_redirects = false;
    int err = gs_http_sites_init(&service->sites, options->sites, options->site_count);
    for (unsigned i = 0; !err && i < options->site_count; i++) {
        has_rules |= options->sites[i].rule_count > 0;
        has_redirects |= options->sites[i].redirect_count || options->sites[i].clean_urls;
        if (!i || !has_same_settings(&options->sites[i], &options->sites[i - 1]))
            err = measure_fields(service, &options->sites[i]);
    }
    if (err)
        return err;
    service->site = service->sites.fallback;
    service->site_fields = has_rules ? malloc(GS_HTTP_FIELDS_MAX) : NULL;
    service->location = has_redirects ? malloc(GS_HTTP_LOCATION_MAX) : NULL;
    bool is_complete =
        (service->site_fields || !has_rules) && (service->location || !has_redirects);
    return is_complete ? 0 : -ENOMEM;
}

int gs_http_service_new(const struct gs_http_options *options, int root_fd,
                        struct gs_http_counts *counts, struct gs_http_service **ret_service)
{
    const char *fields = options->fields ? options->fields : "";
    struct gs_http_service *service = calloc(1, sizeof *service);
    if (!service)
        return -ENOMEM;
    *service = (struct gs_http_service){
        .options = *options,
        .counts = counts,
        .own = {.root_fd = root_fd,
                .https_port = options->redirect_port,
                .listing = options->listing},
        .site = &service->own,
        .fields = {fields, strlen(fields)},
        .path = malloc(options->max_request_line + 1),
        .path_size = options->max_request_line + 1,
    };
    gs_http_cache_init(&service->cache, options->max_cache, options->max_cached_descriptors);
    int err = service->path ? measure_fields(service, &service->own) : -ENOMEM;
    if (!err && options->site_count)
        err = add_sites(service);
    if (err)
        gs_http_service_free(service);
    else
        *ret_service = service;
    return err;
}

void gs_http_service_free(struct gs_http_service *service)
{
    if (!service)
        return;
    gs_http_cache_done(&service->cache);
    gs_http_sites_done(&service->sites);
    while (service->free_outputs) {
        struct gs_http_output *output = service->free_outputs;
        service->free_outputs = output->next_free;
        free(output);
    }
    free(service->http2_block);
    free(service->http2_desk);
    free(service->site_fields);
    free(service->location);
    free(service->path);
    free(service);
}

void gs_http_service_set_http2(struct gs_http_service *service,
                               const struct gs_http2_operations *operations)
{
    service->http2 = operations;
}

/* A page that is asked for is validated twice a second. */
#define UNUSED_NS (2 * GS_SECOND)

uint64_t gs_http_service_deadline(const struct gs_http_service *service)
{
    const struct gs_http_page *oldest = service->cache.oldest;
    return oldest ? gs_clock_after(oldest->used_ns, UNUSED_NS) : GS_NEVER;
}

void gs_http_service_expire(struct gs_http_service *service, uint64_t now_ns)
{
    if (now_ns >= UNUSED_NS)
        gs_http_cache_remove_unused(&service->cache, now_ns - UNUSED_NS);
}

void gs_http_service_set_wall_clock(struct gs_http_service *service, uint64_t now_ns,
                                    uint64_t wall_ns)
{
    uint64_t offset_ns = wall_ns - now_ns;
    if (offset_ns == service->wall_offset_ns)
        return;
    service->wall_offset_ns = offset_ns;
    service->date_until_ns = 0;
}

int64_t gs_http_service_wall_seconds(const struct gs_http_service *service, uint64_t now_ns)
{
    return (int64_t)((now_ns + service->wall_offset_ns) / GS_SECOND);
}

void gs_http_service_update_date(struct gs_http_service *service, uint64_t now_ns)
{
    uint64_t wall_ns = now_ns + service->wall_offset_ns;
    gs_http_date_format((int64_t)(wall_ns / GS_SECOND), service->date);
    service->date_until_ns = now_ns + (GS_SECOND - wall_ns % GS_SECOND);
}

void gs_http_service_free_output(struct gs_http_service *service, struct gs_http_output *output)
{
    gs_http_output_done(output);
    if (!output->size || service->free_output_count == FREE_OUTPUTS_MAX) {
        free(output);
        return;
    }
    output->next_free = service->free_outputs;
    service->free_outputs = output;
    service->free_output_count++;
}
