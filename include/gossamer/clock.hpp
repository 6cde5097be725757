/* Deadlines from std::chrono.
 *
 *     client.recv(bytes, sizeof bytes, 5s);              five seconds from now
 *     gossamer::deadline limit = 2min;                   one deadline for several calls
 *     client.recv(bytes, sizeof bytes, limit);
 *     client.recv(bytes, sizeof bytes, steady_clock::now() + 5s);
 *
 * Every wait of the C++ interface takes a gossamer::deadline. Durations and times of
 * std::chrono::steady_clock, which is CLOCK_MONOTONIC, become one implicitly; numbers do not, nor
 * do times of other clocks.
 */
#ifndef GOSSAMER_CLOCK_HPP
#define GOSSAMER_CLOCK_HPP

#include <chrono>
#include <cstdint>
#include <gossamer/clock.h>
#include <ratio>
#include <type_traits>

namespace gossamer
{

namespace detail
{

/* What reaches this is never: 292 years, the longest time that steady_clock can state. */
constexpr std::uint64_t max_ns = INT64_MAX;

constexpr std::uint64_t ns_or_never(std::uint64_t ns) noexcept
{
    return ns < max_ns ? ns : GS_NEVER;
}

/* count * Ratio, rounded up; Ratio: nanoseconds for each count. */
template <class Ratio> constexpr std::uint64_t scale(std::uint64_t count) noexcept
{
    constexpr std::uint64_t num = Ratio::num, den = Ratio::den;
    std::uint64_t whole = 0, part = 0;
    if (__builtin_mul_overflow(count / den, num, &whole) ||
        __builtin_mul_overflow(count % den, num, &part) ||
        __builtin_add_overflow(whole, part / den + (part % den != 0), &whole))
        return GS_NEVER;
    return ns_or_never(whole);
}

template <class Ratio> constexpr std::uint64_t scale(long double count) noexcept
{
    const long double ns = count * Ratio::num / Ratio::den;
    if (!(ns > 0)) /* or it is no number */
        return 0;
    if (ns >= static_cast<long double>(max_ns))
        return GS_NEVER;
    const auto whole = static_cast<std::uint64_t>(ns);
    return ns_or_never(whole + (static_cast<long double>(whole) < ns));
}

/* In nanoseconds, rounded up: 0 if it is negative or no number, GS_NEVER if it is too long. */
template <class Rep, class Period>
constexpr std::uint64_t to_ns(const std::chrono::duration<Rep, Period> &duration) noexcept
{
    static_assert(std::is_arithmetic_v<Rep>, "a duration is counted in a built-in type");
    using ratio = std::ratio_divide<Period, std::nano>;
    if constexpr (std::is_floating_point_v<Rep>)
        return scale<ratio>(static_cast<long double>(duration.count()));
    else
        return duration.count() > 0 ? scale<ratio>(static_cast<std::uint64_t>(duration.count()))
                                    : 0;
}

} // namespace detail

class deadline
{
  public:
    /* A duration, which counts from now. Zero and negative ones: do not wait. One that is longer
     * than the clock can state, as infinity, never ends. */
    template <class Rep, class Period>
    deadline(const std::chrono::duration<Rep, Period> &wait) noexcept : ns_(detail::to_ns(wait))
    {
        if (ns_)
            ns_ = gs_clock_after(gs_clock_now(), ns_);
    }

    /* A time; one that has passed: do not wait. time_point::max() never occurs. */
    template <class Duration>
    constexpr deadline(
        const std::chrono::time_point<std::chrono::steady_clock, Duration> &time) noexcept
        : ns_(detail::to_ns(time.time_since_epoch()))
    {
    }

    /* Wait without limit. */
    static constexpr deadline never() noexcept
    {
        return deadline(raw{GS_NEVER});
    }

    /* Do not wait. */
    static constexpr deadline now() noexcept
    {
        return deadline(raw{0});
    }

    /* A deadline_ns of the C interface. */
    static constexpr deadline at_ns(std::uint64_t ns) noexcept
    {
        return deadline(raw{ns});
    }

    constexpr std::uint64_t ns() const noexcept
    {
        return ns_;
    }

  private:
    struct raw {
        std::uint64_t ns;
    };
    explicit constexpr deadline(raw value) noexcept : ns_(value.ns)
    {
    }

    std::uint64_t ns_;
};

} // namespace gossamer

#endif
