/* User-level threads in C++: the runtime, threads with callables, results and exceptions.
 *
 *     int main()
 *     {
 *         return gossamer::run([] {
 *             gossamer::task sum(add, 20, 22);             starts a thread
 *             return sum.join() == 42 ? 0 : 1;             returns or throws what add did
 *         });
 *     }
 *
 * Errors: a function that fails throws std::system_error with the error number, or stores it in a
 * std::error_code if it is given one as its last argument. A deadline that passes is the error
 * std::errc::timed_out.
 *
 * Cancellation: a wait of a canceled thread throws gossamer::canceled, so that its stack unwinds
 * and all destructors run; functions with a std::error_code store std::errc::operation_canceled.
 * Like the waits of a canceled thread in C, each further wait fails as well. Destructors that have
 * to wait need a gossamer::cancellation_disabled. Locking is not interrupted.
 *
 * Exceptions never leave their thread. One that leaves the thread's function ends the thread, and
 * join() throws it again; it is lost if the thread was detached or is not joined, like that of a
 * std::future. To handle the errors of a detached thread, catch them in its function. An
 * exception must not leave a function that is called by the C interface.
 *
 * Exceptions and waits: the C++ runtime notes for each kernel thread which exceptions are handled.
 * All waits here put these notes aside, so that a thread may wait in a catch block, or in a
 * destructor that an exception has called. A function of the C interface that may wait must be
 * called there through gossamer::call.
 *
 * gs_thread_exit ends a thread without unwinding its stack: no destructor runs, except of the
 * thread's function and its arguments. From C++, call gossamer::exit_thread.
 *
 * As with the C interface, thread_local variables are shared by the threads of a worker. The
 * initializer of a static variable in a function must not wait.
 */
#ifndef GOSSAMER_THREAD_HPP
#define GOSSAMER_THREAD_HPP

#include <atomic>
#include <cerrno>
#include <cxxabi.h>
#include <exception>
#include <functional>
#include <gossamer/clock.hpp>
#include <gossamer/error.hpp>
#include <gossamer/thread.h>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace gossamer
{

/* Thrown by the waits of a canceled thread. It is no std::exception, so that handlers of errors let
 * it pass; catch (...) should throw it again. */
class GS_API canceled{};

namespace detail
{

class GS_API thread_exit{};

/* Of the C++ runtime, for each kernel thread: the stack of exceptions that are handled, and the
 * number of those that are thrown and not yet caught (Itanium C++ ABI, Exception Handling,
 * 2.2.2). The attributes of the declaration in <cxxabi.h> would let the compiler keep the address
 * across a wait, after which the thread may be on another worker. */
struct exception_globals {
    void *caught;
    unsigned int uncaught;
};
exception_globals *get_exception_globals() noexcept __asm__("__cxa_get_globals");

/* The exceptions of the calling thread, put aside while other threads may run. */
class exceptions_aside
{
  public:
    exceptions_aside() noexcept : saved_(std::exchange(*get_exception_globals(), {}))
    {
    }
    ~exceptions_aside()
    {
        *get_exception_globals() = saved_;
    }
    exceptions_aside(const exceptions_aside &) = delete;
    exceptions_aside &operator=(const exceptions_aside &) = delete;

  private:
    exception_globals saved_;
};

/* End the exceptions that the calling thread was handling when it called gs_thread_exit. */
inline void end_exceptions() noexcept
{
    while (get_exception_globals()->caught)
        abi::__cxa_end_catch();
    *get_exception_globals() = {};
}

/* Call a function of the C interface that may wait. */
template <class F, class... A> auto wait(F fn, A... arguments) noexcept
{
    exceptions_aside aside;
    return fn(arguments...);
}

[[noreturn]] inline void fail(int error)
{
    if (error == ECANCELED)
        throw canceled();
    throw std::system_error(code_of(-error));
}

} // namespace detail

/* ---- Functions of the C interface ---- */

/* The result of a function of the C interface: returned if it is not negative, else thrown as
 * std::system_error or gossamer::canceled. */
template <class Result> Result check(Result result)
{
    if (result < 0)
        detail::fail(static_cast<int>(-result));
    return result;
}

/* Call a function of the C interface, and check its result:
 *
 *     gossamer::call(gs_fsync, fd, gossamer::deadline(5s).ns()); */
template <class F, class... A> auto call(F fn, A... arguments) -> std::invoke_result_t<F &, A &...>
{
    return check(detail::wait(fn, arguments...));
}

/* The same without exceptions. Returns what the function returns, negative on failure. */
template <class F, class... A>
auto call(std::error_code &ec, F fn, A... arguments) noexcept -> std::invoke_result_t<F &, A &...>
{
    const auto result = detail::wait(fn, arguments...);
    ec = code_of(result);
    return result;
}

/* ---- The calling thread ---- */

/* While it exists, cancellation does not interrupt the waits of the calling thread. */
class cancellation_disabled
{
  public:
    cancellation_disabled() noexcept : was_cancelable_(gs_thread_set_cancelable(false))
    {
    }
    ~cancellation_disabled()
    {
        gs_thread_set_cancelable(was_cancelable_);
    }
    cancellation_disabled(const cancellation_disabled &) = delete;
    cancellation_disabled &operator=(const cancellation_disabled &) = delete;

  private:
    bool was_cancelable_;
};

/* End the calling thread, which was started by this interface: an internal exception unwinds its
 * stack. A handler of all exceptions must throw it again. */
[[noreturn]] inline void exit_thread()
{
    throw detail::thread_exit();
}

namespace this_thread
{

/* Let the other ready threads of this worker run first. */
inline void yield() noexcept
{
    detail::exceptions_aside aside;
    gs_thread_yield();
}

inline void sleep(deadline end)
{
    call(gs_thread_sleep, end.ns());
}

inline bool is_canceled() noexcept
{
    return gs_thread_is_canceled();
}

} // namespace this_thread

/* ---- Results ---- */

namespace detail
{

/* What a thread's function has returned or thrown. */
template <class T> class outcome
{
  public:
    template <class F> void set(F &&fn) noexcept
    {
        try {
            if constexpr (std::is_void_v<T>)
                static_cast<void>(fn());
            else
                value_.emplace(fn());
        } catch (const canceled &) {
            return;
        } catch (const thread_exit &) {
            return;
        } catch (...) {
            error_ = std::current_exception();
        }
    }

    T take()
    {
        if (error_)
            std::rethrow_exception(std::exchange(error_, nullptr));
        if constexpr (!std::is_void_v<T>) {
            if (!value_)
                throw std::system_error(ECANCELED, std::system_category(),
                                        "the thread has no result");
            return std::move(*value_);
        }
    }

  private:
    std::optional<std::conditional_t<std::is_void_v<T>, std::monostate, T>> value_;
    std::exception_ptr error_;
};

/* Shared by a thread and its task; the last one deletes it. */
template <class T> class state
{
  public:
    state() = default;
    state(const state &) = delete;
    state &operator=(const state &) = delete;
    virtual ~state() = default;

    void release() noexcept
    {
        if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1)
            delete this;
    }

    outcome<T> result;

  protected:
    /* Called by the thread. It lets go when it ends, even if it does so with gs_thread_exit. */
    void enter() noexcept
    {
        const auto leave = [](void *self) {
            end_exceptions();
            static_cast<state *>(self)->release();
        };
        gs_cleanup_push(&cleanup_, leave, this);
    }

  private:
    std::atomic<int> owners_{2};
    gs_cleanup cleanup_{};
};

/* The state with the function and its arguments, which end with the thread. */
template <class T, class... Parts> class started final : public state<T>
{
  public:
    template <class... A>
    explicit started(std::in_place_t in_place, A &&...parts)
        : parts_(in_place, std::forward<A>(parts)...)
    {
    }

    static void *run(void *argument) noexcept
    {
        auto *self = static_cast<started *>(argument);
        self->enter();
        self->result.set([self]() -> decltype(auto) {
            return std::apply(
                [](auto &&...parts) -> decltype(auto) {
                    return std::invoke(std::forward<decltype(parts)>(parts)...);
                },
                std::move(self->parts_.value()));
        });
        self->parts_.reset();
        return nullptr;
    }

  private:
    std::optional<std::tuple<Parts...>> parts_;
};

template <class F, class... A>
using result_of = std::decay_t<std::invoke_result_t<std::decay_t<F>, std::decay_t<A>...>>;

template <class F, class... A>
using if_callable = std::enable_if_t<std::is_invocable_v<std::decay_t<F>, std::decay_t<A>...>, int>;

} // namespace detail

/* ---- Threads ---- */

/* thread_attributes attributes{}; attributes.name = ...; */
using thread_attributes = gs_thread_attributes;

/* A thread and its result, of type T; like std::jthread and std::future in one. Move only. The
 * functions are for user threads of the same run; a task that still has a thread is destroyed by
 * one of them, or after the run. */
template <class T> class [[nodiscard]] task
{
  public:
    task() noexcept = default;

    /* Start a thread that calls fn(arguments...) with copies, or what was moved there, which are
     * destroyed when it ends. */
    template <class F, class... A, detail::if_callable<F, A...> = 0>
    explicit task(F &&fn, A &&...arguments)
        : task(thread_attributes(), std::forward<F>(fn), std::forward<A>(arguments)...)
    {
    }

    template <class F, class... A, detail::if_callable<F, A...> = 0>
    explicit task(const thread_attributes &attributes, F &&fn, A &&...arguments)
    {
        using started = detail::started<T, std::decay_t<F>, std::decay_t<A>...>;
        auto state = std::make_unique<started>(std::in_place, std::forward<F>(fn),
                                               std::forward<A>(arguments)...);
        check(gs_thread_spawn(&attributes, started::run, state.get(), &thread_));
        state_ = state.release();
    }

    task(task &&other) noexcept
        : thread_(std::exchange(other.thread_, nullptr)),
          state_(std::exchange(other.state_, nullptr))
    {
    }

    task &operator=(task &&other) noexcept
    {
        task taken(std::move(other));
        std::swap(thread_, taken.thread_);
        std::swap(state_, taken.state_);
        return *this;
    }

    /* Cancel the thread and wait for its end, which cancellation does not interrupt. What it
     * returns or throws is lost. */
    ~task()
    {
        if (!thread_)
            return;
        if (gs_thread_self())
            cancel_and_wait();
        state_->release(); // if no user threads run, the thread has ended
    }

    bool joinable() const noexcept
    {
        return thread_;
    }

    /* Wait for the end of the thread. Returns what its function has returned, or throws what it has
     * thrown. A thread that was canceled, or called exit_thread, has no result: that is no error if
     * T is void, otherwise std::errc::operation_canceled. After std::errc::timed_out and
     * gossamer::canceled, which mean the caller, the thread can still be joined. */
    T join(deadline limit = deadline::never())
    {
        if (!thread_)
            detail::fail(EINVAL);
        call(gs_thread_join, thread_, limit.ns(), nullptr);
        thread_ = nullptr;
        const std::unique_ptr<detail::state<T>, releaser> state(std::exchange(state_, nullptr));
        return state->result.take();
    }

    /* Leave the thread to itself. */
    void detach()
    {
        if (!thread_)
            detail::fail(EINVAL);
        gs_thread_detach(std::exchange(thread_, nullptr));
        std::exchange(state_, nullptr)->release();
    }

    void cancel() noexcept
    {
        if (thread_)
            gs_thread_cancel(thread_);
    }

    /* For the C interface; NULL if there is none. */
    gs_thread *native_handle() const noexcept
    {
        return thread_;
    }

  private:
    struct releaser {
        void operator()(detail::state<T> *state) const noexcept
        {
            state->release();
        }
    };

    void cancel_and_wait() noexcept
    {
        const cancellation_disabled disabled;
        gs_thread_cancel(thread_);
        if (detail::wait(gs_thread_join, thread_, GS_NEVER, nullptr))
            gs_thread_detach(thread_); // the thread destroys its own task
    }

    gs_thread *thread_ = nullptr;
    detail::state<T> *state_ = nullptr;
};

template <class F, class... A, detail::if_callable<F, A...> = 0>
task(F &&, A &&...) -> task<detail::result_of<F, A...>>;
template <class F, class... A, detail::if_callable<F, A...> = 0>
task(const thread_attributes &, F &&, A &&...) -> task<detail::result_of<F, A...>>;

/* A thread whose result is discarded. */
using thread = task<void>;

/* ---- The runtime ---- */

using run_options = gs_threads_options;

/* Call fn in the first user thread, and return when all threads have ended: what fn has returned,
 * or throw what it has thrown, as join() does. Throws std::system_error if the runtime fails, as
 * gs_threads_run does (thread.h); the threads that it has abandoned are never unwound. */
template <class F> auto run(const run_options &options, F &&fn)
{
    struct first_thread {
        std::remove_reference_t<F> *fn;
        detail::outcome<std::decay_t<std::invoke_result_t<F>>> result;
        gs_cleanup cleanup;
    } first{&fn, {}, {}};
    gs_thread_fn *enter = [](void *argument) -> void * {
        auto *self = static_cast<first_thread *>(argument);
        gs_cleanup_push(&self->cleanup, [](void *) { detail::end_exceptions(); }, nullptr);
        self->result.set([self]() -> decltype(auto) { return std::forward<F>(*self->fn)(); });
        return nullptr;
    };
    if (const int result = detail::wait(gs_threads_run, &options, enter, &first, nullptr))
        throw std::system_error(-result, std::system_category());
    return first.result.take();
}

template <class F> auto run(F &&fn)
{
    return run(run_options(), std::forward<F>(fn));
}

} // namespace gossamer

#endif
