/* Changes of a watched file. */
#include "tests/loop/file_fixture.h"

#define FILE_TEST(name_) FIXTURE_TEST(name_, set_up(), tear_down())

FILE_TEST(every_change_of_a_file_is_reported)
{
    create("f");
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    CHECK_EQ(gs_file_start(&a, "elsewhere", 0), 0);
    CHECK_EQ(next_events(), 0);
    append("f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    CHECK_EQ(a.now.size, 1);
    CHECK_EQ(a.before.size, 0);
    CHECK_EQ(next_events(), 0);
    CHECK_EQ(chmod("f", 0644), 0);
    CHECK_EQ(next_events(), GS_FILE_ATTRIBUTES);
    CHECK_EQ(a.now.mode & 0777, 0644);
    CHECK_EQ(truncate("f", 0), 0);
    CHECK(next_events() & GS_FILE_CONTENT);
    CHECK_EQ(link("f", "g"), 0);
    CHECK_EQ(next_events(), GS_FILE_ATTRIBUTES);
    append("g");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    append("other");
    CHECK_EQ(next_events(), 0);
    CHECK_STR(calls, "aaaaa");
}

FILE_TEST(content_that_is_overwritten_with_the_same_is_reported)
{
    append("f");
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    for (int i = 0; i < 20; i++) {
        int fd = open("f", O_WRONLY | O_CLOEXEC);
        put_byte(fd);
        close(fd);
        CHECK(next_events() & GS_FILE_CONTENT);
    }
}

FILE_TEST(removal_and_creation_are_reported_in_turn)
{
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    CHECK_EQ(a.now.mode, 0);
    for (int i = 0; i < 3; i++) {
        append("f");
        CHECK_EQ(next_events(), GS_FILE_CREATED);
        append("f");
        CHECK_EQ(next_events(), GS_FILE_CONTENT);
        unlink("f");
        CHECK_EQ(next_events(), GS_FILE_REMOVED);
        CHECK_EQ(a.now.mode, 0);
        CHECK_EQ(a.before.size, 2);
    }
}

FILE_TEST(rename_over_the_file_replaces_it_and_the_new_one_is_watched)
{
    append("f");
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    for (int i = 0; i < 3; i++) {
        create("new");
        CHECK_EQ(next_events(), 0);
        CHECK_EQ(rename("new", "f"), 0);
        CHECK_EQ(next_events(), GS_FILE_REPLACED);
        append("f");
        CHECK_EQ(next_events(), GS_FILE_CONTENT);
    }
    CHECK_EQ(rename("f", "old"), 0);
    CHECK_EQ(next_events(), GS_FILE_REMOVED);
    append("old");
    CHECK_EQ(next_events(), 0);
    CHECK_EQ(rename("old", "f"), 0);
    CHECK_EQ(next_events(), GS_FILE_CREATED);
}

FILE_TEST(removed_and_created_between_two_iterations_is_replaced)
{
    create("f");
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    unlink("f");
    create("f");
    CHECK_EQ(next_events(), GS_FILE_REPLACED);
    append("f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
}

FILE_TEST(directory_that_is_removed_and_created_again_is_watched_again)
{
    CHECK_EQ(mkdir("d", 0700), 0);
    create("d/f");
    CHECK_EQ(gs_file_start(&a, "d/f", GS_SECOND), 0);
    unlink("d/f");
    CHECK_EQ(rmdir("d"), 0);
    CHECK_EQ(next_events(), GS_FILE_REMOVED);
    CHECK_EQ(next_events_after(GS_SECOND), 0);
    CHECK_EQ(mkdir("d", 0700), 0);
    create("d/f");
    CHECK_EQ(next_events(), 0);
    CHECK_EQ(next_events_after(GS_SECOND), GS_FILE_CREATED);
    append("d/f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    CHECK_EQ(rename("d", "e"), 0);
    CHECK_EQ(next_events(), GS_FILE_REMOVED);
    append("e/f");
    CHECK_EQ(next_events(), 0);
    CHECK_EQ(rename("e", "d"), 0);
    CHECK_EQ(next_events_after(GS_SECOND), GS_FILE_CREATED);
    CHECK_EQ(a.now.size, 2);
}

FILE_TEST(symbolic_link_that_is_replaced_replaces_the_file)
{
    CHECK_EQ(mkdir("1", 0700), 0);
    CHECK_EQ(mkdir("2", 0700), 0);
    create("1/f");
    create("2/f");
    CHECK_EQ(symlink("1", "current"), 0);
    CHECK_EQ(symlink("current/f", "f"), 0);
    CHECK_EQ(gs_file_start(&a, "f", GS_SECOND), 0);
    append("1/f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    CHECK_EQ(symlink("2", "next"), 0);
    CHECK_EQ(rename("next", "current"), 0);
    CHECK_EQ(next_events(), GS_FILE_REPLACED);
    append("1/f");
    CHECK_EQ(next_events(), 0);
    append("2/f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    unlink("2/f");
    CHECK_EQ(next_events(), GS_FILE_REMOVED);
    create("2/f");
    CHECK_EQ(next_events_after(GS_SECOND), GS_FILE_CREATED);
}

FILE_TEST(directory_reports_changes_of_its_entries)
{
    CHECK_EQ(mkdir("d", 0700), 0);
    CHECK_EQ(gs_file_start(&a, "d", 0), 0);
    create("d/f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    append("d/f");
    CHECK_EQ(next_events(), 0);
    unlink("d/f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    CHECK_EQ(rmdir("d"), 0);
    CHECK_EQ(next_events(), GS_FILE_REMOVED);
}
