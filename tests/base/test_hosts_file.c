#include "base/hosts_file.h"
#include "tests/test.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/test_hosts_file.XXXXXX";

static void write_hosts(const char *text)
{
    if (gs_hosts_file != path)
        close(mkstemp(path));
    FILE *file = fopen(path, "w");
    CHECK(file);
    fputs(text, file);
    fclose(file);
    gs_hosts_file = path;
}

TEST(names_of_all_columns_are_found_in_any_case)
{
    write_hosts("127.0.0.1\tlocalhost  first.example second\r\n ::1 six\n10.0.0.1 last");
    const char *has[] = {"localhost", "LocalHost", "first.example", "second", "six", "last"};
    const char *lacks[] = {"127.0.0.1", "::1", "first", "example", "localhos", "localhost2", ""};
    for (int i = 0; i < 6; i++)
        CHECK_EQ(gs_hosts_file_find(has[i], AF_UNSPEC), HOSTS_PRESENT);
    for (int i = 0; i < 7; i++)
        CHECK_EQ(gs_hosts_file_find(lacks[i], AF_UNSPEC), HOSTS_ABSENT);
    unlink(path);
}

TEST(comments_are_left_out)
{
    write_hosts("# 10.0.0.1 no\n10.0.0.2 yes#no also-no\n#\n10.0.0.3 # no\n10.0.0.4 again");
    CHECK_EQ(gs_hosts_file_find("yes", AF_UNSPEC), HOSTS_PRESENT);
    CHECK_EQ(gs_hosts_file_find("again", AF_UNSPEC), HOSTS_PRESENT);
    CHECK_EQ(gs_hosts_file_find("no", AF_UNSPEC), HOSTS_ABSENT);
    CHECK_EQ(gs_hosts_file_find("also-no", AF_UNSPEC), HOSTS_ABSENT);
    unlink(path);
}

TEST(name_without_an_address_of_the_family_is_not_found)
{
    write_hosts("10.0.0.1 four both\nfe80::1 six both\n");
    CHECK_EQ(gs_hosts_file_find("four", AF_INET), HOSTS_PRESENT);
    CHECK_EQ(gs_hosts_file_find("four", AF_INET6), HOSTS_ABSENT);
    CHECK_EQ(gs_hosts_file_find("six", AF_INET6), HOSTS_PRESENT);
    CHECK_EQ(gs_hosts_file_find("six", AF_INET), HOSTS_ABSENT);
    CHECK_EQ(gs_hosts_file_find("both", AF_INET), HOSTS_PRESENT);
    CHECK_EQ(gs_hosts_file_find("both", AF_INET6), HOSTS_PRESENT);
    unlink(path);
}

/* More than one read, with a word across the border, and words that are too long. */
TEST(beginning_of_a_long_file_is_read)
{
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "10.0.0.1 ", 9);
    memcpy(text + 4090, " border-name ", 13);
    memcpy(text + 60000, "\n10.0.0.2 near\n", 15);
    memcpy(text + 90000, "\n10.0.0.3 far\n", 14);
    write_hosts(text);
    CHECK_EQ(gs_hosts_file_find("border-name", AF_UNSPEC), HOSTS_PRESENT);
    CHECK_EQ(gs_hosts_file_find("near", AF_UNSPEC), HOSTS_PRESENT);
    CHECK_EQ(gs_hosts_file_find("far", AF_UNSPEC), HOSTS_UNREAD);
    unlink(path);
}

TEST(file_that_is_missing_has_no_names_and_a_folder_is_not_read)
{
    gs_hosts_file = "/nonexistent";
    CHECK_EQ(gs_hosts_file_find("localhost", AF_UNSPEC), HOSTS_ABSENT);
    gs_hosts_file = "/";
    CHECK_EQ(gs_hosts_file_find("localhost", AF_UNSPEC), HOSTS_UNREAD);
}
