#include "tests/cpp/fixture.hpp"

#include <csignal>
#include <string>
#include <sys/wait.h>

using namespace std::chrono_literals;
using gossamer::channel;
using gossamer::deadline;
using gossamer::receive_case;
using gossamer::send_case;
using gossamer::thread;

TEST(select_receives_items_of_any_type)
{
    run_both([] {
        channel<int> numbers(1);
        channel<std::string> texts(1);
        channel<std::unique_ptr<counted>> owners(1);
        std::optional<int> number;
        std::optional<std::string> text;
        std::optional<std::unique_ptr<counted>> owner;
        const auto next = [&] {
            return gossamer::select(1h, receive_case(numbers, number), receive_case(texts, text),
                                    receive_case(owners, owner));
        };
        numbers.send(7);
        MUST(next() == 0 && number == 7 && !text && !owner);
        texts.send("a text that is long enough for the heap");
        MUST(next() == 1 && text == "a text that is long enough for the heap" && !number);
        owners.send(std::make_unique<counted>(3));
        MUST(next() == 2 && *(*owner)->value == 3);
        thread later([&] { texts.send("later"); });
        MUST(next() == 1 && text == "later" && !owner);
        numbers.close();
        MUST(next() == 0 && !number);
    });
    CHECK_EQ(counted::live, 0);
}

TEST(select_sends_an_item_or_leaves_it_as_it_was)
{
    run_both([] {
        channel<counted> full(1), other(1);
        counted first(1), second(2), third(3);
        std::optional<counted> taken;
        MUST(gossamer::select(1h, send_case(full, first)) == 0 && !first.value);
        MUST(error_of([&] { gossamer::select(1ms, send_case(full, second)); }) ==
             std::errc::timed_out);
        MUST(*second.value == 2);
        MUST(gossamer::select(1h, send_case(full, third), send_case(other, second)) == 1);
        MUST(*third.value == 3);
        MUST(*full.receive()->value == 1 && *other.receive()->value == 2);
        full.close();
        MUST(error_of([&] { gossamer::select(1h, send_case(full, third)); }) ==
             std::errc::broken_pipe);
        MUST(*third.value == 3);
        thread canceled([&] {
            gs_thread_cancel(gs_thread_self());
            MUST(is_canceled_in([&] { gossamer::select(1h, receive_case(other, taken)); }));
        });
        canceled.join();
    });
    CHECK_EQ(counted::live, 0);
}

TEST(select_waits_for_descriptors_children_and_threads)
{
    run_both([] {
        ends pair = socket_pair();
        channel<int> none;
        std::optional<int> number;
        MUST(gossamer::select(1h, receive_case(none, number),
                              gossamer::ready_case(pair.near, GS_WRITE)) == 1);
        gossamer::task<int> answer([] { return 42; });
        MUST(gossamer::select(1h, gossamer::ready_case(pair.near, GS_READ),
                              gossamer::thread_case(answer)) == 1);
        MUST(answer.join() == 42);
        const pid_t child = fork();
        if (!child)
            _exit(3);
        int status = 0;
        MUST(gossamer::select(1h, gossamer::ready_case(pair.near, GS_READ),
                              gossamer::child_case(child, status)) == 1);
        MUST(WIFEXITED(status) && WEXITSTATUS(status) == 3);
        MUST(error_of([&] { gossamer::select(1h, gossamer::child_case(child, status)); }) ==
             std::errc::no_child_process);
    });
}

TEST(select_takes_a_signal)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    run_both([&] {
        int number = 0;
        kill(getpid(), SIGUSR1);
        MUST(gossamer::select(1h, gossamer::signal_case(signals, number)) == 0);
        MUST(number == SIGUSR1);
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
