#include "load/report.h"

#include <gossamer/clock.h>

#include <errno.h>

const struct load_percentile gs_load_percentiles[LOAD_PERCENTILES] = {
    {"p50", "p50", 50}, {"p75", "p75", 75},      {"p90", "p90", 90},
    {"p99", "p99", 99}, {"p999", "p99.9", 99.9},
};

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < ' ')
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

/* text: NULL for null. */
static void write_text(FILE *file, const char *key, const char *text)
{
    fprintf(file, "  \"%s\": ", key);
    if (text)
        write_string(file, text);
    else
        fputs("null", file);
    fputs(",\n", file);
}

static void write_count(FILE *file, const char *key, uint64_t value)
{
    fprintf(file, "  \"%s\": %llu,\n", key, (unsigned long long)value);
}

static void write_number(FILE *file, const char *key, double value)
{
    fprintf(file, "  \"%s\": %.6f,\n", key, value);
}

static void write_histogram(FILE *file, const char *key, const struct gs_histogram *histogram)
{
    const double unit = (double)GS_MICROSECOND;
    fprintf(file, "  \"%s\": {\"count\": %llu, \"saturated\": %llu, \"min\": %.3f, \"mean\": %.3f",
            key, (unsigned long long)histogram->count, (unsigned long long)histogram->saturated,
            (double)gs_histogram_min(histogram) / unit, gs_histogram_mean(histogram) / unit);
    for (int i = 0; i < LOAD_PERCENTILES; i++) {
        double value = (double)gs_histogram_percentile(histogram, gs_load_percentiles[i].percent);
        fprintf(file, ", \"%s\": %.3f", gs_load_percentiles[i].key, value / unit);
    }
    fprintf(file, ", \"max\": %.3f},\n", (double)gs_histogram_max(histogram) / unit);
}

static void write_waiting(FILE *file, const char *key, const struct load_waiting *waiting)
{
    double mean_ns = waiting->count ? (double)waiting->total_ns / (double)waiting->count : 0;
    fprintf(file, "  \"%s\": {\"count\": %llu, \"mean_us\": %.3f, \"longest_us\": %.3f},\n", key,
            (unsigned long long)waiting->count, mean_ns / (double)GS_MICROSECOND,
            (double)waiting->longest_ns / (double)GS_MICROSECOND);
}

static void write_errors(FILE *file, const struct load_metrics *metrics)
{
    fputs("  \"errors\": {", file);
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++)
        fprintf(file, "%s\"%s\": %llu", kind ? ", " : "", gs_load_error_names[kind],
                (unsigned long long)metrics->errors[kind]);
    fputs("},\n", file);
}

static void write_statuses(FILE *file, const char *key, const uint64_t *statuses)
{
    const char *between = "";
    fprintf(file, "  \"%s\": {", key);
    for (int status = 0; status < LOAD_STATUSES; status++) {
        uint64_t count = statuses[status];
        if (!count)
            continue;
        fprintf(file, "%s\"%d\": %llu", between, status, (unsigned long long)count);
        between = ", ";
    }
    fputs("},\n", file);
}

static void write_flag(FILE *file, const char *key, bool value)
{
    fprintf(file, "  \"%s\": %s,\n", key, value ? "true" : "false");
}

static void write_validity(FILE *file, const struct load_result *result)
{
    write_flag(file, "invalid", result->is_invalid);
    write_text(file, "invalid_reason", result->is_invalid ? result->invalid_reason : NULL);
}

/* The configured rate, and that at which requests were sent; null in a closed loop. */
static void write_rates(FILE *file, const struct load_settings *settings,
                        const struct load_result *result)
{
    if (!gs_load_is_open_loop(settings)) {
        fputs("  \"rate_per_s\": null,\n  \"sent_rate_per_s\": null,\n"
              "  \"rate_missed\": null,\n",
              file);
        return;
    }
    fprintf(file, "  \"rate_per_s\": %.15g,\n", settings->rate);
    write_number(file, "sent_rate_per_s", result->sent_rate_per_s);
    write_flag(file, "rate_missed", gs_load_misses_rate(result, settings));
}

int gs_load_report_json(const struct load_settings *settings, const struct load_result *result,
                        FILE *file)
{
    const struct load_metrics *metrics = &result->metrics;
    double per_second = result->seconds > 0 ? 1 / result->seconds : 0;
    fputs("{\n  \"url\": ", file);
    write_string(file, settings->urls[0]);
    fputs(",\n", file);
    write_count(file, "threads", settings->workers * settings->processes);
    write_count(file, "processes", settings->processes);
    write_validity(file, result);
    write_count(file, "requests", metrics->requests);
    write_errors(file, metrics);
    write_text(file, "parse_reason", metrics->parse_reason);
    write_text(file, "tls_reason", metrics->tls_reason[0] ? metrics->tls_reason : NULL);
    write_statuses(file, "statuses", metrics->statuses);
    write_statuses(file, "unexpected_statuses", metrics->unexpected_statuses);
    write_number(file, "seconds", result->seconds);
    write_rates(file, settings, result);
    write_number(file, "throughput_per_s", (double)metrics->requests * per_second);
    write_count(file, "bytes", metrics->bytes);
    write_number(file, "bytes_per_s", (double)metrics->bytes * per_second);
    write_text(file, "protocol", settings->is_http2 ? "HTTP/2" : "HTTP/1.1");
    write_count(file, "streams", settings->streams);
    write_count(file, "offered_load", (uint64_t)gs_load_offered_load(settings));
    write_number(file, "measured_load", gs_load_measured_load(result));
    write_histogram(file, "response_us", &metrics->times[LOAD_TIME_RESPONSE]);
    write_histogram(file, "service_us", gs_load_report_service(settings, metrics));
    write_histogram(file, "connect_us", &metrics->times[LOAD_TIME_CONNECT]);
    write_histogram(file, "handshake_us", &metrics->times[LOAD_TIME_HANDSHAKE]);
    write_histogram(file, "total_us", &metrics->times[LOAD_TIME_TOTAL]);
    write_histogram(file, "first_byte_us", &metrics->times[LOAD_TIME_FIRST_BYTE]);
    write_histogram(file, "send_delay_us", &metrics->times[LOAD_TIME_SEND_DELAY]);
    write_waiting(file, "waiting_to_connect", &metrics->to_connect);
    write_waiting(file, "waiting_for_response", &metrics->for_response);
    write_count(file, "requests_queued", metrics->queued);
    write_count(file, "connections_opened", metrics->connections);
    write_count(file, "connections_resumed", metrics->resumed);
    write_text(file, "tls", metrics->tls[0] ? metrics->tls : NULL);
    write_count(file, "requests_retried", metrics->retried);
    write_count(file, "responses_with_excess", metrics->excessive);
    write_count(file, "dropped_samples", metrics->dropped);
    write_flag(file, "interrupted", result->is_interrupted);
    write_flag(file, "gave_up", result->has_given_up);
    write_number(file, "max_worker_utilization", result->max_utilization);
    fprintf(file, "  \"client_cpu_s\": %.6f\n}\n", result->client_cpu_s);
    return ferror(file) ? -EIO : 0;
}
