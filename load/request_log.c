#include "load/request_log.h"

#include <gossamer/clock.h>

#include <errno.h>

int gs_load_request_log_open(struct load_settings *settings)
{
    settings->log_file = NULL;
    if (!settings->log)
        return 0;
    /* Truncated here, and appended to by several processes. */
    FILE *file = fopen(settings->log, "we");
    if (!file)
        return -errno;
    fputs("start_s,duration_s,status\n", file);
    if (fclose(file))
        return -errno;
    settings->log_file = fopen(settings->log, "ae");
    if (!settings->log_file)
        return -errno;
    setvbuf(settings->log_file, NULL, _IOLBF, BUFSIZ);
    return 0;
}

int gs_load_request_log_close(struct load_settings *settings)
{
    FILE *file = settings->log_file;
    settings->log_file = NULL;
    if (!file)
        return 0;
    bool has_failed = ferror(file);
    return fclose(file) || has_failed ? -EIO : 0;
}

void gs_load_request_log_write(FILE *log, int64_t start_ns, uint64_t duration_ns, unsigned status,
                               enum load_error error)
{
    if (!log)
        return;
    double start_s = (double)start_ns / (double)GS_SECOND;
    double duration_s = (double)duration_ns / (double)GS_SECOND;
    if (status)
        fprintf(log, "%.6f,%.6f,%u\n", start_s, duration_s, status);
    else
        fprintf(log, "%.6f,%.6f,%s\n", start_s, duration_s,
                error == LOAD_OK ? "waiting" : gs_load_error_names[error]);
}
