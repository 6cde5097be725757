/* Descriptors in C++: input and output that blocks the user thread and not its worker.
 *
 *     void serve(gossamer::file_descriptor client)
 *     {
 *         char bytes[1024];
 *         while (std::size_t n = client.recv(bytes, sizeof bytes, 60s))
 *             client.send_all(bytes, n, 60s);
 *     }                                              the descriptor is closed
 *
 * Each function has a second form whose last argument is a std::error_code, and which does not
 * throw. The other functions of io.h are called through gossamer::call:
 *
 *     gossamer::call(gs_fsync, file.get(), GS_NEVER);
 */
#ifndef GOSSAMER_IO_HPP
#define GOSSAMER_IO_HPP

#include <cstddef>
#include <gossamer/io.h>
#include <gossamer/thread.hpp>
#include <unistd.h>

namespace gossamer
{

/* Owns a descriptor, which it closes with gs_close. Move only. It is closed by a user thread, or
 * while none run; threads that wait for it then get std::errc::bad_file_descriptor. */
class file_descriptor
{
  public:
    file_descriptor() noexcept = default;

    /* Takes fd; negative: none. */
    explicit file_descriptor(int fd) noexcept : fd_(fd)
    {
    }

    file_descriptor(file_descriptor &&other) noexcept : fd_(other.release())
    {
    }

    file_descriptor &operator=(file_descriptor &&other) noexcept
    {
        file_descriptor before(std::exchange(fd_, other.release()));
        return *this;
    }

    ~file_descriptor()
    {
        close();
    }

    void close() noexcept
    {
        const int fd = release();
        if (fd >= 0 && gs_thread_self())
            gs_close(fd);
        else if (fd >= 0)
            ::close(fd);
    }

    /* The descriptor is the caller's from now on. */
    int release() noexcept
    {
        return std::exchange(fd_, -1);
    }

    /* -1: there is none. */
    int get() const noexcept
    {
        return fd_;
    }

    explicit operator bool() const noexcept
    {
        return fd_ >= 0;
    }

    /* ---- Sockets ---- */

    /* Returns how many bytes were received; 0: the end of the stream. */
    std::size_t recv(void *bytes, std::size_t n, deadline limit = deadline::never()) const
    {
        return size(call(gs_recv, fd_, bytes, n, 0, limit.ns()));
    }
    std::size_t recv(void *bytes, std::size_t n, deadline limit, std::error_code &ec) const noexcept
    {
        return size(call(ec, gs_recv, fd_, bytes, n, 0, limit.ns()));
    }

    /* Returns how many bytes were sent, of a stream possibly fewer than n. */
    std::size_t send(const void *bytes, std::size_t n, deadline limit = deadline::never()) const
    {
        return size(call(gs_send, fd_, bytes, n, 0, limit.ns()));
    }
    std::size_t send(const void *bytes, std::size_t n, deadline limit,
                     std::error_code &ec) const noexcept
    {
        return size(call(ec, gs_send, fd_, bytes, n, 0, limit.ns()));
    }

    /* Send all n bytes. After an error it is unknown how much was sent. */
    void send_all(const void *bytes, std::size_t n, deadline limit = deadline::never()) const
    {
        call(gs_send_all, fd_, bytes, n, limit.ns());
    }
    void send_all(const void *bytes, std::size_t n, deadline limit,
                  std::error_code &ec) const noexcept
    {
        call(ec, gs_send_all, fd_, bytes, n, limit.ns());
    }

    /* The new descriptor is non-blocking, and closed by exec. */
    file_descriptor accept(deadline limit = deadline::never()) const
    {
        return file_descriptor(call(gs_accept, fd_, nullptr, nullptr, SOCK_CLOEXEC, limit.ns()));
    }
    file_descriptor accept(deadline limit, std::error_code &ec) const noexcept
    {
        return file_descriptor(
            call(ec, gs_accept, fd_, nullptr, nullptr, SOCK_CLOEXEC, limit.ns()));
    }

    /* The socket must be non-blocking, or the call blocks the worker. */
    void connect(const sockaddr *address, socklen_t length,
                 deadline limit = deadline::never()) const
    {
        call(gs_connect, fd_, address, length, limit.ns());
    }
    void connect(const sockaddr *address, socklen_t length, deadline limit,
                 std::error_code &ec) const noexcept
    {
        call(ec, gs_connect, fd_, address, length, limit.ns());
    }

    /* ---- Any descriptor ---- */

    std::size_t read(void *bytes, std::size_t n, deadline limit = deadline::never()) const
    {
        return size(call(gs_read, fd_, bytes, n, limit.ns()));
    }
    std::size_t read(void *bytes, std::size_t n, deadline limit, std::error_code &ec) const noexcept
    {
        return size(call(ec, gs_read, fd_, bytes, n, limit.ns()));
    }

    std::size_t write(const void *bytes, std::size_t n, deadline limit = deadline::never()) const
    {
        return size(call(gs_write, fd_, bytes, n, limit.ns()));
    }
    std::size_t write(const void *bytes, std::size_t n, deadline limit,
                      std::error_code &ec) const noexcept
    {
        return size(call(ec, gs_write, fd_, bytes, n, limit.ns()));
    }

  private:
    static std::size_t size(ssize_t result) noexcept
    {
        return result > 0 ? static_cast<std::size_t>(result) : 0;
    }

    int fd_ = -1;
};

} // namespace gossamer

#endif
