#include "load/load.h"
#include "load/report.h"
#include "load/request_log.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <string.h>

enum { OK, ERRORS, INVALID_OPTIONS, INVALID_RUN };

typedef int report_fn(const struct load_settings *settings, const struct load_result *result,
                      FILE *file);

static int report_percentiles(const struct load_settings *settings,
                              const struct load_result *result, FILE *file)
{
    (void)settings;
    return gs_histogram_print(&result->metrics.times[LOAD_TIME_RESPONSE], file, 5,
                              (double)GS_MICROSECOND);
}

static int report_log(const struct load_settings *settings, const struct load_result *result,
                      FILE *file)
{
    (void)settings;
    return gs_load_report_log(result, file);
}

/* path: NULL for no report, "-" for stdout. Returns 0 or, after printing a line to stderr, -errno.
 */
static int write_report(const char *path, report_fn *report, const struct load_settings *settings,
                        const struct load_result *result)
{
    if (!path)
        return 0;
    bool is_stdout = !strcmp(path, "-");
    FILE *file = is_stdout ? stdout : fopen(path, "we");
    int err = file ? report(settings, result, file) : -errno;
    if (file && (is_stdout ? fflush(file) : fclose(file)) && !err)
        err = -errno;
    if (err)
        fprintf(stderr, "%s: cannot write %s: %s\n", gs_load_command.name,
                is_stdout ? "the report" : path, strerror(-err));
    return err;
}

static int write_reports(const struct load_settings *settings, const struct load_result *result)
{
    bool is_json_only = settings->json && !strcmp(settings->json, "-");
    int err = write_report(is_json_only ? NULL : "-", gs_load_report_text, settings, result);
    if (!err)
        err = write_report(settings->json, gs_load_report_json, settings, result);
    if (!err)
        err = write_report(settings->hdr, report_percentiles, settings, result);
    if (!err)
        err = write_report(settings->hdr_log, report_log, settings, result);
    return err;
}

static void explain_log(const struct load_settings *settings, int err)
{
    fprintf(stderr, "%s: cannot write %s: %s\n", gs_load_command.name, settings->log,
            strerror(-err));
}

static void explain_giving_up(const struct load_result *result)
{
    int err = result->metrics.connect_error;
    const char *reason = err ? strerror(-err) : result->metrics.tls_reason;
    fprintf(stderr, "%s: gave up: no response has arrived%s%s (--give-up 0 keeps trying)\n",
            gs_load_command.name, reason[0] ? ": " : "", reason);
}

static int exit_status(const struct load_result *result)
{
    if (result->is_invalid)
        return INVALID_RUN;
    bool has_failed = result->has_given_up || gs_load_metrics_error_count(&result->metrics);
    return has_failed || !result->metrics.requests ? ERRORS : OK;
}

static int load(struct load_settings *settings)
{
    struct load_target target;
    struct load_result result;
    int err = gs_load_settings_choose_processes(settings);
    if (!err)
        err = gs_load_target_init(&target, settings);
    if (err)
        return err == -EINVAL ? INVALID_OPTIONS : ERRORS;
    int status = ERRORS;
    err = gs_load_request_log_open(settings);
    if (err) {
        explain_log(settings, err);
        goto target_done;
    }
    int run_err = gs_load_run(settings, &target, &result);
    err = gs_load_request_log_close(settings);
    if (err)
        explain_log(settings, err);
    if (run_err)
        goto target_done;
    if (!write_reports(settings, &result) && !err)
        status = exit_status(&result);
    if (result.has_given_up)
        explain_giving_up(&result);
    else if (!result.metrics.requests && !gs_load_metrics_error_count(&result.metrics))
        fprintf(stderr, "%s: no response has arrived in the measured time\n", gs_load_command.name);
    gs_load_result_done(&result);

target_done:
    gs_load_target_done(&target);
    return status;
}

int gs_load_main(int argc, char **argv)
{
    struct load_settings settings;
    int err = gs_load_settings_read(argc, argv, &settings);
    if (err)
        return err == CLI_DONE ? OK : INVALID_OPTIONS;
    int status = load(&settings);
    gs_load_settings_done(&settings);
    return status;
}
