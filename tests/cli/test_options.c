#include "cli/options.h"
#include "tests/test.h"

#include <gossamer/clock.h>
#include <gossamer/version.h>

enum { ARGUMENTS_MAX = 16 };

static bool verbose;
static uint64_t workers, idle_ns, think_ns, body;
static const char *log_path;
static struct cli_list listen_on;

static const struct cli_option options[] = {
    {"workers", 'w', "N", "event loops", CLI_NUMBER, &workers, 1, 64, NULL},
    {"listen", 'l', "ADDR:PORT", "where to listen", CLI_LIST, &listen_on, 0, 0, NULL},
    {"log", '\0', "FILE", "where to write the log", CLI_TEXT, &log_path, 0, 0, NULL},
    {"idle", '\0', "TIME", "how long a connection may be idle", CLI_DURATION, &idle_ns,
     GS_MILLISECOND, 0, "Limits"},
    {"think", '\0', "MS", "time between requests", CLI_MILLISECONDS, &think_ns, 0, 0, NULL},
    {"body", '\0', "SIZE", "the longest body", CLI_SIZE, &body, 0, 1 << 20, NULL},
    {"verbose", 'v', NULL, "say more", CLI_FLAG, &verbose, 0, 0, "Output"},
};
static const struct cli_command command = {
    "try this", "ROOT", "Tries options.", options, sizeof options / sizeof *options, "That is all.",
};
static const struct cli_command bare = {"try bare", NULL, "Takes no operands.", options, 1, NULL};

static char *arguments[ARGUMENTS_MAX];
static int argument_count, first;
static char output[4096], error_output[1024];

static void reset(void)
{
    verbose = false;
    workers = 1;
    idle_ns = 60 * GS_SECOND;
    think_ns = 0;
    body = 8192;
    log_path = "-";
    cli_list_done(&listen_on);
    first = -1;
}

/* Read the whole file into `text`, and close it. */
static void read_file(FILE *from, char *text, size_t n)
{
    rewind(from);
    text[fread(text, 1, n - 1, from)] = '\0';
    fclose(from);
}

/* Call cli_parse with the arguments of the line, and capture its output. */
static int parse_with(const struct cli_command *which, const char *line)
{
    static char copy[512];
    FILE *out = tmpfile(), *err = tmpfile();
    int saved_out = dup(STDOUT_FILENO), saved_err = dup(STDERR_FILENO);

    snprintf(copy, sizeof copy, "%s", line);
    argument_count = 0;
    for (char *argument = strtok(copy, " "); argument; argument = strtok(NULL, " "))
        arguments[argument_count++] = argument;
    arguments[argument_count] = NULL;
    fflush(stdout);
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    int result = cli_parse(which, argument_count, arguments, &first);
    fflush(stdout);
    dup2(saved_out, STDOUT_FILENO);
    dup2(saved_err, STDERR_FILENO);
    close(saved_out);
    close(saved_err);
    read_file(out, output, sizeof output);
    read_file(err, error_output, sizeof error_output);
    return result;
}

static int parse(const char *line)
{
    reset();
    return parse_with(&command, line);
}

TEST(no_arguments_leave_every_default)
{
    CHECK_EQ(parse("x"), 0);
    CHECK_EQ(first, 1);
    CHECK_EQ(workers, 1);
    CHECK_STR(log_path, "-");
    CHECK_STR(error_output, "");
    CHECK_STR(output, "");
}

TEST(each_kind_of_option_reaches_its_target)
{
    CHECK_EQ(parse("x --workers 4 --idle 1.5 --think 20 --body=64k --log file -v root"), 0);
    CHECK_EQ(workers, 4);
    CHECK_EQ(idle_ns, 1500 * GS_MILLISECOND);
    CHECK_EQ(think_ns, 20 * GS_MILLISECOND);
    CHECK_EQ(body, 65536);
    CHECK_STR(log_path, "file");
    CHECK(verbose);
    CHECK_EQ(first, argument_count - 1);
    CHECK_STR(arguments[first], "root");
}

TEST(options_may_follow_operands_and_the_last_value_is_used)
{
    CHECK_EQ(parse("x root --workers 4 other -w8"), 0);
    CHECK_EQ(workers, 8);
    CHECK_STR(arguments[first], "root");
    CHECK_STR(arguments[first + 1], "other");
    CHECK_EQ(first, argument_count - 2);
}

TEST(two_dashes_end_the_options)
{
    CHECK_EQ(parse("x -v -- --workers"), 0);
    CHECK(verbose);
    CHECK_STR(arguments[first], "--workers");
}

TEST(a_list_has_every_value_in_order)
{
    CHECK_EQ(parse("x -l a:1 --listen b:2 --listen=c:3"), 0);
    CHECK_EQ(listen_on.count, 3);
    CHECK_STR(listen_on.items[0], "a:1");
    CHECK_STR(listen_on.items[1], "b:2");
    CHECK_STR(listen_on.items[2], "c:3");
    cli_list_done(&listen_on);
    CHECK_EQ(listen_on.count, 0);
}

TEST(minimum_and_maximum_are_allowed)
{
    CHECK_EQ(parse("x -w 64 --body 1m --idle 1ms"), 0);
    CHECK_EQ(parse("x -w 1"), 0);
}

TEST(each_error_prints_one_line_that_names_the_argument)
{
    static const struct {
        const char *line, *message;
    } rows[] = {
        {"x --bogus", "try this: unknown option: \"--bogus\" (try try this --help)\n"},
        {"x --bogus=4", "try this: unknown option: \"--bogus=4\" (try try this --help)\n"},
        {"x --wrokers 2", "try this: unknown option: \"--wrokers\" (did you mean --workers?)\n"},
        {"x --lsiten=4", "try this: unknown option: \"--lsiten=4\" (did you mean --listen?)\n"},
        {"x --hlep", "try this: unknown option: \"--hlep\" (did you mean --help?)\n"},
        {"x -vq", "try this: unknown option: \"-q\" (try try this --help)\n"},
        {"x --l", "try this: ambiguous option: \"--l\" (try try this --help)\n"},
        {"x --workers", "try this: option --workers requires an argument: N\n"},
        {"x -w", "try this: option --workers requires an argument: N\n"},
        {"x --verbose=1", "try this: option takes no argument: \"--verbose=1\"\n"},
        {"x --help=1", "try this: option takes no argument: \"--help=1\"\n"},
        {"x --workers two", "try this: --workers: \"two\" is not a number\n"},
        {"x --workers -2", "try this: --workers: \"-2\" is not a number\n"},
        {"x --workers=", "try this: --workers: \"\" is not a number\n"},
        {"x --workers 0", "try this: --workers: \"0\" is out of range: 1 to 64\n"},
        {"x --workers 65", "try this: --workers: \"65\" is out of range: 1 to 64\n"},
        {"x --body 2m", "try this: --body: \"2m\" is out of range: 0 to 1m\n"},
        {"x --idle soon",
         "try this: --idle: \"soon\" is not a duration (such as 10, 2.5, 300ms, 1m)\n"},
        {"x --think soon",
         "try this: --think: \"soon\" is not a duration (such as 300, 2.5, 10s, 1m)\n"},
        {"x --body big", "try this: --body: \"big\" is not a size (such as 8192, 64k, 1m)\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_EQ(parse(rows[i].line), -EINVAL);
        CHECK_STR(error_output, rows[i].message);
        CHECK_STR(output, "");
        CHECK_EQ(first, -1);
    }
}

TEST(a_value_without_maximum_is_refused_if_it_overflows)
{
    CHECK_EQ(parse("x --think 99999999999999999999"), -EINVAL);
    CHECK(strstr(error_output, "\"99999999999999999999\" is out of range: 0 to "));
    CHECK_EQ(think_ns, 0);
}

TEST(a_command_without_operands_refuses_them)
{
    reset();
    CHECK_EQ(parse_with(&bare, "x word"), -EINVAL);
    CHECK_STR(error_output, "try bare: unexpected argument: \"word\" (try try bare --help)\n");
    CHECK_EQ(parse_with(&bare, "x -w 3"), 0);
    CHECK_EQ(workers, 3);
}

TEST(help_shows_groups_and_the_defaults_despite_other_options)
{
    CHECK_EQ(parse("x --workers 4 --help"), CLI_DONE);
    CHECK_STR(error_output, "");
    CHECK_EQ(workers, 1);
    CHECK_STR(output, "Usage: try this [OPTION...] ROOT\n"
                      "\n"
                      "Tries options.\n"
                      "\n"
                      "Options:\n"
                      "  -w, --workers N         event loops (default 1)\n"
                      "  -l, --listen ADDR:PORT  where to listen\n"
                      "      --log FILE          where to write the log (default -)\n"
                      "\n"
                      "Limits:\n"
                      "      --idle TIME         how long a connection may be idle (default 1m)\n"
                      "      --think MS          time between requests\n"
                      "      --body SIZE         the longest body (default 8k)\n"
                      "\n"
                      "Output:\n"
                      "  -v, --verbose           say more\n"
                      "\n"
                      "Help:\n"
                      "  -h, --help              print this help and exit\n"
                      "  -V, --version           print the version and exit\n"
                      "\n"
                      "That is all.\n");
}

TEST(long_help_texts_are_wrapped_at_their_column)
{
    static const struct cli_option wordy[] = {
        {"wordy", '\0', NULL,
         "this text is so long that it does not fit on a line of a terminal and must go on in the "
         "one below",
         CLI_FLAG, &verbose, 0, 0, NULL},
    };
    static const struct cli_command talks = {"talks", NULL, "Talks.", wordy, 1, NULL};
    reset();
    CHECK_EQ(parse_with(&talks, "x -h"), CLI_DONE);
    CHECK(strstr(
        output,
        "      --wordy    this text is so long that it does not fit on a line of a terminal and "
        "must go\n                 on in the one below\n"));
}

TEST(a_help_text_that_states_the_default_is_not_changed)
{
    static const struct cli_option stated[] = {
        {"stated", 't', "N", "a number (default: one for each processor)", CLI_NUMBER, &workers, 0,
         0, NULL},
    };
    static const struct cli_command states = {"states", NULL, "States.", stated, 1, NULL};
    reset();
    CHECK_EQ(parse_with(&states, "x -h"), CLI_DONE);
    CHECK(strstr(output, "  -t, --stated N  a number (default: one for each processor)\n"));
}

TEST(version_is_one_line)
{
    CHECK_EQ(parse("x -V"), CLI_DONE);
    CHECK_STR(output, "gossamer " GOSSAMER_VERSION "\n");
}

TEST(an_error_before_help_is_reported_and_no_help_is_printed)
{
    CHECK_EQ(parse("x --bogus --help"), -EINVAL);
    CHECK_STR(output, "");
}
