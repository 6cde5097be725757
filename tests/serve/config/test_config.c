#include "serve/config/config.h"

#include "serve/config/settings.h"

#include "tests/test.h"

#include <gossamer/clock.h>

static bool flag;
static uint64_t workers = 2, time_ns, size;
static const char *user, *level;
static struct cli_list listen_at;

static const struct cli_option options[] = {
    {"listen", 'l', "WHERE", "where", CLI_LIST, &listen_at, .example = "[8080]"},
    {"workers", 'w', "N", "how many", CLI_NUMBER, &workers, 1, 64},
    {"idle-timeout", 0, "TIME", "how long", CLI_DURATION, &time_ns, 1},
    {"page-cache", 0, "SIZE", "how much", CLI_SIZE, &size},
    {"user", 'u', "NAME", "who", CLI_TEXT, &user, .example = "www-data"},
    {"log-level", 0, "error|warn|info", "what", CLI_TEXT, &level},
    {"dotfiles", 0, NULL, "whether", CLI_FLAG, &flag},
    {"config", 0, "FILE", "this is no setting", CLI_TEXT, &user},
};
static const struct cli_command command = {
    .name = "serve", .options = options, .count = sizeof options / sizeof *options};

static struct serve_config config;
static char problems[16384];

static int parse(const char *text)
{
    FILE *out = fmemopen(problems, sizeof problems, "w");
    CHECK(out);
    problems[0] = '\0';
    struct serve_report report = {.file = "f", .out = out};
    int err = serve_config_parse(&config, &command, text, strlen(text), &report);
    fclose(out);
    return err;
}

static void reset(void)
{
    flag = false;
    workers = 2;
    time_ns = GS_SECOND;
    size = 0;
    user = level = NULL;
    cli_list_done(&listen_at);
}

static void clean_up(void)
{
    serve_config_done(&config);
    cli_list_done(&listen_at);
}

#define CONFIG_TEST(name_) FIXTURE_TEST(name_, reset(), clean_up())

/* Checks that the file is refused, with these lines. */
#define CHECK_REFUSED(text_, problems_)                                                            \
    do {                                                                                           \
        CHECK_EQ(parse(text_), -EINVAL);                                                           \
        CHECK_STR(problems, problems_);                                                            \
        serve_config_done(&config);                                                                \
    } while (0)

/* With what every file needs. */
#define HOSTS "hosts:\n- root: /srv\n"

CONFIG_TEST(options_get_the_values_of_the_file)
{
    CHECK_EQ(parse("listen: [80, \"*:81\"]\nworkers: 4\nidle_timeout: 1m30s\npage_cache: 64k\n"
                   "user: nobody\nlog_level: info\ndotfiles: true\n" HOSTS),
             0);
    CHECK_STR(problems, "");
    CHECK_EQ(serve_config_apply(&config, &command), 0);
    CHECK_EQ(listen_at.count, 2);
    CHECK_STR(listen_at.items[1], "*:81");
    CHECK_EQ(workers, 4);
    CHECK_EQ(time_ns, 90 * GS_SECOND);
    CHECK_EQ(size, 64 << 10);
    CHECK_STR(user, "nobody");
    CHECK_STR(level, "info");
    CHECK(flag);
    CHECK_EQ(serve_config_line(&config, "idle-timeout"), 3);
    CHECK_EQ(serve_config_line(&config, "rate"), 0);
}

CONFIG_TEST(a_single_text_is_a_list_of_one)
{
    CHECK_EQ(parse("listen: 8080\n" HOSTS), 0);
    CHECK_EQ(serve_config_apply(&config, &command), 0);
    CHECK_EQ(listen_at.count, 1);
    CHECK_STR(listen_at.items[0], "8080");
}

CONFIG_TEST(hosts_are_stored)
{
    CHECK_EQ(parse("hosts:\n- root: /srv/www\n  certificate: c.pem\n  key: k.pem\n"), 0);
    CHECK_EQ(config.hosts.count, 1);
    const struct serve_config_host *host = config.hosts.items;
    CHECK_EQ(host->line, 2);
    CHECK_STR(host->root, "/srv/www");
    CHECK_STR(host->certificate, "c.pem");
    CHECK_STR(host->key, "k.pem");
    CHECK(!host->ocsp);
}

CONFIG_TEST(names_of_hosts_are_checked_and_differ)
{
    CHECK_EQ(parse("hosts:\n- {names: [a.example, \"*.b.example\"], root: /a}\n"
                   "- {names: c.example, root: /c}\n- {root: /d}\n"),
             0);
    CHECK_EQ(config.hosts.count, 3);
    const struct serve_config_host *hosts = config.hosts.items;
    CHECK_EQ(hosts[0].names.count, 2);
    CHECK_STR(((const char **)hosts[0].names.items)[1], "*.b.example");
    CHECK_EQ(hosts[2].names.count, 0);
    serve_config_done(&config);
    CHECK_REFUSED("hosts:\n- {names: [a, B.c], root: /a}\n- {names: [b.C], root: /c}\n",
                  "f:3: names: \"b.C\" is also a name of the host in line 2: leave one out\n");
    CHECK_REFUSED("hosts:\n- root: /a\n- root: /b\n",
                  "f:3: two hosts have no names, the other is in line 2: give one names\n");
    CHECK_REFUSED(
        "hosts: [{root: /, names: [\"http://a/\", \"a:80\", \"a*.b\", a..b, \"\"]}]\n",
        "f:1: names \"http://a/\": it is a URL: write the name of the host alone, such as "
        "example.org\n"
        "f:1: names \"a:80\": it has a port: leave it out, since `listen` says the "
        "ports\n"
        "f:1: names \"a*.b\": a * may only stand for the first part of a name, such as "
        "*.example.org\n"
        "f:1: names \"a..b\": it is no host name: write one such as example.org, in ASCII "
        "(xn--... for others)\n"
        "f:1: names \"\": it is no host name: write one such as example.org, in ASCII "
        "(xn--... for others)\n");
}

CONFIG_TEST(headers_are_stored_by_pattern)
{
    CHECK_EQ(parse("hosts:\n- root: /a\n  headers:\n  - path: /assets/**\n    set:\n"
                   "      Cache-Control: max-age=1, immutable\n      X-Empty: \"\"\n"
                   "  - {path: \"*.html\", set: {X: 1}}\n"),
             0);
    const struct serve_config_host *host = config.hosts.items;
    CHECK_EQ(host->headers.count, 2);
    const struct serve_config_headers *headers = host->headers.items;
    CHECK_EQ(headers[0].line, 4);
    CHECK_STR(headers[0].path, "/assets/**");
    CHECK_EQ(headers[0].set.count, 2);
    const struct serve_config_entry *entries = headers[0].set.items;
    CHECK_STR(entries[0].name, "Cache-Control");
    CHECK_STR(entries[0].value, "max-age=1, immutable");
    CHECK_EQ(entries[1].line, 7);
    CHECK_STR(headers[1].path, "*.html");
}

CONFIG_TEST(wrong_headers_are_reported)
{
    CHECK_REFUSED("hosts:\n- root: /a\n  headers: {path: a}\n",
                  "f:3: headers: it is no list: begin each item with \"- \", or write [a, b]\n");
    CHECK_REFUSED(
        "hosts:\n- root: /a\n  headers:\n  - path: a?b\n    set: {\"a b\": c, Date: x,\n"
        "      X: \"a\\nb\", x: y}\n",
        "f:4: path \"a?b\" has a question mark: queries are not matched, and the wildcards "
        "are * and **\n"
        "f:5: set \"a b\" is no name of a field: write letters, digits and -\n"
        "f:5: set \"Date\" is a field that only the server can know the value of\n"
        "f:6: set \"a?b\" has a control character\n"
        "f:6: set: \"x\" is given twice, first in line 6: leave one out\n");
    CHECK_REFUSED("hosts: [{root: /a, headers: [{set: [a]}]}]\n",
                  "f:1: set: it is no map: write settings as NAME: VALUE, one a line and indented\n"
                  "f:1: path is missing: add path: \"/assets/**\"\n");
}

CONFIG_TEST(pages_are_stored)
{
    CHECK_EQ(parse("hosts: [{root: /, fallback: /i.html, error_pages: {404: /e/404.html}}]\n"), 0);
    const struct serve_config_host *host = config.hosts.items;
    CHECK_STR(host->fallback, "/i.html");
    CHECK_EQ(host->error_pages.count, 1);
    const struct serve_config_entry *pages = host->error_pages.items;
    CHECK_STR(pages->name, "404");
    CHECK_STR(pages->value, "/e/404.html");
    serve_config_done(&config);
    CHECK_REFUSED(
        "hosts:\n- root: /\n  fallback: i.html\n  error_pages: {402: /x, 4|4: /x, 404: y}\n",
        "f:3: fallback \"i.html\" is no path below the root: begin it with /\n"
        "f:4: error_pages \"402\" is no status that has a page: write 403, 404, 405, 500, "
        "501 or 503\n"
        "f:4: error_pages \"4|4\" is no status that has a page: write 403, 404, 405, 500, "
        "501 or 503\n"
        "f:4: error_pages \"y\" is no path below the root: begin it with /\n");
}

CONFIG_TEST(redirects_are_stored_and_checked)
{
    CHECK_EQ(parse("hosts: [{root: /, clean_urls: true, redirects: [{from: /a/**, to: /b/$1}, "
                   "{from: /c, to: \"http://d/\", status: 302}]}]\n"),
             0);
    const struct serve_config_host *host = config.hosts.items;
    CHECK(host->clean_urls);
    CHECK_EQ(host->redirects.count, 2);
    const struct serve_config_redirect *redirects = host->redirects.items;
    CHECK_STR(redirects[0].from, "/a/**");
    CHECK_STR(redirects[0].to, "/b/$1");
    CHECK_EQ(redirects[0].status, 301);
    CHECK_EQ(redirects[1].status, 302);
    serve_config_done(&config);
    CHECK_EQ(parse("hosts:\n- root: /\n  redirects:\n  - {from: /a, to: b}\n"
                   "  - {from: /a, to: /$1}\n  - {from: /a, to: /b, status: 303}\n"),
             -EINVAL);
    CHECK(strstr(problems, "f:4: redirects: an item "));
    CHECK(strstr(problems, "f:5: redirects: an item "));
    CHECK(
        strstr(problems, "f:6: status \"303\": it is none of 301|302|307|308: write one of these"));
}

CONFIG_TEST(wrong_values_are_reported_with_line_and_remedy)
{
    CHECK_REFUSED("workers: many\n" HOSTS, "f:1: workers: \"many\" is not a number\n");
    CHECK_REFUSED("workers: 65\n" HOSTS, "f:1: workers: \"65\" is out of range: 1 to 64\n");
    CHECK_REFUSED("idle_timeout: 3x\n" HOSTS,
                  "f:1: idle_timeout: \"3x\" is not a duration (such as "
                  "10, 2.5, 300ms, 1m)\n");
    CHECK_REFUSED("dotfiles: yes\n" HOSTS,
                  "f:1: dotfiles \"yes\": write true or false, without quotes\n");
    CHECK_REFUSED("log_level: loud\n" HOSTS, "f:1: log_level \"loud\": it is none of "
                                             "error|warn|info: write one of these\n");
    CHECK_REFUSED("user:\n" HOSTS,
                  "f:1: user: it has no value: write one, or leave the setting out\n");
    CHECK_REFUSED("user: [a]\n" HOSTS, "f:1: user: it is a list: write a single value\n");
    CHECK_REFUSED("listen: {a: b}\n" HOSTS, "f:1: listen: it is no list: begin each item with "
                                            "\"- \", or write [a, b]\n");
}

CONFIG_TEST(unknown_names_are_reported_with_the_nearest_one)
{
    CHECK_REFUSED("worker: 4\n" HOSTS,
                  "f:1: there is no setting \"worker\" here: did you mean workers?\n");
    CHECK_REFUSED("config: x\n" HOSTS, "f:1: there is no setting \"config\" here: see `gossamer "
                                       "serve --print-config`\n");
    CHECK_REFUSED("hosts:\n- root: /srv\n  rot: /srv\n",
                  "f:3: there is no setting \"rot\" here: did you mean root?\n");
    CHECK_REFUSED("a: &a {root: /srv}\nhosts: [{<<: *a}]\n",
                  "f:1: there is no setting \"a\" here: see `gossamer serve --print-config`\n"
                  "f:2: <<: maps are not merged: give each setting an alias of its own\n"
                  "f:2: root is missing: add root: /srv/www\n");
}

CONFIG_TEST(settings_that_are_given_twice_or_not_at_all_are_reported)
{
    CHECK_REFUSED("workers: 1\nworkers: 2\n" HOSTS,
                  "f:2: workers is given twice, first in line 1: leave one out\n");
    CHECK_REFUSED("workers: 1\n", "f:1: hosts is missing: add hosts: [{root: /srv/www}]\n");
    CHECK_REFUSED("hosts:\n- certificate: c\n", "f:2: root is missing: add root: /srv/www\n");
    CHECK_REFUSED("hosts: []\n", "f:1: hosts is empty: write - root: /srv/www below it\n");
    CHECK_REFUSED("hosts:\n- /srv\n", "f:2: hosts \"/srv\": it is no map: write settings as NAME: "
                                      "VALUE, one a line and indented\n");
    CHECK_REFUSED("", "f: the file is empty: write hosts:, and - root: /srv/www below\n");
    CHECK_REFUSED("- a\n", "f:1: the file: it is no map: write settings as NAME: VALUE, one a line "
                           "and indented\n");
}

CONFIG_TEST(twenty_problems_are_shown_and_others_counted)
{
    char text[1024] = "";
    for (int i = 0; i < 25; i++)
        sprintf(text + strlen(text), "zzzzzz%d: 1\n", i);
    strcat(text, HOSTS);
    CHECK_EQ(parse(text), -EINVAL);
    CHECK(strstr(problems, "f:20: there is"));
    CHECK(!strstr(problems, "f:21:"));
    CHECK(strstr(problems, "f: 5 more problems are not shown\n"));
}

static char *print(void)
{
    static char text[8192];
    FILE *out = fmemopen(text, sizeof text, "w");
    CHECK(out);
    serve_config_print(&config, &command, out);
    fclose(out);
    return text;
}

CONFIG_TEST(what_is_printed_reads_back_to_the_same)
{
    char first[8192];
    CHECK_EQ(parse("listen: [\"a\\\"b\\\\\"]\nworkers: 7\ndotfiles: true\nidle_timeout: 90\n"
                   "hosts: [{root: \"/x\\ty\", key: k, certificate: c}]\n"),
             0);
    CHECK_EQ(serve_config_apply(&config, &command), 0);
    strcpy(first, print());
    CHECK(strstr(first, "listen: [\"a\\\"b\\\\\"]\nworkers: 7\nidle_timeout: 90s\n"));
    CHECK(strstr(first, "# user: www-data\n"));
    CHECK(strstr(first, "  - root: \"/x\\x09y\"\n"));
    serve_config_done(&config);
    reset();
    CHECK_EQ(parse(first), 0);
    CHECK_EQ(serve_config_apply(&config, &command), 0);
    CHECK_STR(print(), first);
}

CONFIG_TEST(files_and_directories_of_hosts_are_looked_for)
{
    char name[] = "/tmp/test_config.XXXXXX", text[200];
    FILE *out = fmemopen(problems, sizeof problems, "w");
    struct serve_report report = {.file = name, .out = out};
    int fd = mkstemp(name);
    CHECK(out && fd >= 0);
    int n = snprintf(text, sizeof text, "hosts:\n- root: %s\n  key: /tmp\n  certificate: /none\n",
                     name);
    CHECK_EQ(write(fd, text, (size_t)n), n);
    close(fd);
    CHECK_EQ(serve_config_read(&config, &command, &report), -EINVAL);
    unlink(name);
    fclose(out);
    CHECK(strstr(problems, ":2: root \"/tmp/test_config."));
    CHECK(strstr(problems, "\": it is no directory: name the one of the site\n"));
    CHECK(strstr(problems, ":3: key \"/tmp\": it is a directory: name a file\n"));
    CHECK(strstr(problems, ":4: certificate \"/none\": there is no such file: make it, or correct "
                           "the name\n"));
}

CONFIG_TEST(a_file_that_can_not_be_read_is_reported)
{
    FILE *out = fmemopen(problems, sizeof problems, "w");
    struct serve_report report = {.file = "/nonexistent/x.yaml", .out = out};
    CHECK_EQ(serve_config_read(&config, &command, &report), -ENOENT);
    fclose(out);
    CHECK_STR(problems, "/nonexistent/x.yaml: the file can't be read: No such file or directory\n");
}

static void check_examples(const struct serve_setting *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK(rows[i].help && *rows[i].help);
        if (!rows[i].option)
            CHECK(rows[i].example);
        if (rows[i].shape == SERVE_SETTING_MAP)
            CHECK(rows[i].check_key);
        if (rows[i].inner)
            check_examples(rows[i].inner->rows, rows[i].inner->count);
    }
}

TEST(every_setting_of_a_host_has_help_and_an_example)
{
    check_examples(serve_host_settings.rows, serve_host_settings.count);
}
