/* Which files rules allow, also when they are replaced. */
#include "serve/operations/landlock.h"

#include "src/base/sanitized.h"
#include "tests/test.h"

static char folder[64];

static void set_up(void)
{
    strcpy(folder, "/tmp/gossamer-landlock-XXXXXX");
    CHECK(mkdtemp(folder));
    CHECK_EQ(chdir(folder), 0);
    CHECK(!mkdir("a", 0700) && !mkdir("b", 0700) && !mkdir("c", 0700) && !mkdir("b/one", 0700));
    static const char *const files[] = {"a/file", "b/file", "b/one/file", "c/file"};
    for (int i = 0; i < 4; i++)
        CHECK(!close(open(files[i], O_WRONLY | O_CREAT, 0600)));
    CHECK(!symlink("../b/one", "a/link") && !symlink("a/link", "outer"));
}

static void tear_down(void)
{
    static const char *const all[] = {"a/file", "a/new",  "b/file", "b/one/file", "b/one", "c/file",
                                      "a/link", "b/link", "outer",  "a",          "b",     "c"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        remove(all[i]);
    CHECK_EQ(chdir("/"), 0);
    CHECK_EQ(rmdir(folder), 0);
}

static bool can_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* In a child with these rules: each letter of the files below a, b, b/one and c that it can read,
 * and a W if it can create a file in a. */
static const char *reachable(void (*allow)(struct serve_landlock *landlock))
{
    static char letters[8];
    int ends[2], status;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (!child) {
        struct serve_landlock landlock;
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (serve_landlock_init(&landlock))
            _exit(77);
        allow(&landlock);
        if (serve_landlock_enforce(&landlock))
            _exit(78);
        snprintf(letters, sizeof letters, "%s%s%s%s%s", can_open("a/file", O_RDONLY) ? "a" : "",
                 can_open("b/file", O_RDONLY) ? "b" : "",
                 can_open("b/one/file", O_RDONLY) ? "1" : "",
                 can_open("c/file", O_RDONLY) ? "c" : "",
                 can_open("a/new", O_WRONLY | O_CREAT) ? "W" : "");
        _exit(write(ends[1], letters, strlen(letters)) < 0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], letters, sizeof letters - 1);
    letters[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status == 77 << 8)
        SKIP("the kernel has no Landlock");
    CHECK_EQ(status, 0);
    return letters;
}

static void allow_nothing(struct serve_landlock *landlock)
{
    serve_landlock_allow(landlock, "missing", SERVE_MAY_READ);
    serve_landlock_allow_replaced(landlock, "", SERVE_MAY_READ);
}

static void allow_directory(struct serve_landlock *landlock)
{
    serve_landlock_allow(landlock, "a", SERVE_MAY_READ);
}

static void allow_file(struct serve_landlock *landlock)
{
    serve_landlock_allow(landlock, "b/file", SERVE_MAY_READ | SERVE_MAY_APPEND | SERVE_MAY_REMOVE);
}

static void allow_appending(struct serve_landlock *landlock)
{
    serve_landlock_allow_replaced(landlock, "a/log", SERVE_MAY_APPEND);
}

static void allow_replaced_file(struct serve_landlock *landlock)
{
    serve_landlock_allow_replaced(landlock, "b/one/file", SERVE_MAY_READ);
}

/* outer is in the working directory. */
static void allow_chain(struct serve_landlock *landlock)
{
    serve_landlock_allow_replaced(landlock, "a/link/", SERVE_MAY_READ);
}

static void allow_root(struct serve_landlock *landlock)
{
    serve_landlock_allow_replaced(landlock, "/etc", SERVE_MAY_READ);
    serve_landlock_allow_replaced(landlock, "c/.", SERVE_MAY_READ);
    serve_landlock_allow_replaced(landlock, "/", SERVE_MAY_APPEND);
}

FIXTURE_TEST(rules_allow_what_they_name_and_nothing_else, set_up(), tear_down())
{
    CHECK_STR(reachable(allow_nothing), "");
    CHECK_STR(reachable(allow_directory), "a");
    CHECK_STR(reachable(allow_file), "b");
    CHECK_STR(reachable(allow_appending), "W");
}

FIXTURE_TEST(a_file_that_may_be_replaced_is_allowed_with_its_directory, set_up(), tear_down())
{
    CHECK_STR(reachable(allow_replaced_file), "1");
}

FIXTURE_TEST(a_link_is_allowed_with_the_directories_of_link_and_target, set_up(), tear_down())
{
    CHECK_STR(reachable(allow_chain), "ab1");
}

FIXTURE_TEST(links_that_lead_to_each_other_end, set_up(), tear_down())
{
    CHECK(!unlink("a/link") && !symlink("../b/link", "a/link") && !symlink("../a/link", "b/link"));
    CHECK_STR(reachable(allow_chain), "ab1");
}

FIXTURE_TEST(the_directory_of_everything_is_not_allowed_with_a_file_in_it, set_up(), tear_down())
{
    CHECK_STR(reachable(allow_root), "cW");
}
