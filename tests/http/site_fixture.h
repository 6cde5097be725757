/* A driven connection to one site. Include it once per test program. */
#ifndef GS_TESTS_HTTP_SITE_FIXTURE_H
#define GS_TESTS_HTTP_SITE_FIXTURE_H

#include "http/service.h"
#include "tests/http/drive_check.h"

/* Its root becomes the driver's. */
static inline void site_start(const struct gs_http_site *settings)
{
    static struct gs_http_site site;
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.sites = &site;
    options.site_count = 1;
    site = *settings;
    drive_start(&drive, &options);
    site.root_fd = drive.root_fd;
}

static inline void site_stop(void)
{
    CHECK_EQ(drive_stop(&drive), 0);
}

#endif
