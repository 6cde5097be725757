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
    fprintf(file, "  \"%s\": {\"count\": %llu, \"longest_us\": %.3f},\n", key,
            (unsigned long long)waiting->count,
            (double)waiting->longest_ns / (double)GS_MICROSECOND);
}

static void write_errors(FILE *file, const struct load_tally *tally)
{
    fputs("  \"errors\": {", file);
    for (int kind = 0; kind < LOAD_ERRORS; kind++)
        fprintf(file, "%s\"%s\": %llu", kind ? ", " : "", gs_load_error_names[kind],
                (unsigned long long)tally->errors[kind]);
    fputs("},\n", file);
}

static void write_verdict(FILE *file, const struct load_result *result)
{
    fprintf(file, "  \"void\": %s,\n  \"void_reason\": ", result->is_void ? "true" : "false");
    if (result->is_void)
        write_string(file, result->void_reason);
    else
        fputs("null", file);
    fputs(",\n", file);
}

/* What was asked for; null: a closed loop. */
static void write_rate(FILE *file, const struct load_settings *settings)
{
    if (settings->rate)
        write_count(file, "rate_per_s", settings->rate);
    else
        fputs("  \"rate_per_s\": null,\n", file);
}

int gs_load_report_json(const struct load_settings *settings, const struct load_result *result,
                        FILE *file)
{
    const struct load_tally *tally = &result->tally;
    double per_second = result->seconds > 0 ? 1 / result->seconds : 0;
    fputs("{\n  \"url\": ", file);
    write_string(file, settings->urls[0]);
    fputs(",\n", file);
    write_count(file, "threads", settings->workers * settings->processes);
    write_count(file, "processes", settings->processes);
    write_verdict(file, result);
    write_count(file, "requests", tally->requests);
    write_errors(file, tally);
    write_number(file, "seconds", result->seconds);
    write_rate(file, settings);
    write_number(file, "throughput_per_s", (double)tally->requests * per_second);
    write_count(file, "bytes", tally->bytes);
    write_number(file, "bytes_per_s", (double)tally->bytes * per_second);
    write_count(file, "offered_load", settings->connections);
    write_number(file, "measured_load", gs_load_measured(result));
    write_histogram(file, "response_us", &tally->times[LOAD_TIME_RESPONSE]);
    write_histogram(file, "service_us", gs_load_report_service(settings, tally));
    write_histogram(file, "connect_us", &tally->times[LOAD_TIME_CONNECT]);
    write_histogram(file, "first_byte_us", &tally->times[LOAD_TIME_FIRST_BYTE]);
    write_histogram(file, "lag_us", &tally->times[LOAD_TIME_LAG]);
    write_waiting(file, "waiting_to_connect", &tally->to_connect);
    write_waiting(file, "waiting_for_answer", &tally->for_answer);
    write_count(file, "requests_queued", tally->queued);
    write_count(file, "connections_opened", tally->connections);
    write_count(file, "requests_resent", tally->resent);
    write_count(file, "dropped_samples", tally->dropped);
    fprintf(file, "  \"interrupted\": %s,\n", result->is_interrupted ? "true" : "false");
    write_number(file, "busiest_worker", result->busiest);
    fprintf(file, "  \"client_cpu_s\": %.6f\n}\n", result->client_cpu_s);
    return ferror(file) ? -EIO : 0;
}
