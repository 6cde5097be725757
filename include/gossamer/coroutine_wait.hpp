/* What coroutines wait for: descriptors, time, signals and functions that block. Part of
 * gossamer/coroutine.hpp.
 *
 *     const gossamer::async::descriptor listener(loop, gossamer::listen(":8080"));
 *     loop.spawn(serve(co_await listener.accept()));
 *     co_await gossamer::async::sleep(100ms);
 */
#ifndef GOSSAMER_COROUTINE_WAIT_HPP
#define GOSSAMER_COROUTINE_WAIT_HPP

#include <gossamer/coroutine.hpp>
#include <gossamer/sys.h>

namespace gossamer::async
{

/* ---- Descriptors ---- */

class descriptor;

namespace detail
{

template <class Result, class Start>
auto operate(Start start, deadline limit, std::error_code *ec) noexcept
{
    return operation<Start, Result>(start, limit, ec);
}

inline auto receiving(int fd, void *bytes, std::size_t n, deadline limit,
                      std::error_code *ec) noexcept
{
    const auto start = [=](gs_op &op) { return gs_op_recv(&op, fd, bytes, n, 0); };
    return operate<std::size_t>(start, limit, ec);
}

inline auto accepting(int fd, deadline limit, std::error_code *ec) noexcept
{
    const auto start = [=](gs_op &op) {
        return gs_op_accept(&op, fd, SOCK_NONBLOCK | SOCK_CLOEXEC);
    };
    return operate<descriptor>(start, limit, ec);
}

inline auto connecting(int fd, const sockaddr *address, socklen_t length, deadline limit,
                       std::error_code *ec) noexcept
{
    const auto start = [=](gs_op &op) { return gs_op_connect(&op, fd, address, length); };
    return operate<void>(start, limit, ec);
}

/* Sends are tried at once, unless the kernel executes operations, and then wait for room. */
class sending : public waiting<sending>
{
  public:
    struct request {
        int fd;
        const void *bytes;
        std::size_t n;
        bool sends_all, is_tried;
    };

    sending(request wanted, deadline limit, std::error_code *ec = nullptr) noexcept
        : waiting(limit, ec), wanted_(wanted)
    {
    }

    bool await_ready() noexcept
    {
        std::int64_t sent = -EINTR;
        if (!wanted_.is_tried)
            return false;
        do
            sent = gs_sys_send(wanted_.fd, rest(), wanted_.n - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (sent == -EINTR || (sent > 0 && is_partial(sent)));
        result = sent < 0 ? sent : static_cast<std::int64_t>(sent_);
        return sent != -EAGAIN;
    }

    int start() noexcept
    {
        return gs_op_send(&of->op, wanted_.fd, rest(), wanted_.n - sent_, 0);
    }

    bool interrupt() noexcept override
    {
        gs_op_cancel(&of->op);
        return false;
    }

    bool goes_on(std::int64_t &sent) noexcept override
    {
        const bool goes_on = sent > 0 && is_partial(sent);
        if (sent >= 0)
            sent = static_cast<std::int64_t>(sent_);
        if (goes_on)
            sent = of->error ? of->error : start();
        return goes_on && !sent;
    }

    std::size_t await_resume() const
    {
        return static_cast<std::size_t>(checked());
    }

  private:
    const char *rest() const noexcept
    {
        return static_cast<const char *>(wanted_.bytes) + sent_;
    }

    bool is_partial(std::int64_t sent) noexcept
    {
        sent_ += static_cast<std::size_t>(sent);
        return wanted_.sends_all && sent_ < wanted_.n;
    }

    request wanted_;
    std::size_t sent_ = 0;
};

} // namespace detail

/* Owns a descriptor that coroutines of one loop use. Move only. It must not outlive the object of
 * its loop. If it is closed, waits of other coroutines for it fail with
 * std::errc::bad_file_descriptor. At a time, one coroutine may receive and one send. The functions
 * are those of file_descriptor, and are awaited. */
class [[nodiscard]] descriptor
{
  public:
    descriptor(loop &owner, file_descriptor file) noexcept : owner_(&owner), file_(std::move(file))
    {
    }
    descriptor(descriptor &&other) noexcept = default;
    descriptor &operator=(descriptor &&other) noexcept
    {
        std::swap(owner_, other.owner_);
        std::swap(file_, other.file_);
        return *this;
    }
    ~descriptor()
    {
        close();
    }

    void close() noexcept
    {
        release();
    }

    /* Another may use it from now on, and closes it. */
    file_descriptor release() noexcept
    {
        if (file_ && owner_->native_handle())
            gs_loop_fd_closed(owner_->native_handle(), file_.get());
        return std::move(file_);
    }

    /* -1: there is none. */
    int get() const noexcept
    {
        return file_.get();
    }

    explicit operator bool() const noexcept
    {
        return static_cast<bool>(file_);
    }

    /* co_await: std::size_t, the number of bytes; 0: the end of the stream. */
    auto recv(void *bytes, std::size_t n, deadline limit = deadline::never()) const noexcept
    {
        return detail::receiving(get(), bytes, n, limit, nullptr);
    }
    auto recv(void *bytes, std::size_t n, deadline limit, std::error_code &ec) const noexcept
    {
        return detail::receiving(get(), bytes, n, limit, &ec);
    }

    /* co_await: std::size_t, the number of bytes. */
    auto send(const void *bytes, std::size_t n, deadline limit = deadline::never()) const noexcept
    {
        return detail::sending({get(), bytes, n, false, !owner_->submits()}, limit);
    }
    auto send(const void *bytes, std::size_t n, deadline limit, std::error_code &ec) const noexcept
    {
        return detail::sending({get(), bytes, n, false, !owner_->submits()}, limit, &ec);
    }

    /* co_await: n. After an error it is unknown how much was sent. */
    auto send_all(const void *bytes, std::size_t n,
                  deadline limit = deadline::never()) const noexcept
    {
        return detail::sending({get(), bytes, n, true, !owner_->submits()}, limit);
    }
    auto send_all(const void *bytes, std::size_t n, deadline limit,
                  std::error_code &ec) const noexcept
    {
        return detail::sending({get(), bytes, n, true, !owner_->submits()}, limit, &ec);
    }

    /* co_await: the descriptor of a connection, non-blocking, and closed by exec. */
    auto accept(deadline limit = deadline::never()) const noexcept
    {
        return detail::accepting(get(), limit, nullptr);
    }
    auto accept(deadline limit, std::error_code &ec) const noexcept
    {
        return detail::accepting(get(), limit, &ec);
    }

    /* co_await: nothing. The socket must be non-blocking, and the address valid until the end.
     * After an error the socket cannot be used any more. */
    auto connect(const sockaddr *address, socklen_t length,
                 deadline limit = deadline::never()) const noexcept
    {
        return detail::connecting(get(), address, length, limit, nullptr);
    }
    auto connect(const sockaddr *address, socklen_t length, deadline limit,
                 std::error_code &ec) const noexcept
    {
        return detail::connecting(get(), address, length, limit, &ec);
    }

  private:
    loop *owner_;
    file_descriptor file_;
};

/* ---- Time and signals ---- */

namespace detail
{

class sleeping : public waiting<sleeping, true>
{
  public:
    explicit sleeping(deadline end) noexcept : waiting(end, nullptr)
    {
    }

    static int start() noexcept
    {
        return 0;
    }
    bool interrupt() noexcept override
    {
        return true;
    }
    void await_resume() const
    {
        if (result != -ETIMEDOUT)
            check(result);
    }
};

class signal_waiting : public waiting<signal_waiting, true>
{
  public:
    signal_waiting(int number, deadline limit, std::error_code *ec) noexcept
        : waiting(limit, ec), number_(number)
    {
    }

    int start() noexcept
    {
        gs_signal_init(&signal_, of->owner.native_handle(), on_signal);
        signal_.watcher.data = this;
        return gs_signal_start(&signal_, number_);
    }
    bool interrupt() noexcept override
    {
        gs_signal_stop(&signal_);
        return true;
    }
    void await_resume() const
    {
        checked();
    }

  private:
    static void on_signal(gs_signal *signal) noexcept
    {
        auto *self = static_cast<signal_waiting *>(signal->watcher.data);
        gs_signal_stop(signal);
        self->of->resume(0);
    }

    int number_;
    gs_signal signal_{};
};

} // namespace detail

/* co_await: nothing, when the time has come. */
inline auto sleep(deadline end) noexcept
{
    return detail::sleeping(end);
}

/* co_await: nothing, when the signal has come. It is caught only meanwhile. */
inline auto wait_signal(int number, deadline limit = deadline::never()) noexcept
{
    return detail::signal_waiting(number, limit, nullptr);
}
inline auto wait_signal(int number, deadline limit, std::error_code &ec) noexcept
{
    return detail::signal_waiting(number, limit, &ec);
}

/* ---- Functions that block ---- */

namespace detail
{

template <class F> class working : public waiting<working<F>>
{
  public:
    using result_type = std::decay_t<std::invoke_result_t<F &>>;

    explicit working(F &&fn) : waiting<working>(deadline::never(), nullptr), fn_(std::move(fn))
    {
    }

    int start() noexcept
    {
        gs_work_init(&work_, this->of->owner.native_handle(), on_done);
        work_.watcher.data = this;
        return gs_work_start(&work_, run);
    }
    bool interrupt() noexcept override
    {
        gs_work_cancel(&work_);
        return false;
    }
    result_type await_resume()
    {
        this->checked();
        return outcome_.take();
    }

  private:
    static void run(gs_work *work) noexcept
    {
        auto *self = static_cast<working *>(work->watcher.data);
        try {
            if constexpr (std::is_void_v<result_type>)
                self->fn_();
            else
                self->outcome_.value.emplace(self->fn_());
        } catch (...) {
            self->outcome_.error = std::current_exception();
        }
    }

    static void on_done(gs_work *work, int result) noexcept
    {
        static_cast<working *>(work->watcher.data)->of->resume(result);
    }

    F fn_;
    gs_work work_{};
    outcome<result_type> outcome_;
};

} // namespace detail

/* Call fn in a kernel thread of the pool (loop_work.h). co_await: what it returns or throws. Once
 * it is called, cancellation waits for its end. */
template <class F> auto run_blocking(F fn)
{
    return detail::working<F>(std::move(fn));
}

} // namespace gossamer::async

#endif
