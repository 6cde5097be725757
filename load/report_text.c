#include "load/report.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* A time in the unit that suits it, in ten columns. */
static void print_time(FILE *file, double ns)
{
    if (ns < (double)GS_MILLISECOND)
        fprintf(file, "%7.1f us", ns / (double)GS_MICROSECOND);
    else if (ns < (double)GS_SECOND)
        fprintf(file, "%7.2f ms", ns / (double)GS_MILLISECOND);
    else
        fprintf(file, "%7.2f s ", ns / (double)GS_SECOND);
}

static void print_heads(FILE *file)
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

static void print_errors(FILE *file, const struct load_tally *tally)
{
    fprintf(file, "%-17s%12" PRIu64, "errors", gs_load_tally_errors(tally));
    const char *between = "  (";
    for (int kind = 0; kind < LOAD_ERRORS; kind++) {
        if (!tally->errors[kind])
            continue;
        fprintf(file, "%s%s %" PRIu64, between, gs_load_error_names[kind], tally->errors[kind]);
        if (kind == LOAD_CONNECT)
            fprintf(file, ": %s", strerror(-tally->connect_error));
        between = ", ";
    }
    fputs(*between == ',' ? ")\n" : "\n", file);
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
    double requests = (double)result->tally.requests;
    fprintf(file, "%-17s%12.3f s%s\n", "time", result->seconds,
            result->is_interrupted ? "  (interrupted)" : "");
    if (settings->rate)
        fprintf(file, "%-17s%12.1f requests/s%s\n", "rate asked for", (double)settings->rate,
                settings->is_poisson ? "  (at random times)" : "");
    fprintf(file, "%-17s%12.1f requests/s\n", "throughput", requests * per_second);
    print_bandwidth(file, (double)result->tally.bytes * per_second);
    fprintf(file, "%-17s%12.1f connections\n", "offered load", (double)settings->connections);
    fprintf(file, "%-17s%12.1f connections\n", "measured load", gs_load_measured(result));
    fprintf(file, "%-17s%12.3f s", "client CPU", result->client_cpu_s);
    if (result->tally.requests)
        fprintf(file, "  (%.2f us a request)", result->client_cpu_s * 1e6 / requests);
    fputc('\n', file);
}

/* Those that were cut off, if the table's longest time is not the whole truth without them. */
static void print_waiting(FILE *file, const char *what, const struct load_waiting *waiting,
                          const struct gs_histogram *known)
{
    if (waiting->longest_ns <= gs_histogram_max(known))
        return;
    fprintf(file, "%-17s%12" PRIu64 " %s at the end, one of them for", "still waiting",
            waiting->count, what);
    print_time(file, (double)waiting->longest_ns);
    fputc('\n', file);
}

static void print_times(FILE *file, const struct load_tally *tally)
{
    static const char *const names[LOAD_TIMES] = {[LOAD_TIME_CONNECT] = "connect",
                                                  [LOAD_TIME_FIRST_BYTE] = "first byte",
                                                  [LOAD_TIME_SERVICE] = "service",
                                                  [LOAD_TIME_RESPONSE] = "response",
                                                  [LOAD_TIME_LAG] = "lag"};
    const struct gs_histogram *response = &tally->times[LOAD_TIME_RESPONSE];
    if (response->count || tally->times[LOAD_TIME_CONNECT].count)
        print_heads(file);
    for (int i = 0; i < LOAD_TIMES; i++)
        print_histogram(file, names[i], &tally->times[i]);
    if (response->saturated)
        fprintf(file, "%" PRIu64 " answers took longer than an hour\n", response->saturated);
}

int gs_load_report_text(const struct load_settings *settings, const struct load_result *result,
                        FILE *file)
{
    const struct load_tally *tally = &result->tally;
    fprintf(file, "%-17s%12" PRIu64 "\n", "requests", tally->requests);
    print_errors(file, tally);
    fprintf(file, "%-17s%12" PRIu64 " opened", "connections", tally->connections);
    if (tally->resent)
        fprintf(file, "  (%" PRIu64 " requests sent again, as the server had closed)",
                tally->resent);
    fputc('\n', file);
    print_rates(file, settings, result);
    if (tally->dropped)
        fprintf(file, "%-17s%12" PRIu64 " first and last\n", "answers dropped", tally->dropped);
    if (settings->rate)
        fprintf(file, "%-17s%12" PRIu64 " requests, due when all connections were busy\n", "queued",
                tally->queued);
    print_waiting(file, "to connect", &tally->to_connect, &tally->times[LOAD_TIME_CONNECT]);
    print_waiting(file, "for an answer", &tally->for_answer,
                  gs_load_report_service(settings, tally));
    print_times(file, tally);
    if (result->is_void)
        fprintf(file, "\nVOID: %s\n", result->void_reason);
    return ferror(file) ? -EIO : 0;
}
