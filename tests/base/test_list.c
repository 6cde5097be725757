#include "tests/test.h"

#include <gossamer/list.h>

struct item {
    char letter;
    struct gs_list link;
};

static struct gs_list list;
static struct item a = {'a', {0}}, b = {'b', {0}}, c = {'c', {0}};
static char letters[16];

static const char *letters_of(struct gs_list *of)
{
    size_t n = 0;
    GS_LIST_FOREACH (link, of)
        letters[n++] = gs_container_of(link, struct item, link)->letter;
    letters[n] = 0;
    return letters;
}

static void clear(struct gs_list *of)
{
    GS_LIST_FOREACH (link, of)
        gs_list_remove(link);
}

TEST(links_are_in_the_order_of_insertion)
{
    gs_list_init(&list);
    CHECK(gs_list_is_empty(&list));
    CHECK(gs_list_first(&list) == &list);
    gs_list_append(&list, &b.link);
    gs_list_append(&list, &c.link);
    gs_list_prepend(&list, &a.link);
    CHECK_STR(letters_of(&list), "abc");
    CHECK(gs_list_first(&list) == &a.link);
    clear(&list);
    CHECK(gs_list_is_empty(&list));
    gs_list_append(&list, &c.link);
    gs_list_insert_before(&c.link, &a.link);
    CHECK_STR(letters_of(&list), "ac");
    clear(&list);
}

TEST(removed_link_is_in_no_list)
{
    gs_list_init(&list);
    CHECK(!gs_list_is_linked(&a.link));
    gs_list_append(&list, &a.link);
    gs_list_append(&list, &b.link);
    CHECK(gs_list_is_linked(&a.link));
    gs_list_remove(&a.link);
    CHECK(!gs_list_is_linked(&a.link));
    CHECK_STR(letters_of(&list), "b");
    clear(&list);
}

TEST(all_links_of_one_list_move_behind_those_of_another)
{
    struct gs_list other;
    gs_list_init(&list);
    gs_list_init(&other);
    gs_list_append_all(&list, &other);
    CHECK(gs_list_is_empty(&list));
    gs_list_append(&list, &a.link);
    gs_list_append(&other, &b.link);
    gs_list_append(&other, &c.link);
    gs_list_append_all(&list, &other);
    CHECK_STR(letters_of(&list), "abc");
    CHECK(gs_list_is_empty(&other));
    CHECK(list.previous == &c.link);
    clear(&list);
}
