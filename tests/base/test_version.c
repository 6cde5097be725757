#include "tests/test.h"

#include <gossamer/version.h>

TEST(the_library_has_the_version_of_its_headers)
{
    CHECK_STR(gs_version(), GOSSAMER_VERSION);
    CHECK_EQ(gs_version_number(), GOSSAMER_VERSION_NUMBER);
}

TEST(the_text_consists_of_the_three_numbers)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", GOSSAMER_VERSION_MAJOR, GOSSAMER_VERSION_MINOR,
             GOSSAMER_VERSION_PATCH);
    CHECK_STR(text, GOSSAMER_VERSION);
}

TEST(a_later_version_has_a_larger_number)
{
    CHECK(GOSSAMER_MAKE_VERSION(0, 1, 0) < GOSSAMER_MAKE_VERSION(0, 1, 1));
    CHECK(GOSSAMER_MAKE_VERSION(0, 1, 255) < GOSSAMER_MAKE_VERSION(0, 2, 0));
    CHECK(GOSSAMER_MAKE_VERSION(0, 255, 255) < GOSSAMER_MAKE_VERSION(1, 0, 0));
}

#if GOSSAMER_VERSION_NUMBER >= GOSSAMER_MAKE_VERSION(0, 1, 0)
TEST(the_preprocessor_can_compare_versions)
{
    CHECK(GOSSAMER_VERSION_NUMBER >= GOSSAMER_MAKE_VERSION(0, 1, 0));
}
#endif
