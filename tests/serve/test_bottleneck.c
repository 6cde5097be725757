#include "serve/operations/bottleneck.h"

#include "tests/test.h"

#include <gossamer/sys.h>

static struct serve_bottleneck bottleneck;

TEST(a_path_and_milliseconds_are_understood)
{
    CHECK_EQ(serve_bottleneck_parse("/slow/page=41", &bottleneck), 0);
    CHECK_STR(bottleneck.path, "slow/page");
    CHECK_EQ(bottleneck.cpu_ns, 41 * GS_MILLISECOND);
    CHECK_EQ(serve_bottleneck_parse("/a=b=1", &bottleneck), 0);
    CHECK_STR(bottleneck.path, "a=b");
}

TEST(what_is_no_path_or_no_time_is_refused)
{
    static const char *const arguments[] = {
        "",         "=",        "/=1",    "/slow",    "/slow=",      "/slow=0",
        "/slow=1x", "/slow=-1", "slow=1", "/slow= 1", "/slow=60001", "/slow=99999999999999999999",
        "=41",
    };
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        if (serve_bottleneck_parse(arguments[i], &bottleneck) != -EINVAL)
            TEST_FAIL("\"%s\" is taken", arguments[i]);
    char longer[300] = "/";
    memset(longer + 1, 'a', 260);
    memcpy(longer + 261, "=1", 3);
    CHECK_EQ(serve_bottleneck_parse(longer, &bottleneck), -EINVAL);
}

TEST(generating_it_takes_the_requested_cpu_time)
{
    char page[8192];
    struct timespec before, after;
    CHECK_EQ(serve_bottleneck_parse("/slow=7", &bottleneck), 0);
    CHECK_EQ(serve_bottleneck_open(&bottleneck), 0);
    struct gs_http_generator generator = serve_bottleneck_generator(&bottleneck);
    CHECK_EQ(generator.max_size, sizeof page);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    CHECK_EQ(generator.generate(page, sizeof page, generator.data), 8192);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >= 7000000);
    CHECK(!strncmp(page, "<!doctype html>", 15));
    CHECK(!memchr(page, '\0', sizeof page));
    gs_sys_close(bottleneck.fd);
}
