#include "serve/operations/metrics.h"

#include "serve/arch/arch.h"
#include "serve/operations/kernel_counts.h"
#include "serve/operations/server.h"

#include <errno.h>
#include <gossamer/stage.h>
#include <gossamer/thread.h>
#include <stdarg.h>
#include <stdio.h>

#define PAGE_SIZE_MAX 65536

/* The page, as far as it has been written. */
struct page {
    const struct serve_server *server;
    char *at, *end;
    bool is_full;
};

__attribute__((format(printf, 2, 3))) static void put(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(page->at, (size_t)(page->end - page->at), format, arguments);
    va_end(arguments);
    if (n < 0 || n >= page->end - page->at)
        page->is_full = true;
    else
        page->at += n;
}

static void put_head(struct page *page, const char *name, const char *type, const char *help)
{
    put(page, "# HELP gossamer_%s %s\n# TYPE gossamer_%s %s\n", name, help, name, type);
}

/* A sample with the labels that all have, followed by others: `,name="value"`. */
static void put_sample(struct page *page, const char *name, const char *labels, uint64_t value)
{
    put(page, "gossamer_%s{arch=\"%s\"%s} %llu\n", name, page->server->options->arch->name, labels,
        (unsigned long long)value);
}

static void put_seconds(struct page *page, const char *name, const char *labels, uint64_t ns)
{
    put(page, "gossamer_%s{arch=\"%s\"%s} %llu.%09llu\n", name, page->server->options->arch->name,
        labels, (unsigned long long)(ns / GS_SECOND), (unsigned long long)(ns % GS_SECOND));
}

/* ---- Counts of HTTP ---- */

static struct gs_http_counts sum_of_counts(const struct serve_server *server)
{
    struct gs_http_counts sum = {0};
    uint64_t *to = (uint64_t *)&sum;
    for (unsigned worker = 0; worker < server->workers; worker++) {
        const uint64_t *from = (const uint64_t *)&server->counts[worker].http;
        for (size_t i = 0; i < sizeof sum / sizeof *to; i++)
            to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    }
    return sum;
}

static void put_latencies(struct page *page, const struct gs_http_counts *counts)
{
    uint64_t total = 0;
    put_head(page, "request_seconds", "histogram", "Time from a request to the end of its answer.");
    for (unsigned i = 0; i < GS_HTTP_LATENCIES; i++) {
        char labels[48];
        uint64_t us = UINT64_C(1) << i;
        total += counts->latencies[i];
        if (i == GS_HTTP_LATENCIES - 1)
            snprintf(labels, sizeof labels, ",le=\"+Inf\"");
        else
            snprintf(labels, sizeof labels, ",le=\"%llu.%06llu\"",
                     (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000));
        put_sample(page, "request_seconds_bucket", labels, total);
    }
    put_seconds(page, "request_seconds_sum", "", counts->latency_ns);
    put_sample(page, "request_seconds_count", "", total);
}

static void put_http2(struct page *page, const struct gs_http_counts *counts)
{
    put_head(page, "http2_connections_total", "counter", "Connections that spoke HTTP/2.");
    put_sample(page, "http2_connections_total", "", counts->http2_connections);
    put_head(page, "http2_requests_total", "counter", "Answered requests of HTTP/2.");
    put_sample(page, "http2_requests_total", "", counts->http2_requests);
    put_head(page, "http2_resets_total", "counter", "Streams that clients reset.");
    put_sample(page, "http2_resets_total", "", counts->http2_resets);
    put_head(page, "http2_refused_total", "counter", "Streams refused for lack of room.");
    put_sample(page, "http2_refused_total", "", counts->http2_refused);
    put_head(page, "http2_abuses_total", "counter", "Connections ended because of floods.");
    put_sample(page, "http2_abuses_total", "", counts->http2_abuses);
    put_head(page, "http2_overloads_total", "counter", "Connections ended for lack of memory.");
    put_sample(page, "http2_overloads_total", "", counts->http2_overloads);
}

static void put_classes(struct page *page, const struct gs_http_counts *counts)
{
    uint64_t others = counts->redirections + counts->client_errors + counts->server_errors;
    put_head(page, "responses_total", "counter", "Responses, by the first digit of their status.");
    put_sample(page, "responses_total", ",class=\"2xx\"",
               counts->requests > others ? counts->requests - others : 0);
    put_sample(page, "responses_total", ",class=\"3xx\"", counts->redirections);
    put_sample(page, "responses_total", ",class=\"4xx\"", counts->client_errors);
    put_sample(page, "responses_total", ",class=\"5xx\"", counts->server_errors);
}

static void put_counts(struct page *page)
{
    struct gs_http_counts counts = sum_of_counts(page->server);
    uint64_t open = counts.connections > counts.closed ? counts.connections - counts.closed : 0;
    put_head(page, "connections_total", "counter", "Accepted connections.");
    put_sample(page, "connections_total", "", counts.connections);
    put_head(page, "connections", "gauge", "Open connections.");
    put_sample(page, "connections", "", open);
    put_head(page, "requests_total", "counter", "Answered requests.");
    put_sample(page, "requests_total", "", counts.requests);
    put_classes(page, &counts);
    put_head(page, "errors_total", "counter", "Requests answered with an error.");
    put_sample(page, "errors_total", ",class=\"4xx\"", counts.client_errors);
    put_sample(page, "errors_total", ",class=\"5xx\"", counts.server_errors);
    put_head(page, "sent_bytes_total", "counter", "Sent bytes.");
    put_sample(page, "sent_bytes_total", "", counts.bytes);
    put_head(page, "timeouts_total", "counter", "Connections that timed out.");
    put_sample(page, "timeouts_total", "", counts.timeouts);
    put_head(page, "broken_off_total", "counter",
             "Answers broken off: their file changed or failed.");
    put_sample(page, "broken_off_total", "", counts.broken_off);
    put_head(page, "evictions_total", "counter", "Idle connections closed to make room.");
    put_sample(page, "evictions_total", "", atomic_load(&page->server->evictions->count));
    put_head(page, "access_log_lost_lines_total", "counter", "Lines that the access log lost.");
    put_sample(page, "access_log_lost_lines_total", "",
               atomic_load(&page->server->log_state->losses.lines));
    put_latencies(page, &counts);
    put_http2(page, &counts);
}

static void put_compression(struct page *page)
{
    if (!page->server->compressor)
        return;
    struct serve_compressor_counts counts = serve_compressor_count(page->server->compressor);
    put_head(page, "compressed_total", "counter", "Bodies that were compressed.");
    put_sample(page, "compressed_total", ",saves=\"enough\"", counts.compressed);
    put_sample(page, "compressed_total", ",saves=\"too_little\"", counts.dropped);
    put_head(page, "compressed_bytes", "gauge", "Memory of compressed bodies, beside the caches.");
    put_sample(page, "compressed_bytes", "", counts.bytes);
}

/* ---- Counts of TLS ---- */

static void put_tls(struct page *page)
{
    static const char *const reasons[SERVE_TLS_FAILURES] = {
        [GS_TLS_NO_FAILURE] = "incomplete",  [GS_TLS_FAILED_HTTP] = "http",
        [GS_TLS_FAILED_VERSION] = "version", [GS_TLS_FAILED_VERIFY] = "verify",
        [GS_TLS_FAILED_ALERT] = "alert",     [GS_TLS_FAILED_PROTOCOL] = "protocol",
        [GS_TLS_FAILED_MEMORY] = "memory",
    };
    const struct serve_tls_counts *counts = page->server->certificates.counts;
    if (!counts)
        return;
    put_head(page, "tls_handshakes_total", "counter", "Complete TLS handshakes.");
    put_sample(page, "tls_handshakes_total", ",version=\"1.2\"", counts->handshakes_1_2);
    put_sample(page, "tls_handshakes_total", ",version=\"1.3\"", counts->handshakes_1_3);
    put_head(page, "tls_resumed_total", "counter", "TLS handshakes that resumed a session.");
    put_sample(page, "tls_resumed_total", "", counts->resumed);
    put_head(page, "tls_failed_total", "counter", "Connections whose TLS failed.");
    for (int i = 0; i < SERVE_TLS_FAILURES; i++) {
        char labels[32];
        snprintf(labels, sizeof labels, ",reason=\"%s\"", reasons[i]);
        put_sample(page, "tls_failed_total", labels, counts->failed[i]);
    }
    put_head(page, "tls_certificate_expiry_seconds", "gauge",
             "Unix time when the first certificate expires.");
    put_sample(page, "tls_certificate_expiry_seconds", "", (uint64_t)counts->expiry);
    put_head(page, "tls_failed_loads_total", "counter", "Changed certificates that were unusable.");
    put_sample(page, "tls_failed_loads_total", "", counts->failed_loads);
}

/* ---- Counts of the kernel ---- */

static void put_kernel(struct page *page)
{
    struct serve_kernel_counts counts;
    serve_kernel_count(page->server->pid, &counts);
    put_head(page, "workers", "gauge", "Workers, as set by --workers.");
    put_sample(page, "workers", "", page->server->workers);
    put_head(page, "processes", "gauge", "Processes of the server.");
    put_sample(page, "processes", "", counts.processes);
    put_head(page, "threads", "gauge", "Kernel threads of all processes.");
    put_sample(page, "threads", "", counts.threads);
    put_head(page, "context_switches_total", "counter",
             "Context switches of the kernel threads of running processes.");
    put_sample(page, "context_switches_total", ",kind=\"voluntary\"", counts.voluntary);
    put_sample(page, "context_switches_total", ",kind=\"involuntary\"", counts.involuntary);
}

/* ---- User-level threads ---- */

static void put_user_threads(struct page *page)
{
    struct gs_threads_stats stats;
    gs_threads_stats(&stats);
    if (!stats.spawned)
        return;
    put_head(page, "threads_live", "gauge", "User-level threads.");
    put_sample(page, "threads_live", "", stats.live);
    put_head(page, "threads_ready", "gauge", "User-level threads ready to run.");
    put_sample(page, "threads_ready", "", stats.ready);
    put_head(page, "stack_evictions_total", "counter",
             "Copies of waiting threads' frames off shared stacks.");
    put_sample(page, "stack_evictions_total", "", stats.evictions);
    put_head(page, "stack_evicted_bytes_total", "counter", "Bytes of these copies.");
    put_sample(page, "stack_evicted_bytes_total", "", stats.evicted_bytes);
}

/* ---- Stages and queues ---- */

/* The sum of all stages of this one's name. Returns false if another of that name comes before. */
static bool sum_stage(const struct serve_server *server, unsigned index,
                      struct gs_stage_stats *ret_sum)
{
    gs_stage_stats(server->stages[index], ret_sum);
    for (unsigned i = 0; i < server->stage_count; i++) {
        struct gs_stage_stats other;
        if (i == index)
            continue;
        gs_stage_stats(server->stages[i], &other);
        if (other.name != ret_sum->name)
            continue;
        if (i < index)
            return false;
        ret_sum->queued += other.queued;
        ret_sum->threads += other.threads;
        ret_sum->events += other.events;
        ret_sum->batches += other.batches;
        ret_sum->wait_ns += other.wait_ns;
        ret_sum->handle_ns += other.handle_ns;
        ret_sum->refused_full += other.refused_full;
        ret_sum->refused_admission += other.refused_admission;
    }
    return true;
}

static void put_stage(struct page *page, const struct gs_stage_stats *stats)
{
    char labels[64], full[96], refused[96];
    snprintf(labels, sizeof labels, ",stage=\"%s\"", stats->name);
    snprintf(full, sizeof full, "%s,reason=\"full\"", labels);
    snprintf(refused, sizeof refused, "%s,reason=\"admission\"", labels);
    put_sample(page, "stage_queue", labels, stats->queued);
    put_sample(page, "stage_threads", labels, stats->threads);
    put_sample(page, "stage_batch", labels, stats->batch);
    put_sample(page, "stage_events_total", labels, stats->events);
    put_sample(page, "stage_batches_total", labels, stats->batches);
    put_seconds(page, "stage_wait_seconds_total", labels, stats->wait_ns);
    put_seconds(page, "stage_handle_seconds_total", labels, stats->handle_ns);
    put_sample(page, "stage_refused_total", full, stats->refused_full);
    put_sample(page, "stage_refused_total", refused, stats->refused_admission);
    put_seconds(page, "stage_p90_seconds", labels, stats->p90_ns);
    put_seconds(page, "stage_rate", labels, (uint64_t)(stats->rate * (double)GS_SECOND));
}

static void put_stages(struct page *page)
{
    static const char *const names[][3] = {
        {"stage_queue", "gauge", "Events in the queue."},
        {"stage_threads", "gauge", "Kernel threads of the stage."},
        {"stage_batch", "gauge", "Maximum number of events in a call of the handler."},
        {"stage_events_total", "counter", "Handled events."},
        {"stage_batches_total", "counter", "Calls of the handler."},
        {"stage_wait_seconds_total", "counter", "Time that events waited."},
        {"stage_handle_seconds_total", "counter", "Time that the handler ran."},
        {"stage_refused_total", "counter", "Refused events."},
        {"stage_p90_seconds", "gauge", "Response time that the admission controller uses."},
        {"stage_rate", "gauge", "Events that it admits per second."},
    };
    const struct serve_server *server = page->server;
    if (!server->stage_count)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_head(page, names[i][0], names[i][1], names[i][2]);
    for (unsigned i = 0; i < server->stage_count; i++) {
        struct gs_stage_stats stats;
        if (sum_stage(server, i, &stats))
            put_stage(page, &stats);
    }
}

/* ---- Generations ---- */

static void put_generations(struct page *page)
{
    const struct serve_generation *generation = &page->server->generation;
    uint64_t draining, open;
    if (!generation->number)
        return;
    serve_generation_count(generation, &draining, &open);
    put_head(page, "generation", "gauge", "How often the supervisor has started the server.");
    put_sample(page, "generation", "", generation->number);
    put_head(page, "draining_generations", "gauge", "Earlier generations that still drain.");
    put_sample(page, "draining_generations", "", draining);
    put_head(page, "draining_connections", "gauge", "Their open connections.");
    put_sample(page, "draining_connections", "", open);
}

static void put_poller(struct page *page)
{
    char labels[64];
    if (!page->server->poller)
        return;
    put_head(page, "poller_info", "gauge", "The poller of the event loops.");
    snprintf(labels, sizeof labels, ",poller=\"%s\"", page->server->poller);
    put_sample(page, "poller_info", labels, 1);
}

static int64_t make(char *bytes, size_t n, void *data)
{
    struct page page = {.server = data, .at = bytes, .end = bytes + n};
    put_counts(&page);
    put_compression(&page);
    put_tls(&page);
    put_kernel(&page);
    put_user_threads(&page);
    put_stages(&page);
    put_poller(&page);
    put_generations(&page);
    if (page.server->queue_name) {
        put_head(&page, "queue", "gauge", "Connections in a queue of the architecture.");
        char labels[64];
        snprintf(labels, sizeof labels, ",queue=\"%s\"", page.server->queue_name);
        put_sample(&page, "queue", labels, atomic_load(&page.server->queued));
    }
    return page.is_full ? -ENOSPC : page.at - bytes;
}

struct gs_http_generator serve_metrics_generator(const struct serve_server *server,
                                                 const char *path)
{
    return (struct gs_http_generator){
        .path = path,
        .media_type = "text/plain; version=0.0.4; charset=utf-8",
        .max_size = PAGE_SIZE_MAX,
        .generate = make,
        .data = (void *)server,
    };
}
