#include "cli/suggestion.h"
#include "tests/test.h"

static const char *nearest(const char *word)
{
    static const char *const names[] = {"serve", "load",      "lab",
                                        "help",  "send-rate", "send-timeout"};
    struct cli_suggestion suggestion = cli_suggestion_for(word, strlen(word));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cli_suggestion_consider(&suggestion, names[i]);
    return suggestion.name ? suggestion.name : "nothing";
}

TEST(a_word_with_at_most_two_wrong_characters_is_near)
{
    CHECK_STR(nearest("serv"), "serve");
    CHECK_STR(nearest("sevre"), "serve");
    CHECK_STR(nearest("xserver"), "serve");
    CHECK_STR(nearest("laod"), "load");
    CHECK_STR(nearest("hepl"), "help");
    CHECK_STR(nearest("abserve"), "serve");
    CHECK_STR(nearest("abcserve"), "nothing");
    CHECK_STR(nearest("save"), "serve");
    CHECK_STR(nearest("bench"), "nothing");
}

TEST(the_beginning_of_a_name_is_near)
{
    CHECK_STR(nearest("se"), "serve");
    CHECK_STR(nearest("send-t"), "send-timeout");
    CHECK_STR(nearest("send-"), "send-rate");
    CHECK_STR(nearest("rate"), "nothing");
}

TEST(the_nearest_name_is_suggested)
{
    CHECK_STR(nearest("lap"), "lab");
    CHECK_STR(nearest("loab"), "load");
}

TEST(a_word_of_which_nothing_remains_is_not_near)
{
    CHECK_STR(nearest(""), "nothing");
    CHECK_STR(nearest("x"), "nothing");
    CHECK_STR(nearest("xy"), "nothing");
    CHECK_STR(nearest("l"), "load");
}

TEST(only_the_given_length_of_the_word_counts)
{
    struct cli_suggestion suggestion = cli_suggestion_for("serv=8080", 4);
    cli_suggestion_consider(&suggestion, "serve");
    CHECK_STR(suggestion.name, "serve");
}

TEST(very_long_words_and_names_are_near_to_nothing)
{
    char word[1000];
    memset(word, 'a', sizeof word);
    struct cli_suggestion suggestion = cli_suggestion_for(word, sizeof word);
    cli_suggestion_consider(&suggestion, "a");
    CHECK(!suggestion.name);
    suggestion = cli_suggestion_for(word, 40);
    word[41] = '\0';
    cli_suggestion_consider(&suggestion, word);
    CHECK(!suggestion.name);
    word[40] = '\0';
    cli_suggestion_consider(&suggestion, word);
    CHECK_STR(suggestion.name, word);
}
