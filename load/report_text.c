#include "load/report.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Print a duration in a suitable unit, in ten columns. */
static void print_time(FILE *file, double ns)
{
    if (ns < (double)GS_MILLISECOND)
        fprintf(file, "%7.1f us", ns / (double)GS_MICROSECOND);
    else if (ns < (double)GS_SECOND)
        fprintf(file, "%7.2f ms", ns / (double)GS_MILLISECOND);
    else
        fprintf(file, "%7.2f s ", ns / (double)GS_SECOND);
}

static void print_heading(FILE *file)
{
    fprintf(file, "\n%-12s%10s", "", "mean");
    for (int i = 0; i < LOAD_PERCENTILES; i++)
        fprintf(file, "%10s", gs_load_percentiles[i].title);
    fprintf(file, "%10s\n", "max");
}

static void print_histogram(FILE *file, const char *name, const struct gs_histogram *histogram)
{
    if (!histogram->count)
        return;
    fprintf(file, "%-12s", name);
    print_time(file, gs_histogram_mean(histogram));
    for (int i = 0; i < LOAD_PERCENTILES; i++)
        print_time(file,
                   (double)gs_histogram_percentile(histogram, gs_load_percentiles[i].percent));
    print_time(file, (double)gs_histogram_max(histogram));
    fputc('\n', file);
}

static void print_errors(FILE *file, const struct load_metrics *metrics)
{
    fprintf(file, "%-17s%12" PRIu64, "errors", gs_load_metrics_error_count(metrics));
    const char *between = "  (";
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++) {
        if (!metrics->errors[kind])
            continue;
        fprintf(file, "%s%s %" PRIu64, between, gs_load_error_names[kind], metrics->errors[kind]);
        if (kind == LOAD_CONNECT)
            fprintf(file, ": %s", strerror(-metrics->connect_error));
        if (kind == LOAD_PARSE && metrics->parse_reason)
            fprintf(file, ": %s", metrics->parse_reason);
        between = ", ";
    }
    fputs(*between == ',' ? ")\n" : "\n", file);
    if (metrics->tls_reason[0])
        fprintf(file, "  the first of TLS: %s\n", metrics->tls_reason);
}

/* statuses: of correct responses, or of errors of kind "status". */
static void print_statuses(FILE *file, const uint64_t *statuses)
{
    for (int status = 0; status < LOAD_STATUSES; status++) {
        if (statuses[status])
            fprintf(file, "  status %-8d%12" PRIu64 "\n", status, statuses[status]);
    }
}

/* Other statuses than 200 are worth a table: the requests may have been redirected. */
static bool has_other_status(const struct load_metrics *metrics)
{
    return metrics->statuses[200] != metrics->requests;
}

static void print_bandwidth(FILE *file, double bytes_per_s)
{
    static const char *const units[] = {"B/s", "KiB/s", "MiB/s", "GiB/s"};
    size_t i = 0;
    for (; i + 1 < sizeof units / sizeof *units && bytes_per_s >= 1024; i++)
        bytes_per_s /= 1024;
    fprintf(file, "%-17s%12.1f %s\n", "bandwidth", bytes_per_s, units[i]);
}

static void print_rates(FILE *file, const struct load_settings *settings,
                        const struct load_result *result)
{
    double per_second = result->seconds > 0 ? 1 / result->seconds : 0;
    double requests = (double)result->metrics.requests;
    fprintf(file, "%-17s%12.3f s%s\n", "time", result->seconds,
            result->is_interrupted ? "  (interrupted)"
            : result->has_given_up ? "  (given up)"
                                   : "");
    if (gs_load_is_open_loop(settings))
        fprintf(file, "%-17s%12.1f requests/s%s\n", "configured rate", settings->rate,
                settings->is_poisson ? "  (Poisson)" : "");
    fprintf(file, "%-17s%12.1f requests/s\n", "throughput", requests * per_second);
    print_bandwidth(file, (double)result->metrics.bytes * per_second);
    const char *unit = settings->is_http2 ? "streams" : "connections";
    fprintf(file, "%-17s%12.1f %s\n", "offered load", gs_load_offered_load(settings), unit);
    fprintf(file, "%-17s%12.1f %s\n", "measured load", gs_load_measured_load(result), unit);
    fprintf(file, "%-17s%12.3f s", "client CPU", result->client_cpu_s);
    if (result->metrics.requests)
        fprintf(file, "  (%.2f us per request)", result->client_cpu_s * 1e6 / requests);
    fputc('\n', file);
}

/* Print the requests in flight at the end if one has waited longer than the table's maximum. */
static void print_waiting(FILE *file, const char *for_what, const struct load_waiting *waiting,
                          const struct gs_histogram *completed)
{
    if (waiting->longest_ns <= gs_histogram_max(completed))
        return;
    fprintf(file, "%-17s%12" PRIu64 " %s at the end, the longest for", "waiting", waiting->count,
            for_what);
    print_time(file, (double)waiting->longest_ns);
    fputc('\n', file);
}

static void print_times(FILE *file, const struct load_metrics *metrics)
{
    static const char *const names[LOAD_TIME_KINDS] = {[LOAD_TIME_CONNECT] = "connect",
                                                       [LOAD_TIME_HANDSHAKE] = "handshake",
                                                       [LOAD_TIME_FIRST_BYTE] = "first byte",
                                                       [LOAD_TIME_SERVICE] = "service",
                                                       [LOAD_TIME_RESPONSE] = "response",
                                                       [LOAD_TIME_SEND_DELAY] = "send delay",
                                                       [LOAD_TIME_TOTAL] = "total"};
    const struct gs_histogram *response = &metrics->times[LOAD_TIME_RESPONSE];
    if (response->count || metrics->times[LOAD_TIME_CONNECT].count)
        print_heading(file);
    for (int i = 0; i < LOAD_TIME_KINDS; i++)
        print_histogram(file, names[i], &metrics->times[i]);
    if (response->saturated)
        fprintf(file, "%" PRIu64 " responses took longer than an hour\n", response->saturated);
}

/* Print an integer with commas: 9,512. */
static void print_grouped(FILE *file, uint64_t value)
{
    if (value >= 1000) {
        print_grouped(file, value / 1000);
        fprintf(file, ",%03" PRIu64, value % 1000);
    } else {
        fprintf(file, "%" PRIu64, value);
    }
}

/* Rates below 10 per second have a fraction. */
static void print_rate(FILE *file, double rate)
{
    if (rate < 10)
        fprintf(file, "%.3g", rate);
    else
        print_grouped(file, (uint64_t)(rate + 0.5));
}

static void print_missed_rate(FILE *file, const struct load_settings *settings,
                              const struct load_result *result)
{
    if (!gs_load_misses_rate(result, settings))
        return;
    fputs("\ntarget rate missed: ", file);
    print_rate(file, result->sent_rate_per_s);
    fputs("/s of ", file);
    print_rate(file, settings->rate);
    fputs("/s\n", file);
}

int gs_load_report_text(const struct load_settings *settings, const struct load_result *result,
                        FILE *file)
{
    const struct load_metrics *metrics = &result->metrics;
    fprintf(file, "%-17s%12" PRIu64 "\n", "requests", metrics->requests);
    if (has_other_status(metrics))
        print_statuses(file, metrics->statuses);
    print_errors(file, metrics);
    print_statuses(file, metrics->unexpected_statuses);
    fprintf(file, "%-17s%12" PRIu64 " opened", "connections", metrics->connections);
    if (metrics->retried)
        fprintf(file, "  (%" PRIu64 " requests retried)", metrics->retried);
    fputc('\n', file);
    if (settings->is_http2)
        fprintf(file, "  HTTP/2; streams per connection: %" PRIu64 "\n", settings->streams);
    if (metrics->tls[0])
        fprintf(file, "  %s; %" PRIu64 " resumed a session\n", metrics->tls, metrics->resumed);
    if (metrics->excessive)
        fprintf(file, "%-17s%12" PRIu64 " responses were followed by other bytes\n", "excess",
                metrics->excessive);
    print_rates(file, settings, result);
    if (metrics->dropped)
        fprintf(file, "%-17s%12" PRIu64 " first and last responses\n", "dropped", metrics->dropped);
    if (gs_load_is_open_loop(settings))
        fprintf(file, "%-17s%12" PRIu64 " requests, scheduled while all %s were busy\n", "queued",
                metrics->queued, settings->is_http2 ? "streams" : "connections");
    print_waiting(file, "to connect", &metrics->to_connect, &metrics->times[LOAD_TIME_CONNECT]);
    print_waiting(file, "for a response", &metrics->for_response,
                  gs_load_report_service(settings, metrics));
    print_times(file, metrics);
    print_missed_rate(file, settings, result);
    if (result->is_invalid)
        fprintf(file, "\nINVALID: %s\n", result->invalid_reason);
    return ferror(file) ? -EIO : 0;
}
