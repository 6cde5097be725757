#include "serve/operations/options.h"

#include "serve/arch/arch.h"

#include "tests/test.h"

#include <gossamer/stage.h>

#define ARGUMENTS_MAX 16

static struct serve_options options;
static char output[4096];

/* Parse "serve" and these arguments, which end with NULL; `output` receives what is printed. */
static int parse(const char *const *arguments)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char *)"serve"};
    int argc = 1;
    for (; arguments[argc - 1]; argc++)
        argv[argc] = (char *)arguments[argc - 1];
    FILE *file = tmpfile();
    CHECK(file);
    fflush(NULL);
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    int result = serve_options_parse(argc, argv, &options);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    ssize_t n = pread(fileno(file), output, sizeof output - 1, 0);
    fclose(file);
    CHECK(n >= 0);
    output[n] = '\0';
    return result;
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

/* Checks that the arguments are refused, with one line that contains the reason. */
#define CHECK_REFUSED(reason_, ...)                                                                \
    do {                                                                                           \
        CHECK_EQ(PARSE(__VA_ARGS__), -EINVAL);                                                     \
        CHECK(strncmp(output, "gossamer serve: ", 16) == 0);                                       \
        CHECK(strchr(output, '\n') == output + strlen(output) - 1);                                \
        if (!strstr(output, reason_))                                                              \
            TEST_FAIL("not said: %s, but: %s", reason_, output);                                   \
    } while (0)

TEST(a_root_suffices)
{
    CHECK_EQ(PARSE("/srv"), 0);
    CHECK_STR(output, "");
    CHECK_STR(options.root, "/srv");
    CHECK(options.arch == serve_archs[0]);
    CHECK_EQ(options.listen.count, 1);
    CHECK_STR(options.listen.items[0], "127.0.0.1:8080");
    CHECK(options.workers >= 1);
    CHECK(options.max_connections >= 1 && options.max_connections <= 10000);
    CHECK(!options.access_log);
    CHECK(!options.user);
    CHECK(options.defer_accept);
    CHECK_EQ(options.drain_timeout_ns, 30 * GS_SECOND);
    serve_options_done(&options);
}

TEST(limits_have_their_usual_values)
{
    CHECK_EQ(PARSE("/srv"), 0);
    CHECK_EQ(options.http.max_request_line, 8192);
    CHECK_EQ(options.http.max_header, 32768);
    CHECK_EQ(options.http.max_fields, 100);
    CHECK_EQ(options.http.max_body, 1 << 20);
    CHECK_EQ(options.http.header_timeout_ns, 10 * GS_SECOND);
    CHECK_EQ(options.http.idle_timeout_ns, 60 * GS_SECOND);
    CHECK_EQ(options.http.min_rate, 1024);
    CHECK_EQ(options.http.rate_window_ns, 10 * GS_SECOND);
    CHECK(!options.http.dotfiles);
    CHECK(!options.http.follow_symlinks);
    serve_options_done(&options);
}

TEST(each_option_reaches_its_place)
{
    CHECK_EQ(PARSE("--workers=3", "--max-connections=77", "--backlog=9", "--drain-timeout=5ms",
                   "--no-defer-accept", "--access-log=-", "--user=nobody", "/srv"),
             0);
    CHECK_EQ(options.workers, 3);
    CHECK_EQ(options.max_connections, 77);
    CHECK_EQ(options.backlog, 9);
    CHECK_EQ(options.drain_timeout_ns, 5 * GS_MILLISECOND);
    CHECK(!options.defer_accept);
    CHECK_STR(options.access_log, "-");
    CHECK_STR(options.user, "nobody");
    serve_options_done(&options);
}

TEST(each_limit_reaches_its_place)
{
    CHECK_EQ(PARSE("--request-line=1k", "--header-size=2k", "--header-fields=3", "--body-size=4k",
                   "--header-timeout=5", "--idle-timeout=6", "--rate=7k", "--rate-grace=8",
                   "--page-cache=9m", "--cached-file=10k", "--requests-per-connection=11", "/"),
             0);
    CHECK_EQ(options.http.max_request_line, 1024);
    CHECK_EQ(options.http.max_header, 2048);
    CHECK_EQ(options.http.max_fields, 3);
    CHECK_EQ(options.http.max_body, 4096);
    CHECK_EQ(options.http.header_timeout_ns, 5 * GS_SECOND);
    CHECK_EQ(options.http.idle_timeout_ns, 6 * GS_SECOND);
    CHECK_EQ(options.http.min_rate, 7168);
    CHECK_EQ(options.http.rate_window_ns, 8 * GS_SECOND);
    CHECK_EQ(options.http.max_cache, 9 << 20);
    CHECK_EQ(options.http.max_cached_file, 10 << 10);
    CHECK_EQ(options.http.max_requests, 11);
    serve_options_done(&options);
}

TEST(flags_for_files_reach_their_place)
{
    CHECK_EQ(PARSE("--dotfiles", "--follow-symlinks", "/"), 0);
    CHECK(options.http.dotfiles);
    CHECK(options.http.follow_symlinks);
    serve_options_done(&options);
}

TEST(certificates_have_keys_in_the_same_order)
{
    CHECK_EQ(PARSE("--listen=https://1", "--certificate=a", "--key=b", "--certificate=c", "--key=d",
                   "--passphrase-file=e", "--hsts=1h", "--access-log=f", "--log-tls", "/"),
             0);
    CHECK_EQ(options.certificates.count, 2);
    CHECK_STR(options.certificates.items[1], "c");
    CHECK_STR(options.keys.items[1], "d");
    CHECK_STR(options.passphrase_file, "e");
    CHECK_EQ(options.hsts_ns, 3600 * GS_SECOND);
    CHECK(options.log_format.has_tls && !options.redirects);
    serve_options_done(&options);
    CHECK_REFUSED("needs --certificate", "--listen=https://1", "/");
    CHECK_REFUSED("no --listen begins", "--certificate=a", "/");
    CHECK_REFUSED("no --listen begins", "--redirect-https", "/");
    CHECK_REFUSED("--log-tls needs", "--listen=https://1", "--certificate=a", "--log-tls", "/");
    CHECK_REFUSED("--log-tls needs", "--access-log=a", "--log-tls", "/");
    CHECK_REFUSED("--key", "--listen=https://1", "--certificate=a", "--key=b", "--key=c", "/");
    CHECK_REFUSED("--redirect-https", "--listen=https://1", "--listen=2", "--certificate=a",
                  "--hsts=1", "/");
}

TEST(the_access_log_may_be_json)
{
    CHECK_EQ(PARSE("--access-log=f", "--log-format=json", "--log-fields=status,target", "/"), 0);
    CHECK_EQ(options.log_format.member_count, 2);
    serve_options_done(&options);
    CHECK_EQ(PARSE("--access-log=f", "/"), 0);
    CHECK_EQ(options.log_format.member_count, 0);
    serve_options_done(&options);
    CHECK_REFUSED("--log-format needs --access-log", "--log-format=json", "/");
    CHECK_REFUSED("--log-fields needs --access-log", "--log-fields=status", "/");
    CHECK_REFUSED("neither combined nor json", "--access-log=f", "--log-format=xml", "/");
    CHECK_REFUSED("--log-fields status needs the format json", "--access-log=f",
                  "--log-fields=status", "/");
    CHECK_REFUSED("--log-fields x has a name", "--access-log=f", "--log-format=json",
                  "--log-fields=x", "/");
}

TEST(the_listener_of_metrics_needs_their_path)
{
    CHECK_EQ(PARSE("--metrics=/m", "--metrics-listen=1", "/"), 0);
    CHECK_STR(options.metrics_listen, "1");
    serve_options_done(&options);
    CHECK_REFUSED("--metrics-listen needs --metrics", "--metrics-listen=1", "/");
    CHECK_REFUSED("it has no TLS", "--metrics=/m", "--metrics-listen=https://1", "/");
}

TEST(proxies_are_networks)
{
    CHECK_EQ(PARSE("--proxy-protocol=10.0.0.0/8", "--proxy-protocol=unix", "--trusted-proxy=::1",
                   "--forwarded-field=forwarded", "/"),
             0);
    CHECK_EQ(options.proxies.count, 2);
    CHECK_EQ(options.forwarded.trusted.count, 1);
    CHECK(options.forwarded.is_standard);
    serve_options_done(&options);
    CHECK_REFUSED("--proxy-protocol 10.0.0.0/33: it is", "--proxy-protocol=10.0.0.0/33", "/");
    CHECK_REFUSED("--trusted-proxy a: it is", "--trusted-proxy=a", "/");
    CHECK_REFUSED("--forwarded-field x", "--trusted-proxy=::1", "--forwarded-field=x", "/");
    CHECK_REFUSED("needs --trusted-proxy", "--forwarded-field=forwarded", "/");
}

TEST(addresses_add_up_and_replace_the_usual_one)
{
    CHECK_EQ(PARSE("-l", "a:1", "/srv", "--listen", "b:2", "--listen=c:3"), 0);
    CHECK_EQ(options.listen.count, 3);
    CHECK_STR(options.listen.items[0], "a:1");
    CHECK_STR(options.listen.items[2], "c:3");
    CHECK_STR(options.root, "/srv");
    serve_options_done(&options);
}

TEST(nothing_is_left_of_an_earlier_command_line)
{
    CHECK_EQ(PARSE("-l", "a:1", "--dotfiles", "--no-defer-accept", "--access-log=x", "/a"), 0);
    serve_options_done(&options);
    CHECK_EQ(PARSE("/b"), 0);
    CHECK_EQ(options.listen.count, 1);
    CHECK(!options.http.dotfiles);
    CHECK(options.defer_accept);
    CHECK(!options.access_log);
    serve_options_done(&options);
}

TEST(connections_and_cached_files_share_the_descriptors)
{
    CHECK_EQ(PARSE("--workers=1", "--max-connections=1", "/"), 0);
    CHECK(options.http.max_cached_descriptors > 0);
    CHECK(options.http.max_cached_descriptors <= 256);
    uint64_t most = (uint64_t)sysconf(_SC_OPEN_MAX);
    serve_options_done(&options);
    char word[64];
    snprintf(word, sizeof word, "--max-connections=%llu", (unsigned long long)most);
    CHECK_REFUSED("open files", word, "/");
}

TEST(the_list_of_architectures_needs_no_root)
{
    CHECK_EQ(PARSE("--arch", "list"), CLI_DONE);
    CHECK(strstr(output, "event"));
    CHECK(strstr(output, "--workers: "));
}

TEST(errors_are_reported_in_one_line)
{
    CHECK_REFUSED("ROOT", "--workers=1");
    CHECK_REFUSED("other", "root", "other");
    CHECK_REFUSED("no such architecture", "--arch=nonesuch", "/");
    CHECK_REFUSED("frobnicate", "--frobnicate", "/");
    CHECK_REFUSED("workers", "--workers=0", "/");
    CHECK_REFUSED("header-timeout", "--header-timeout=0", "/");
    CHECK_REFUSED("rate-grace", "--rate-grace=1us", "/");
    CHECK_REFUSED("request-line", "--request-line=1", "/");
}

TEST(what_threads_are_favoured_can_be_chosen)
{
    CHECK_EQ(PARSE("/"), 0);
    CHECK_EQ(options.priority, SERVE_PRIORITY_NONE);
    CHECK_EQ(PARSE("--favor=connections", "/"), 0);
    CHECK_EQ(options.priority, SERVE_PRIORITY_CONNECTIONS);
    CHECK_EQ(PARSE("--arch=user", "--favor", "accept", "/"), 0);
    CHECK_EQ(options.priority, SERVE_PRIORITY_ACCEPT);
    CHECK_REFUSED("it is connections or accept", "--favor=nobody", "/");
    CHECK_REFUSED("event has no threads", "--favor=accept", "--arch=event", "/");
    CHECK_EQ(PARSE("/"), 0);
    CHECK_EQ(options.priority, SERVE_PRIORITY_NONE);
}

TEST(pages_that_are_made_can_be_chosen)
{
    CHECK_EQ(PARSE("/"), 0);
    CHECK(!options.metrics && !options.bottleneck.path[0]);
    CHECK_EQ(PARSE("--metrics=/metrics", "--bottleneck", "/slow=41", "/"), 0);
    CHECK_STR(options.metrics, "/metrics");
    CHECK_STR(options.bottleneck.path, "slow");
    CHECK_EQ(PARSE("/"), 0);
    CHECK(!options.metrics && !options.bottleneck.path[0]);
    CHECK_REFUSED("it is a path", "--metrics=metrics", "/");
    CHECK_REFUSED("it is a path", "--metrics=/", "/");
    CHECK_REFUSED("it is a path and milliseconds", "--bottleneck=/slow", "/");
}

TEST(controllers_are_for_stages)
{
    CHECK_EQ(PARSE("--arch=stage", "/"), 0);
    CHECK_EQ(options.controllers, GS_STAGE_THREADS);
    CHECK_EQ(options.admission_ns, 0);
    CHECK_EQ(PARSE("--arch=stage", "--controllers=batches,threads", "--admission=5s", "/"), 0);
    CHECK_EQ(options.controllers, GS_STAGE_THREADS | GS_STAGE_BATCHES);
    CHECK_EQ(options.admission_ns, 5 * GS_SECOND);
    CHECK_EQ(PARSE("--arch=stage", "--controllers=none", "/"), 0);
    CHECK_EQ(options.controllers, 0);
    CHECK_REFUSED("it is threads", "--arch=stage", "--controllers=all", "/");
    CHECK_REFUSED("only stage has it, not event", "--arch=event", "--controllers=none", "/");
    CHECK_REFUSED("only stage has it, not user", "--arch=user", "--admission=1s", "/");
}

TEST(architectures_have_their_own_usual_values)
{
    CHECK_EQ(PARSE("--arch=pool", "/"), 0);
    CHECK_EQ(options.workers, 150);
    CHECK_EQ(options.http.max_requests, 100);
    CHECK_EQ(PARSE("--arch=pool", "--workers=3", "--requests-per-connection=0", "/"), 0);
    CHECK_EQ(options.workers, 3);
    CHECK_EQ(options.http.max_requests, 0);
    CHECK_EQ(PARSE("--arch=prefork", "/"), 0);
    CHECK_EQ(options.workers, 150);
    CHECK_EQ(options.http.max_requests, 0);
    CHECK_EQ(PARSE("--arch=queue", "/"), 0);
    uint64_t usual = 25 * serve_processors();
    CHECK_EQ(options.workers, usual < 1024 ? usual : 1024);
    CHECK_EQ(PARSE("--arch=event", "/"), 0);
    CHECK_EQ(options.workers, serve_processors() < 1024 ? serve_processors() : 1024);
}

TEST(fewer_workers_than_an_architecture_needs_are_raised_with_a_notice)
{
    CHECK_EQ(PARSE("--arch=queue", "--workers=1", "/"), 0);
    CHECK(strstr(output, "--workers raised to 2, the minimum of queue"));
    CHECK_EQ(options.workers, 2);
}

TEST(nonblocking_is_for_the_workers_of_a_queue)
{
    CHECK_EQ(PARSE("--arch=queue", "/"), 0);
    CHECK(!options.nonblocking);
    CHECK_EQ(PARSE("--arch=queue", "--nonblocking", "/"), 0);
    CHECK(options.nonblocking);
    CHECK_REFUSED("only queue has it, not event", "--arch=event", "--nonblocking", "/");
    CHECK_EQ(PARSE("--arch=queue", "/"), 0);
    CHECK(!options.nonblocking);
}

TEST(an_architecture_is_found_by_its_whole_name)
{
    CHECK(serve_arch_find("event") == &serve_arch_event);
    CHECK(!serve_arch_find("even"));
    CHECK(!serve_arch_find("events"));
    CHECK(!serve_arch_find(""));
}
