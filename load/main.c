#include "load/limit.h"
#include "load/load.h"
#include "load/report.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <string.h>

enum { OK, ERRORS, WRONG_OPTIONS, VOID };

typedef int report_fn(const struct load_settings *settings, const struct load_result *result,
                      FILE *file);

static int report_percentiles(const struct load_settings *settings,
                              const struct load_result *result, FILE *file)
{
    (void)settings;
    return gs_histogram_print(&result->tally.times[LOAD_TIME_RESPONSE], file, 5,
                              (double)GS_MICROSECOND);
}

static int report_log(const struct load_settings *settings, const struct load_result *result,
                      FILE *file)
{
    (void)settings;
    return gs_load_report_log(result, file);
}

/* path: NULL for no report, "-" for stdout. Returns 0 or, after a line on stderr, -errno. */
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
        fprintf(stderr, "%s: can't write %s: %s\n", gs_load_command.name,
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

static int load(struct load_settings *settings)
{
    struct load_target target;
    struct load_result result;
    int err = gs_load_limit_check(settings);
    if (!err)
        err = gs_load_target_init(&target, settings);
    if (err)
        return err == -ENOMEM ? ERRORS : WRONG_OPTIONS;
    int status = ERRORS;
    if (gs_load_run(settings, &target, &result))
        goto target_done;
    if (!write_reports(settings, &result))
        status = result.is_void ? VOID : gs_load_tally_errors(&result.tally) ? ERRORS : OK;
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
        return err == CLI_DONE ? OK : WRONG_OPTIONS;
    int status = load(&settings);
    gs_load_settings_done(&settings);
    return status;
}
