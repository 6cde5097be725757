#include "cli/options.h"
#include "tests/test.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <stdbool.h>
#include <unistd.h>

enum { MOST_WORDS = 16 };

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

static char *words[MOST_WORDS];
static int word_count, first;
static char printed[4096], complained[1024];

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

/* Everything written to the file since it was made. */
static void collect(FILE *from, char *text, size_t n)
{
    rewind(from);
    text[fread(text, 1, n - 1, from)] = '\0';
    fclose(from);
}

/* Call cli_parse with the words of the line, and keep what it prints. */
static int parse_with(const struct cli_command *which, const char *line)
{
    static char copy[512];
    FILE *out = tmpfile(), *err = tmpfile();
    int kept_out = dup(STDOUT_FILENO), kept_err = dup(STDERR_FILENO);

    snprintf(copy, sizeof copy, "%s", line);
    word_count = 0;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        words[word_count++] = word;
    words[word_count] = NULL;
    fflush(stdout);
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    int result = cli_parse(which, word_count, words, &first);
    fflush(stdout);
    dup2(kept_out, STDOUT_FILENO);
    dup2(kept_err, STDERR_FILENO);
    close(kept_out);
    close(kept_err);
    collect(out, printed, sizeof printed);
    collect(err, complained, sizeof complained);
    return result;
}

static int parse(const char *line)
{
    reset();
    return parse_with(&command, line);
}

TEST(no_words_leave_every_default)
{
    CHECK_EQ(parse("x"), 0);
    CHECK_EQ(first, 1);
    CHECK_EQ(workers, 1);
    CHECK_STR(log_path, "-");
    CHECK_STR(complained, "");
    CHECK_STR(printed, "");
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
    CHECK_EQ(first, word_count - 1);
    CHECK_STR(words[first], "root");
}

TEST(options_may_follow_operands_and_the_last_one_counts)
{
    CHECK_EQ(parse("x root --workers 4 other -w8"), 0);
    CHECK_EQ(workers, 8);
    CHECK_STR(words[first], "root");
    CHECK_STR(words[first + 1], "other");
    CHECK_EQ(first, word_count - 2);
}

TEST(two_dashes_end_the_options)
{
    CHECK_EQ(parse("x -v -- --workers"), 0);
    CHECK(verbose);
    CHECK_STR(words[first], "--workers");
}

TEST(a_list_keeps_every_word_in_order)
{
    CHECK_EQ(parse("x -l a:1 --listen b:2 --listen=c:3"), 0);
    CHECK_EQ(listen_on.count, 3);
    CHECK_STR(listen_on.items[0], "a:1");
    CHECK_STR(listen_on.items[1], "b:2");
    CHECK_STR(listen_on.items[2], "c:3");
    cli_list_done(&listen_on);
    CHECK_EQ(listen_on.count, 0);
}

TEST(the_bounds_themselves_are_allowed)
{
    CHECK_EQ(parse("x -w 64 --body 1m --idle 1ms"), 0);
    CHECK_EQ(parse("x -w 1"), 0);
}

TEST(each_mistake_gives_one_line_that_names_the_word)
{
    static const struct {
        const char *line, *message;
    } rows[] = {
        {"x --bogus", "try this: unknown option: \"--bogus\" (try try this --help)\n"},
        {"x --bogus=4", "try this: unknown option: \"--bogus=4\" (try try this --help)\n"},
        {"x -vq", "try this: unknown option: \"-q\" (try try this --help)\n"},
        {"x --l", "try this: ambiguous option: \"--l\" (try try this --help)\n"},
        {"x --workers", "try this: option --workers needs an argument: N\n"},
        {"x -w", "try this: option --workers needs an argument: N\n"},
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
        CHECK_STR(complained, rows[i].message);
        CHECK_STR(printed, "");
        CHECK_EQ(first, -1);
    }
}

TEST(a_value_above_no_limit_at_all_is_still_refused_where_it_overflows)
{
    CHECK_EQ(parse("x --think 99999999999999999999"), -EINVAL);
    CHECK(strstr(complained, "\"99999999999999999999\" is out of range: 0 to "));
    CHECK_EQ(think_ns, 0);
}

TEST(a_command_without_operands_refuses_them)
{
    reset();
    CHECK_EQ(parse_with(&bare, "x word"), -EINVAL);
    CHECK_STR(complained, "try bare: unexpected word: \"word\" (try try bare --help)\n");
    CHECK_EQ(parse_with(&bare, "x -w 3"), 0);
    CHECK_EQ(workers, 3);
}

TEST(help_shows_groups_and_the_defaults_from_before_the_words)
{
    CHECK_EQ(parse("x --workers 4 --help"), CLI_DONE);
    CHECK_STR(complained, "");
    CHECK_EQ(workers, 1);
    CHECK_STR(printed, "Usage: try this [OPTION...] ROOT\n"
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
                       "  -h, --help              print this and exit\n"
                       "  -V, --version           print the version and exit\n"
                       "\n"
                       "That is all.\n");
}

TEST(long_help_texts_wrap_under_their_column)
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
        printed,
        "      --wordy    this text is so long that it does not fit on a line of a terminal and "
        "must go\n                 on in the one below\n"));
}

TEST(a_help_text_that_tells_the_default_is_left_alone)
{
    static const struct cli_option told[] = {
        {"told", 't', "N", "a number (default: one for each processor)", CLI_NUMBER, &workers, 0, 0,
         NULL},
    };
    static const struct cli_command tells = {"tells", NULL, "Tells.", told, 1, NULL};
    reset();
    CHECK_EQ(parse_with(&tells, "x -h"), CLI_DONE);
    CHECK(strstr(printed, "  -t, --told N   a number (default: one for each processor)\n"));
}

TEST(version_is_one_line)
{
    CHECK_EQ(parse("x -V"), CLI_DONE);
    CHECK_STR(printed, "gossamer " GS_VERSION "\n");
}

TEST(a_mistake_before_help_is_reported_rather_than_helped)
{
    CHECK_EQ(parse("x --bogus --help"), -EINVAL);
    CHECK_STR(printed, "");
}
