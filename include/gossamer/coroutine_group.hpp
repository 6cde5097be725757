/* Several tasks at once. Part of gossamer/coroutine.hpp.
 *
 *     auto [first, second] = co_await gossamer::async::when_all(fetch(a), fetch(b));
 */
#ifndef GOSSAMER_COROUTINE_GROUP_HPP
#define GOSSAMER_COROUTINE_GROUP_HPP

#include <gossamer/coroutine.hpp>
#include <tuple>
#include <vector>

namespace gossamer::async
{

namespace detail
{

class group;

/* The outermost coroutine of a member. */
struct member {
    struct promise_type {
        template <class... A> explicit promise_type(group &owner, A &...) noexcept;
        promise_type(const promise_type &) = delete;
        promise_type &operator=(const promise_type &) = delete;

        member get_return_object() noexcept
        {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        static std::suspend_always initial_suspend() noexcept
        {
            return {};
        }
        struct final_awaiter {
            static constexpr bool await_ready() noexcept
            {
                return false;
            }
            static std::coroutine_handle<>
            await_suspend(std::coroutine_handle<promise_type> handle) noexcept;
            static void await_resume() noexcept
            {
            }
        };
        static final_awaiter final_suspend() noexcept
        {
            return {};
        }
        static void return_void() noexcept
        {
        }
        static void unhandled_exception() noexcept
        {
            std::terminate(); /* see group::run */
        }

        chain self;
        chain *of;
        group *in;
    };

    std::coroutine_handle<promise_type> handle;
};

/* Tasks that run at the same time, each in a chain of its own. The first exception cancels the
 * others. */
class group : public waiting<group>
{
  public:
    explicit group(std::size_t count) : waiting(deadline::never(), nullptr)
    {
        members_.reserve(count);
    }
    group(const group &) = delete;
    group &operator=(const group &) = delete;
    ~group()
    {
        for (const auto handle : members_)
            handle.destroy();
    }

    template <class Promise> bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        return waiting::await_suspend(handle) && !is_last();
    }

    int start() noexcept
    {
        start_members();
        return 0;
    }

    bool interrupt() noexcept override
    {
        for (const auto handle : members_)
            handle.promise().self.cancel();
        return false;
    }

    /* A member has ended. Returns the coroutine that continues. */
    std::coroutine_handle<> left() noexcept
    {
        return is_last() ? of->end() : std::noop_coroutine();
    }

  protected:
    virtual void start_members() noexcept = 0;

    /* There is room for it. It may run after an exception of another, which has canceled it. */
    template <class T> void start_member(task<T> &body, outcome<T> &ret_outcome) noexcept
    {
        try {
            const auto handle = run(*this, body, ret_outcome).handle;
            members_.push_back(handle);
            running_++;
            if (error_)
                handle.promise().self.cancel();
            handle.resume();
        } catch (...) {
            fail();
        }
    }

    void rethrow() const
    {
        check(result);
        if (error_)
            std::rethrow_exception(error_);
    }

  private:
    template <class T> static member run(group &self, task<T> &body, outcome<T> &ret_outcome)
    {
        try {
            if constexpr (std::is_void_v<T>)
                co_await body;
            else
                ret_outcome.value.emplace(co_await body);
        } catch (...) {
            self.fail();
        }
    }

    void fail() noexcept
    {
        if (!error_) {
            error_ = std::current_exception();
            interrupt();
        }
    }

    bool is_last() noexcept
    {
        return --running_ == 0;
    }

    std::vector<std::coroutine_handle<member::promise_type>> members_;
    std::size_t running_ = 1; /* the start of the members counts as one */
    std::exception_ptr error_;
};

template <class... A>
member::promise_type::promise_type(group &owner, A &...) noexcept
    : self(owner.of->owner), of(&self), in(&owner)
{
}

inline std::coroutine_handle<> member::promise_type::final_awaiter::await_suspend(
    std::coroutine_handle<promise_type> handle) noexcept
{
    return handle.promise().in->left();
}

template <class... T> class all_of : public group
{
  public:
    explicit all_of(task<T> &&...bodies) : group(sizeof...(T)), bodies_(std::move(bodies)...)
    {
    }

    std::tuple<value_of<T>...> await_resume()
    {
        rethrow();
        return std::apply(
            [](auto &...outcomes) { return std::tuple<value_of<T>...>(value(outcomes)...); },
            outcomes_);
    }

  private:
    template <class U> static value_of<U> value(outcome<U> &outcome)
    {
        if constexpr (std::is_void_v<U>)
            return {};
        else
            return std::move(*outcome.value);
    }

    void start_members() noexcept override
    {
        start_each(std::index_sequence_for<T...>());
    }
    template <std::size_t... I> void start_each(std::index_sequence<I...>) noexcept
    {
        (start_member(std::get<I>(bodies_), std::get<I>(outcomes_)), ...);
    }

    std::tuple<task<T>...> bodies_;
    std::tuple<outcome<T>...> outcomes_;
};

template <class T> class each_of : public group
{
  public:
    explicit each_of(std::vector<task<T>> bodies)
        : group(bodies.size()), bodies_(std::move(bodies)), outcomes_(bodies_.size())
    {
    }

    auto await_resume()
    {
        rethrow();
        if constexpr (!std::is_void_v<T>) {
            std::vector<T> values;
            values.reserve(outcomes_.size());
            for (outcome<T> &each : outcomes_)
                values.push_back(std::move(*each.value));
            return values;
        }
    }

  private:
    void start_members() noexcept override
    {
        for (std::size_t i = 0; i < bodies_.size(); i++)
            start_member(bodies_[i], outcomes_[i]);
    }

    std::vector<task<T>> bodies_;
    std::vector<outcome<T>> outcomes_;
};

} // namespace detail

/* Run tasks at the same time. co_await: a tuple of their results, in which void is a
 * std::monostate, or for a vector a vector of them, when all have ended. An exception cancels the
 * others, and is thrown again when these have ended. */
template <class... T> auto when_all(task<T>... bodies)
{
    return detail::all_of<T...>(std::move(bodies)...);
}
template <class T> auto when_all(std::vector<task<T>> bodies)
{
    return detail::each_of<T>(std::move(bodies));
}

} // namespace gossamer::async

#endif
