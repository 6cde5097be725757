/* Scopes of user threads in C++: structured concurrency. All threads of a scope, its members, end
 * before the scope does, and an exception that leaves one of them cancels the others.
 *
 *     gossamer::scope scope;
 *     scope.spawn(fetch, std::ref(first));
 *     scope.spawn(fetch, std::ref(second));
 *     scope.wait(5s);                         throws what a member has thrown
 *
 * What a member returns is discarded. The destructor waits for members that nobody has waited for.
 * Errors and cancellation are described in thread.hpp.
 */
#ifndef GOSSAMER_SCOPE_HPP
#define GOSSAMER_SCOPE_HPP

#include <climits>
#include <gossamer/scope.h>
#include <gossamer/thread.hpp>

namespace gossamer
{

/* ---- Scopes: threads that all end before their owner continues ---- */

class scope
{
  public:
    /* max_threads: limit of the members that exist at the same time; 0: any number. */
    explicit scope(unsigned max_threads = 0) noexcept : scope(thread_attributes(), max_threads)
    {
    }

    /* attributes: of all members. */
    explicit scope(const thread_attributes &attributes, unsigned max_threads = 0) noexcept
        : attributes_(attributes), exceptions_(std::uncaught_exceptions())
    {
        native_.max_threads = max_threads;
        native_.attributes = &attributes_;
    }

    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

    /* Wait until all members have ended. They are canceled if an exception leaves the scope's
     * block, or if the caller is canceled. What members have thrown is lost. */
    ~scope()
    {
        if (std::uncaught_exceptions() > exceptions_)
            cancel();
        detail::wait(gs_scope_wait, &native_, GS_NEVER);
    }

    /* Start a member that calls fn(arguments...) with copies, or what was moved there, which are
     * destroyed when it ends. Waits for a place if the scope has a limit. */
    template <class F, class... A, detail::if_callable<F, A...> = 0>
    void spawn(F &&fn, A &&...arguments)
    {
        using member = member_of<std::decay_t<F>, std::decay_t<A>...>;
        auto state =
            std::make_unique<member>(*this, std::forward<F>(fn), std::forward<A>(arguments)...);
        call(gs_scope_spawn, &native_, member::run, static_cast<void *>(state.get()), GS_NEVER);
        static_cast<void>(state.release());
    }

    /* Cancel all members; later spawns throw gossamer::canceled. */
    void cancel() noexcept
    {
        gs_scope_cancel(&native_);
    }

    /* Wait until all members have ended. At the deadline, or if the caller is canceled, they are
     * canceled and still waited for. Throws what came first: the exception of a member,
     * std::errc::timed_out or gossamer::canceled. */
    void wait(deadline limit = deadline::never())
    {
        const int result = detail::wait(gs_scope_wait, &native_, limit.ns());
        if (result == thrown)
            std::rethrow_exception(error_);
        check(result);
    }

    /* For the C interface. */
    gs_scope *native_handle() noexcept
    {
        return &native_;
    }

  private:
    /* The error of a member that has thrown: none of the system's. */
    static constexpr int thrown = INT_MIN;

    /* The function of a member and its arguments, which end with the thread, even if that calls
     * gs_thread_exit. */
    template <class... Parts> class member_of
    {
      public:
        template <class... A>
        explicit member_of(scope &owner, A &&...parts)
            : owner_(owner), parts_(std::forward<A>(parts)...)
        {
        }

        static int run(void *argument) noexcept
        {
            auto *self = static_cast<member_of *>(argument);
            const auto leave = [](void *member) {
                detail::end_exceptions();
                delete static_cast<member_of *>(member);
            };
            gs_cleanup_push(&self->cleanup_, leave, self);
            return self->call();
        }

      private:
        int call() noexcept
        {
            try {
                std::apply(
                    [](auto &&...parts) {
                        static_cast<void>(std::invoke(std::forward<decltype(parts)>(parts)...));
                    },
                    std::move(parts_));
            } catch (const canceled &) {
                return -ECANCELED;
            } catch (const detail::thread_exit &) {
                return 0;
            } catch (...) {
                owner_.set_error(std::current_exception());
                return thrown;
            }
            return 0;
        }

        scope &owner_;
        std::tuple<Parts...> parts_;
        gs_cleanup cleanup_{};
    };

    void set_error(std::exception_ptr error) noexcept
    {
        if (!has_error_.test_and_set())
            error_ = std::move(error);
    }

    thread_attributes attributes_;
    gs_scope native_{};
    int exceptions_;
    std::atomic_flag has_error_ = ATOMIC_FLAG_INIT;
    std::exception_ptr error_;
};

} // namespace gossamer

#endif
