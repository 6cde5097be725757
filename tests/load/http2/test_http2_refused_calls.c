/* Each newer system call may be refused, and all may. */
#include "tests/load/http2/frame_server.h"
#include "tests/load/refused.h"

TEST(http2_goes_on_without_newer_calls)
{
    frames_prepare(&(struct script){.answer = frames_hello});
    refused_check_each(frames_serve, "--http2");
}
