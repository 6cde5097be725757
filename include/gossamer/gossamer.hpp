/* The C++ interface: thread.h, sync.h, scope.h, io.h and clock.h with RAII, exceptions and
 * std::chrono, for C++17 and later. It consists of headers only, and every object of the C
 * interface can be used beside it.
 *
 *     thread.hpp    run, task, thread; errors, exceptions and cancellation
 *     sync.hpp      mutex, condition_variable and the other objects that threads wait at
 *     channel.hpp   channel
 *     select.hpp    select, and its cases
 *     scope.hpp     scope
 *     io.hpp        file_descriptor
 *     net.hpp       dial and listen
 *     buffered.hpp  reader and writer
 *     clock.hpp     deadline
 *     error.hpp     errc and its std::error_category
 *
 * Included on their own are http_server.hpp, http_client.hpp and websocket.hpp; tls.hpp, which
 * needs the library gossamer-tls; and coroutine.hpp, coroutines of C++20 on an event loop.
 */
#ifndef GOSSAMER_GOSSAMER_HPP
#define GOSSAMER_GOSSAMER_HPP

#include <gossamer/buffered.hpp>
#include <gossamer/channel.hpp>
#include <gossamer/clock.hpp>
#include <gossamer/error.hpp>
#include <gossamer/io.hpp>
#include <gossamer/net.hpp>
#include <gossamer/scope.hpp>
#include <gossamer/select.hpp>
#include <gossamer/sync.hpp>
#include <gossamer/thread.hpp>

#endif
