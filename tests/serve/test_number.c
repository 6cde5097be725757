#include "serve/operations/number.h"

#include "tests/test.h"

TEST(numbers_are_taken_one_after_another)
{
    const char *text = "1:0 23\n18446744073709551615";
    uint64_t number;
    CHECK(serve_take_number(&text, ':', 1, &number));
    CHECK_EQ(number, 1);
    CHECK(serve_take_number(&text, ' ', 0, &number));
    CHECK_EQ(number, 0);
    CHECK(!serve_take_number(&text, '\n', 22, &number));
    CHECK(serve_take_number(&text, '\n', 23, &number));
    CHECK_EQ(number, 23);
    CHECK(serve_take_number(&text, '\0', UINT64_MAX, &number));
    CHECK_EQ(number, UINT64_MAX);
    CHECK(!serve_take_number(&text, '\0', UINT64_MAX, &number));
}

TEST(what_is_no_number_is_refused)
{
    static const char *const wrong[] = {"",
                                        " 1",
                                        "-1",
                                        "+1",
                                        "1x",
                                        "x",
                                        "1 ",
                                        "0x1",
                                        "18446744073709551616",
                                        "99999999999999999999999"};
    uint64_t number = 7;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!serve_is_number(wrong[i], UINT64_MAX, &number));
    CHECK(!serve_is_number(NULL, 5, &number));
    CHECK(!serve_is_number("6", 5, &number));
    CHECK_EQ(number, 7);
}
