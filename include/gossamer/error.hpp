/* Errors of the library as std::error_code.
 *
 *     std::error_code ec;
 *     int fd = gossamer::call(ec, gs_dial, "www.example.org:80", gossamer::deadline(5s).ns());
 *     if (ec == gossamer::errc::no_name)
 *         ...
 *
 * Numbers of errno(3) are of std::system_category(), and can be compared with std::errc; those of
 * error.h are of gossamer::error_category().
 */
#ifndef GOSSAMER_ERROR_HPP
#define GOSSAMER_ERROR_HPP

#include <gossamer/error.h>
#include <string>
#include <system_error>
#include <type_traits>

namespace gossamer
{

/* The errors of error.h. */
enum class errc { no_name = GS_ENONAME, name_server = GS_ENAMESERVER };

namespace detail
{

class category : public std::error_category
{
  public:
    const char *name() const noexcept override
    {
        return "gossamer";
    }
    std::string message(int error) const override
    {
        return gs_strerror(error);
    }
};

} // namespace detail

/* The category of errc, whose texts are those of gs_strerror. */
GS_API inline const std::error_category &error_category() noexcept
{
    static const detail::category only;
    return only;
}

inline std::error_code make_error_code(errc error) noexcept
{
    return {static_cast<int>(error), error_category()};
}

/* The code for a result of the C interface, which is negative on failure. */
template <class Result> std::error_code code_of(Result result) noexcept
{
    const int error = result < 0 ? static_cast<int>(-result) : 0;
    return {error, error < GS_ENONAME ? std::system_category() : error_category()};
}

} // namespace gossamer

template <> struct std::is_error_code_enum<gossamer::errc> : std::true_type {
};

#endif
