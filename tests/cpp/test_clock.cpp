#include "tests/cpp/fixture.hpp"

#include <cmath>
#include <limits>
#include <type_traits>

using namespace std::chrono_literals;
using gossamer::deadline;
using std::chrono::duration;
using std::chrono::steady_clock;
using time_ns = std::chrono::time_point<steady_clock, std::chrono::nanoseconds>;

namespace
{

using gossamer::detail::to_ns;

template <class T> constexpr bool is_accepted = std::is_convertible_v<T, deadline>;

static_assert(is_accepted<std::chrono::hours> && is_accepted<duration<double>>);
static_assert(is_accepted<steady_clock::time_point>);
static_assert(!std::is_constructible_v<deadline, int>);
static_assert(!std::is_constructible_v<deadline, uint64_t>);
static_assert(!std::is_constructible_v<deadline, double>);
static_assert(!std::is_constructible_v<deadline, std::nullptr_t>);
static_assert(!std::is_default_constructible_v<deadline>);
static_assert(!std::is_constructible_v<deadline, std::chrono::system_clock::time_point>);

/* Whether the deadline is that long after now, give or take the time that the test takes. */
bool is_after_now(deadline limit, uint64_t wait_ns, uint64_t before_ns)
{
    return limit.ns() >= before_ns + wait_ns && limit.ns() <= gs_clock_now() + wait_ns;
}

} // namespace

TEST(durations_count_from_now)
{
    const uint64_t before_ns = gs_clock_now();
    CHECK(is_after_now(5s, 5 * GS_SECOND, before_ns));
    CHECK(is_after_now(1ns, 1, before_ns));
    CHECK(is_after_now(2h, 7200 * GS_SECOND, before_ns));
    CHECK(is_after_now(duration<double>(0.25), GS_SECOND / 4, before_ns));
    CHECK(is_after_now(duration<unsigned char>(3), 3 * GS_SECOND, before_ns));
}

TEST(durations_that_are_not_positive_do_not_wait)
{
    CHECK_EQ(deadline(0s).ns(), 0);
    CHECK_EQ(deadline(-1ns).ns(), 0);
    CHECK_EQ(deadline(std::chrono::hours::min()).ns(), 0);
    CHECK_EQ(deadline(duration<double>(-0.5)).ns(), 0);
    CHECK_EQ(deadline(duration<double>(-HUGE_VAL)).ns(), 0);
    CHECK_EQ(deadline(duration<float>(NAN)).ns(), 0);
}

TEST(durations_that_are_too_long_never_end)
{
    CHECK(deadline(std::chrono::nanoseconds::max()).ns() == GS_NEVER);
    CHECK(deadline(std::chrono::hours::max()).ns() == GS_NEVER);
    CHECK(deadline(duration<uint64_t>(UINT64_MAX)).ns() == GS_NEVER);
    CHECK(deadline(duration<double>(HUGE_VAL)).ns() == GS_NEVER);
    CHECK(deadline(duration<double>(std::numeric_limits<double>::max())).ns() == GS_NEVER);
    CHECK(deadline(duration<double>(9.3e9)).ns() == GS_NEVER);
    CHECK(deadline(duration<double>(9.2e9)).ns() != GS_NEVER);
}

TEST(durations_are_rounded_up_to_nanoseconds)
{
    static_assert(to_ns(duration<int, std::pico>(1)) == 1);
    static_assert(to_ns(duration<int, std::pico>(1000)) == 1);
    static_assert(to_ns(duration<int, std::pico>(1001)) == 2);
    static_assert(to_ns(duration<int, std::ratio<1, 3>>(1)) == 333333334);
    static_assert(to_ns(duration<int, std::ratio<1, 3>>(3)) == GS_SECOND);
    static_assert(to_ns(duration<int64_t, std::pico>(INT64_MAX)) == INT64_MAX / 1000 + 1);
    CHECK_EQ(to_ns(duration<double, std::nano>(1.5)), 2);
    CHECK_EQ(to_ns(duration<double, std::nano>(0.1)), 1);
    CHECK_EQ(to_ns(duration<double, std::nano>(2)), 2);
}

TEST(a_time_of_steady_clock_is_itself)
{
    static_assert(deadline(time_ns(12345ns)).ns() == 12345);
    CHECK_EQ(deadline(std::chrono::time_point<steady_clock, duration<double>>(1.5s)).ns(),
             GS_SECOND * 3 / 2);
    const uint64_t before_ns = gs_clock_now();
    const deadline now = steady_clock::now();
    CHECK(now.ns() >= before_ns && now.ns() <= gs_clock_now());
}

TEST(times_at_the_edges_are_no_other_times)
{
    static_assert(deadline(time_ns::max()).ns() == GS_NEVER);
    static_assert(deadline(time_ns::min()).ns() == 0);
    static_assert(deadline(time_ns(-1ns)).ns() == 0);
    static_assert(deadline(time_ns(0ns)).ns() == 0);
    static_assert(deadline(time_ns(std::chrono::nanoseconds(INT64_MAX - 1))).ns() == INT64_MAX - 1);
    using time_h = std::chrono::time_point<steady_clock, std::chrono::hours>;
    static_assert(deadline(time_h::max()).ns() == GS_NEVER);
    static_assert(deadline::never().ns() == GS_NEVER && deadline::now().ns() == 0);
    static_assert(deadline::at_ns(7).ns() == 7);
    CHECK_EQ(deadline(time_h(std::chrono::hours(1))).ns(), 3600 * GS_SECOND);
}
