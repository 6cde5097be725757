#include "tests/cpp/fixture.hpp"

#include <string>
#include <vector>

using namespace std::chrono_literals;
using gossamer::channel;
using gossamer::deadline;
using gossamer::thread;

namespace
{

struct pair {
    pair(int new_first, double new_second) : first(new_first), second(new_second)
    {
    }
    int first;
    double second;
};
static_assert(std::is_trivially_copyable_v<pair> && !std::is_default_constructible_v<pair>);

struct move_only_bytes {
    move_only_bytes() = default;
    move_only_bytes(const move_only_bytes &) = delete;
    move_only_bytes(move_only_bytes &&) = default;
    move_only_bytes &operator=(move_only_bytes &&) = default;
    int value = 6;
};
static_assert(std::is_trivially_copyable_v<move_only_bytes>);

using counted_pointer = std::unique_ptr<counted>;

counted_pointer pointer_to(int value)
{
    return std::make_unique<counted>(value);
}

int value_of(const counted &item)
{
    return *item.value;
}

int value_of(const counted_pointer &item)
{
    return *item->value;
}

/* Fill the channel, and leave it with what nobody has received. */
template <class T, class F> void abandon_items(F make)
{
    channel<T> one(3);
    one.send(make(1));
    one.send(make(2));
    MUST(value_of(*one.receive()) == 1);
    one.send(make(3));
    one.send(make(4));
    MUST(counted::live >= 3);
}

/* An item that was not sent is still the caller's. */
template <class T, class F> void fail_to_send(F make)
{
    channel<T> full(1);
    full.send(make(1));
    T item = make(2);
    std::error_code ec;
    MUST(!full.try_send(std::move(item)) && value_of(item) == 2);
    full.send(std::move(item), 1ms, ec);
    MUST(ec == std::errc::timed_out && value_of(item) == 2);
    MUST(error_of([&] { full.send(std::move(item), 1ms); }) == std::errc::timed_out);
    full.close();
    MUST(error_of([&] { full.send(std::move(item)); }) == std::errc::broken_pipe);
    MUST(value_of(item) == 2 && value_of(*full.receive()) == 1);
}

template <class T, class F> void cancel_sender(F make)
{
    channel<T> full;
    gossamer::semaphore is_sending(0);
    thread sender([&] {
        T item = make(2);
        is_sending.release();
        MUST(is_canceled_in([&] { full.send(std::move(item)); }));
        MUST(value_of(item) == 2);
    });
    is_sending.acquire();
    gossamer::this_thread::sleep(1ms);
    sender.cancel();
    sender.join();
}

counted counted_value(int value)
{
    return counted(value);
}

} // namespace

TEST(items_of_several_types_arrive_in_order)
{
    run_both([] {
        channel<pair> pairs(2);
        pairs.send({1, 0.5});
        const pair again(2, 1.5);
        pairs.send(again);
        MUST(pairs.receive()->second == 0.5 && pairs.receive()->first == 2);

        channel<std::string> texts(2);
        const std::string kept = "a text that does not fit into the object itself";
        texts.send(kept);
        texts.send("literal");
        MUST(texts.receive() == kept && texts.receive() == "literal");

        channel<counted_pointer> pointers(1);
        counted_pointer item = pointer_to(3);
        pointers.send(std::move(item));
        MUST(!item && value_of(*pointers.receive()) == 3);

        channel<std::unique_ptr<int[]>> arrays(1);
        arrays.send(std::make_unique<int[]>(100));
        MUST((*arrays.receive())[99] == 0);

        channel<move_only_bytes> bytes(1);
        bytes.send(move_only_bytes());
        MUST(bytes.receive()->value == 6);

        channel<char> letters(2);
        letters.send('a');
        MUST(letters.try_send('b') && !letters.try_send('c') && letters.receive() == 'a');
    });
    CHECK_EQ(counted::live, 0);
}

TEST(unbuffered_items_pass_from_thread_to_thread)
{
    run_both([] {
        channel<int> numbers;
        channel<std::unique_ptr<int>> pointers;
        std::vector<thread> senders;
        for (int i = 0; i < 4; i++)
            senders.emplace_back([&] {
                for (int number = 1; number <= 100; number++) {
                    numbers.send(number);
                    pointers.send(std::make_unique<int>(number));
                }
            });
        int sum = 0;
        for (int i = 0; i < 400; i++)
            sum += *numbers.receive() + **pointers.receive();
        for (thread &one : senders)
            one.join();
        MUST(sum == 2 * 4 * 5050);
    });
}

TEST(a_closed_channel_ends_after_its_items)
{
    run_both([] {
        channel<int> numbers(2);
        thread receiver([&] {
            int sum = 0;
            while (auto number = numbers.receive())
                sum += *number;
            MUST(sum == 10);
        });
        for (int i = 1; i <= 4; i++)
            numbers.send(i);
        numbers.close();
        receiver.join();
        std::error_code ec;
        MUST(!numbers.receive(1h, ec) && ec == std::errc::broken_pipe);
        MUST(!numbers.try_receive() && !numbers.try_send(1));
    });
}

TEST(receives_have_deadlines_and_are_canceled)
{
    run_both([] {
        channel<int> numbers(1);
        std::error_code ec;
        MUST(!numbers.try_receive());
        MUST(error_of([&] { numbers.receive(1ms); }) == std::errc::timed_out);
        MUST(!numbers.receive(deadline::now(), ec) && ec == std::errc::timed_out);
        numbers.send(1);
        MUST(numbers.receive(deadline::now(), ec) == 1 && !ec);
        thread waiting([&] { MUST(is_canceled_in([&] { numbers.receive(); })); });
        gossamer::this_thread::sleep(1ms);
        waiting.cancel();
        waiting.join();
    });
}

TEST(items_that_nobody_receives_are_destroyed_with_the_channel)
{
    run_both([] {
        abandon_items<counted>(counted_value);
        MUST(counted::live == 0);
        abandon_items<counted_pointer>(pointer_to);
        MUST(counted::live == 0);
    });
}

TEST(a_channel_outlives_the_runtime)
{
    {
        channel<counted_pointer> pointers(10);
        channel<counted> objects(10);
        run_both([&] {
            pointers.send(pointer_to(1));
            objects.send(counted(1));
        });
        CHECK_EQ(counted::live, 4);
    }
    CHECK_EQ(counted::live, 0);
}

TEST(an_item_that_is_not_sent_stays_with_its_sender)
{
    run_both([] {
        fail_to_send<counted>(counted_value);
        fail_to_send<counted_pointer>(pointer_to);
        cancel_sender<counted>(counted_value);
        cancel_sender<counted_pointer>(pointer_to);
    });
    CHECK_EQ(counted::live, 0);
}

TEST(many_threads_use_one_channel)
{
    gossamer::run_options options{};
    options.workers = 4;
    gossamer::run(options, [] {
        channel<counted> objects(5);
        gossamer::thread_attributes attributes{};
        attributes.migrates = true;
        std::atomic<int> sum{0};
        std::vector<thread> senders, receivers;
        for (int i = 0; i < 20; i++) {
            senders.emplace_back(attributes, [&] {
                for (int number = 1; number <= 100; number++)
                    objects.send(counted(number));
            });
            receivers.emplace_back(attributes, [&] {
                while (auto item = objects.receive())
                    sum += value_of(*item);
            });
        }
        for (thread &one : senders)
            one.join();
        objects.close();
        for (thread &one : receivers)
            one.join();
        MUST(sum == 20 * 5050);
    });
    CHECK_EQ(counted::live, 0);
}
