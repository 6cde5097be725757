#include "http/status.h"
#include "tests/test.h"

TEST(status_text_begins_with_the_status)
{
    CHECK_STR(gs_http_status_text(200), "200 OK");
    CHECK_STR(gs_http_status_text(413), "413 Content Too Large");
    CHECK_STR(gs_http_status_text(426), "426 Upgrade Required");
    for (unsigned status = 0; status < 600; status++) {
        const char *text = gs_http_status_text(status);
        CHECK(!text || strtoul(text, NULL, 10) == status);
    }
}

TEST(status_without_a_phrase_has_no_text)
{
    CHECK(!gs_http_status_text(0));
    CHECK(!gs_http_status_text(299));
    CHECK(!gs_http_status_text(600));
    CHECK(!gs_http_status_text(~0u));
}
