/* A service: the state that the connections of one worker share. */
#ifndef GS_HTTP_SERVICE_H
#define GS_HTTP_SERVICE_H

#include "http/cache.h"
#include "http/coding.h"
#include "http/date.h"
#include "http/guard.h"
#include "http/http2.h"
#include "http/output.h"
#include "http/pattern.h"
#include "http/site.h"

#include <gossamer/http.h>

/* What a value of Accept-Encoding means: there are few values, and many requests. */
struct gs_http_accepting {
    struct gs_http_accepted accepted;
    uint64_t id;  /* never again of another value: clients could make 32 bits wrap around */
    uint8_t size; /* of the value, and 1 */
    char value[47];
};
#define GS_HTTP_ACCEPTINGS 8 /* by the length of the value */

/* What a request is for. */
struct gs_http_wanted {
    struct gs_http_text path;
    bool is_directory;
    bool is_fresh;                /* the page */
    bool is_refused;              /* what was loaded is no answer: to be reported */
    uint16_t status;              /* with GS_HTTP_AS_ERROR: of the page */
    struct gs_http_text origin;   /* that the response depends on, if it does */
    struct gs_http_text location; /* in place of the usual one for the status; absent: none */
    const struct gs_http_generator *generator;
    struct gs_http_page *page;          /* in the cache; NULL: none */
    const struct gs_http_page *changed; /* a page that was compared, and has; NULL: none */
};

struct gs_http_service {
    struct gs_http_options options;
    struct gs_http_counts *counts;
    const struct gs_http2_operations *http2; /* NULL: not spoken */
    void *http2_block;                /* that its sessions share (http2/memory.c); NULL: none yet */
    struct gs_http2_desk *http2_desk; /* the same */
    bool is_patient;                  /* see gs_http_conn_set_patient; read without a lock */
    struct gs_http_sites sites;       /* of the options; none: `own` is the only one */
    struct gs_http_site own;
    const struct gs_http_site *site; /* of the request that is being handled */
    const char *realm;               /* that its user is asked for, if the status is 401 */
    struct gs_http_pass *pass;       /* room for what it has; NULL: no site has guards */
    struct gs_http_cache cache;
    struct gs_http_output *free_outputs;
    unsigned free_output_count;
    uint64_t wall_offset_ns; /* wall clock minus monotonic clock, modulo 2^64 */
    uint64_t date_until_ns;  /* when `date` expires */
    char date[GS_HTTP_DATE_LENGTH];
    struct gs_http_text fields; /* of the options */
    size_t fields_room;         /* for what the sites' rules add to a head */
    char *site_fields;          /* buffer for a response without a file; NULL: there are no rules */
    char *location;             /* buffer for where a request is redirected; NULL: none is */
    char *path;                 /* buffer for the path of the request that is being handled */
    size_t path_size;
    struct gs_http_wanted wanted;                    /* by that request */
    char page_name[GS_HTTP_PATTERN_MAX + 3];         /* of the page in place of what it wanted */
    struct gs_http_range ranges[GS_HTTP_RANGES_MAX]; /* of the request that is being handled */
    struct gs_http_accepting accepting;              /* the same, if it is not below */
    uint64_t accepting_id;                           /* the last */
    struct gs_http_accepting acceptings[GS_HTTP_ACCEPTINGS];
};

/* Relaxed, since other threads read each word independently. */
static inline void gs_http_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Count the latencies of an output's responses, which have all been sent. */
static inline void gs_http_service_count_sent(struct gs_http_service *service,
                                              const struct gs_http_output *output, uint64_t now_ns)
{
    struct gs_http_counts *counts = service->counts;
    uint64_t latency_ns = now_ns > output->started_ns ? now_ns - output->started_ns : 0;
    uint64_t us = latency_ns / GS_MICROSECOND;
    unsigned bucket = us ? 64 - (unsigned)__builtin_clzll(us) : 0;
    if (bucket >= GS_HTTP_LATENCIES)
        bucket = GS_HTTP_LATENCIES - 1;
    gs_http_count(&counts->latency_ns, latency_ns * output->responses);
    gs_http_count(&counts->latencies[bucket], output->responses);
}

/* Returns an empty output, or NULL if memory is exhausted. */
static inline struct gs_http_output *gs_http_service_new_output(struct gs_http_service *service)
{
    struct gs_http_output *output = service->free_outputs;
    if (!output)
        return gs_http_output_new(GS_HTTP_OUTPUT_SEGMENTS,
                                  (uint32_t)(GS_HTTP_OUTPUT_BYTES + service->fields_room));
    service->free_outputs = output->next_free;
    service->free_output_count--;
    gs_http_output_init(output);
    return output;
}

/* Release an output's contents and keep its memory for reuse. */
void gs_http_service_free_output(struct gs_http_service *service, struct gs_http_output *output);

/* Wall-clock seconds at now_ns. */
int64_t gs_http_service_wall_seconds(const struct gs_http_service *service, uint64_t now_ns);

void gs_http_service_update_date(struct gs_http_service *service, uint64_t now_ns);

/* The Date field's value at now_ns. */
static inline const char *gs_http_service_date(struct gs_http_service *service, uint64_t now_ns)
{
    if (now_ns >= service->date_until_ns)
        gs_http_service_update_date(service, now_ns);
    return service->date;
}

#endif
