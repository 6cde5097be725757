/* Addresses as text in C++: to connect to one, and to listen at one.
 *
 *     gossamer::file_descriptor client = gossamer::dial("www.example.org:80", 5s);
 *     gossamer::file_descriptor listener = gossamer::listen(":8080");
 *
 * Addresses are described in net.h. Like io.hpp, each function has a second form whose last
 * argument is a std::error_code. listen may also be called while no user threads run.
 */
#ifndef GOSSAMER_NET_HPP
#define GOSSAMER_NET_HPP

#include <gossamer/io.hpp>
#include <gossamer/net.h>
#include <string>

namespace gossamer
{

/* Connect to "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". */
inline file_descriptor dial(const std::string &address, deadline limit = deadline::never())
{
    return file_descriptor(call(gs_dial, address.c_str(), limit.ns()));
}
inline file_descriptor dial(const std::string &address, deadline limit,
                            std::error_code &ec) noexcept
{
    return file_descriptor(call(ec, gs_dial, address.c_str(), limit.ns()));
}

using listen_options = gs_listen_options;

/* Listen at an address of this machine; ":PORT" means all of them. */
inline file_descriptor listen(const std::string &address,
                              const listen_options &options = listen_options())
{
    return file_descriptor(check(gs_listen(address.c_str(), &options)));
}
inline file_descriptor listen(const std::string &address, const listen_options &options,
                              std::error_code &ec) noexcept
{
    const int fd = gs_listen(address.c_str(), &options);
    ec = code_of(fd);
    return file_descriptor(fd);
}

} // namespace gossamer

#endif
