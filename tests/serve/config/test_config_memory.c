/* Files are read while the n-th allocation fails, for every n. */
#include "serve/config/config.h"

#include "serve/nginx/nginx.h"

#include "tests/test.h"

static unsigned allocations, failing; /* 0: none fails */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool fails(void)
{
    return ++allocations == failing;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

static const char *user;
static const struct cli_option options[] = {
    {"user", 'u', "NAME", "who", CLI_TEXT, &user},
};
static const struct cli_command command = {.name = "serve", .options = options, .count = 1};
static char problems[4096];

/* Make a file that needs several blocks of memory. */
static void write_file(char name[], const char *head, const char *line, const char *end)
{
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    FILE *out = fdopen(fd, "w");
    CHECK(out);
    fputs(head, out);
    for (int i = 0; i < 3000; i++)
        fprintf(out, line, i);
    fputs(end, out);
    fclose(out);
}

TEST(a_file_is_read_or_the_lack_of_memory_is_reported)
{
    char name[] = "/tmp/test_config_memory.XXXXXX";
    int err = -1;
    write_file(name, "user: a\nhosts:\n- root: /\n  names:\n", "  - h%d.example\n", "");
    for (unsigned n = 1; err; n++) {
        struct serve_config config;
        FILE *out = fmemopen(problems, sizeof problems, "w");
        struct serve_report report = {.file = name, .out = out};
        allocations = 0;
        failing = n;
        err = serve_config_read(&config, &command, &report);
        failing = 0;
        fclose(out);
        CHECK(allocations < n || err == -ENOMEM);
        CHECK(!err || strstr(problems, "emory"));
        CHECK(err || config.hosts.count == 1);
        serve_config_done(&config);
        CHECK(n < 100);
    }
    unlink(name);
}

TEST(a_configuration_of_nginx_is_converted_or_the_lack_of_memory_is_reported)
{
    char name[] = "/tmp/test_config_memory.XXXXXX";
    int err = -1;
    write_file(name, "server { root /;", "location /a%d/ { expires 1d; }\n", "}");
    for (unsigned n = 1; err; n++) {
        FILE *out = tmpfile(), *said = fmemopen(problems, sizeof problems, "w");
        struct serve_report report = {.out = said};
        allocations = 0;
        failing = n;
        err = serve_nginx_convert(name, out, &report);
        failing = 0;
        long written = ftell(out);
        fclose(said);
        fclose(out);
        CHECK(allocations < n || err == -ENOMEM);
        CHECK(err ? written == 0 : written > 100000);
        CHECK(!err || strstr(problems, "emory"));
        CHECK(n < 100);
    }
    unlink(name);
}
