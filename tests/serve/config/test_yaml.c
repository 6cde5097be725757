#include "serve/config/yaml.h"

#include "tests/test.h"

static struct serve_arena arena;
static struct serve_node *root;
static char problems[8192];

static int read_bytes(const char *text, size_t size)
{
    FILE *out = fmemopen(problems, sizeof problems, "w");
    CHECK(out);
    problems[0] = '\0';
    struct serve_report report = {.file = "f", .out = out};
    root = NULL;
    int err = serve_yaml_read(&arena, text, size, &report, &root);
    fclose(out);
    CHECK_EQ(!!err, !!report.count);
    return err;
}

static int read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

#define YAML_TEST(name_)                                                                           \
    FIXTURE_TEST(name_, arena = (struct serve_arena){0}, serve_arena_free(&arena))

#define CHECK_REFUSED(text_, problem_)                                                             \
    do {                                                                                           \
        CHECK_EQ(read_text(text_), -EINVAL);                                                       \
        if (strncmp(problems, problem_, strlen(problem_)))                                         \
            TEST_FAIL("not said: %s, but: %s", problem_, problems);                                \
    } while (0)

YAML_TEST(maps_lists_and_texts_keep_their_order_and_lines)
{
    CHECK_EQ(read_text("a: 1\nb:\n  - x\n  - \"y z\"\n"), 0);
    CHECK_EQ(root->kind, SERVE_NODE_MAP);
    CHECK_EQ(root->count, 4);
    CHECK_STR(root->items[0]->text, "a");
    CHECK_STR(root->items[1]->text, "1");
    CHECK(root->items[1]->is_plain);
    const struct serve_node *list = root->items[3];
    CHECK_EQ(list->kind, SERVE_NODE_LIST);
    CHECK_EQ(list->count, 2);
    CHECK_STR(list->items[1]->text, "y z");
    CHECK(!list->items[1]->is_plain);
    CHECK_EQ(list->items[1]->line, 4);
}

YAML_TEST(a_file_of_comments_is_empty)
{
    CHECK_EQ(read_text("# nothing\n"), 0);
    CHECK(!root);
    CHECK_EQ(read_text(""), 0);
    CHECK(!root);
}

YAML_TEST(an_alias_is_what_its_last_anchor_names)
{
    CHECK_EQ(read_text("a: &x [1]\nb: *x\nc: &x 2\nd: *x\n"), 0);
    CHECK(root->items[3] == root->items[1]);
    CHECK_STR(root->items[7]->text, "2");
}

YAML_TEST(what_is_no_yaml_is_refused_with_its_line)
{
    CHECK_REFUSED("a: 1\nb: [1\nc: 2\n", "f:3: this is no YAML: ");
    CHECK_REFUSED("a:\n\t- b\n", "f:2: this is no YAML: ");
    CHECK_REFUSED("a: \"\xff\"\n", "f: the file is no text in UTF-8: ");
    CHECK_REFUSED("a: *x\n", "f:1: *x: there is no anchor &x above");
    CHECK_REFUSED("&x a: [*x, &y [*y]]\n", "f:1: an alias is inside of what it names");
    CHECK_REFUSED("a: !!str b\n", "f:1: tags (!) are not supported");
    CHECK_REFUSED("a: !x [b]\n", "f:1: tags (!) are not supported");
    CHECK_REFUSED("a: 1\n---\nb: 1\n", "f:2: a second document begins");
    CHECK_REFUSED("a: \"b\\0c\"\n", "f:1: the text contains a zero byte");
}

YAML_TEST(depth_is_limited)
{
    char text[2 * SERVE_YAML_DEPTH + 3] = "";
    memset(text, '[', SERVE_YAML_DEPTH);
    memset(text + SERVE_YAML_DEPTH, ']', SERVE_YAML_DEPTH);
    CHECK_EQ(read_text(text), 0);
    memset(text, '[', SERVE_YAML_DEPTH + 1);
    CHECK_REFUSED(text, "f:1: lists and maps are too deep in each other");
}

YAML_TEST(a_hundred_thousand_brackets_are_refused_at_once)
{
    enum { SIZE = 100000 };
    char *text = malloc(SIZE);
    CHECK(text);
    memset(text, '[', SIZE);
    CHECK_EQ(read_bytes(text, SIZE), -EINVAL);
    memset(text, '{', SIZE);
    CHECK_EQ(read_bytes(text, SIZE), -EINVAL);
    free(text);
}

/* Ten lines of ten aliases each would be ten milliards of texts. */
YAML_TEST(aliases_of_aliases_count_as_often_as_they_are_used)
{
    char text[2048] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 10; i++) {
        char *at = text + strlen(text);
        at += sprintf(at, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            at += sprintf(at, "*a%d, ", i - 1);
        strcpy(at, "]\n");
    }
    CHECK_REFUSED(text, "f:6: the file has more than a million values");
}

YAML_TEST(a_text_of_more_than_64_kib_is_refused)
{
    enum { SIZE = SERVE_YAML_TEXT + 1 };
    char *text = malloc(SIZE);
    CHECK(text);
    memset(text, 'x', SIZE);
    CHECK_EQ(read_bytes(text, SIZE - 1), 0);
    CHECK_EQ(read_bytes(text, SIZE), -EINVAL);
    CHECK(strstr(problems, "longer than 64 KiB"));
    free(text);
}

YAML_TEST(more_than_1000_anchors_are_refused)
{
    char *text = malloc(SERVE_YAML_ANCHORS * 16 + 32), *at = text;
    CHECK(text);
    for (int i = 0; i <= SERVE_YAML_ANCHORS; i++)
        at += sprintf(at, "- &a%d x\n", i);
    CHECK_EQ(read_text(text), -EINVAL);
    CHECK(strstr(problems, "f:1001: the file has more than 1000 anchors"));
    free(text);
}
