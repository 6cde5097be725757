/* The end of the run, and deadlock: run, idle and check_end in src/thread/schedule/worker.c; gs_thread_spawn
 * and gs_thread_unpark, called by a kernel thread that is no worker; deliver_cancels and
 * return_to_inbox in src/thread/schedule/monitor.c.
 *
 *   worker 0, 1    run the threads; the last one to become idle checks whether the run has ended
 *   kernel_thread  is no worker; spawns F and may unpark M
 *   monitor        takes the inbox of worker 1: it delivers a message for X itself, and returns the
 *                  rest
 *
 * Threads: M is parked on worker 0, until F or the kernel thread unparks it, so the run cannot end
 * before. X is on worker 1. Afterwards M and X may wake each other if the other one waits for that
 * (INTERNAL); each waits in this way, or ends. F is sent to either worker. All that a thread does
 * between becoming ready and waiting or ending is one step.
 *
 * Properties: when the run ends, no thread can continue or waits for an external event; the end is
 * called a deadlock if and only if a thread is left; no worker is accessed after it has ended; the
 * end is always found (otherwise the workers would sleep forever: an invalid end state).
 *
 * Bounds: two workers, three threads, two wake-ups among threads, one round of cancellations.
 *
 * Faults: NONWORKER_FIRST, NOT_AGAIN, SPAWN_UNCOUNTED, UNPARK_UNCOUNTED, EPOCH_FIRST, NO_EPOCH,
 * SIFT_UNCOUNTED,
 *         INBOX_UNSEEN, TAKE_FIRST */
#define M 1
#define X 2
#define F 4

mtype = { ABSENT, READY, PARKED, INTERNAL, ENDED };
mtype state[5] = ABSENT;

#define WORKERS 2
byte inbox[WORKERS];                /* sets of threads, all READY */
bool wake[WORKERS];                 /* set by gs_loop_wake; consumed by the loop's next iteration */
byte home_x = 1;
byte idle, nonworker_spawns, entering, exited, signals;
byte ended[WORKERS], external = 1;   /* external: number of external waits of worker 0 */
bool is_new[WORKERS];               /* idle_epoch has changed since this worker read it */
bool is_stopping, f_unparks;

#define can_go_on(t) (state[t] == READY || state[t] == PARKED)
#define count_epoch() d_step { is_new[0] = true; is_new[1] = true }
#define enter() entering++
#define leave() count_epoch(); entering--

/* The workers may have been freed once both have left their loops. */
inline loop_wake(w)
{
    atomic { assert(exited < WORKERS); wake[w] = true }
}

/* may_sleep: the caller may sleep, because some worker will check again later. */
inline check_end()
{
    may_sleep = true;
#ifdef FAULT_NONWORKER_FIRST
    all = nonworker_spawns + 2;
    is_new[id] = false;
#else
    is_new[id] = false;
#endif
    if
    :: idle != WORKERS
    :: else ->
#ifndef FAULT_NONWORKER_FIRST
        all = nonworker_spawns + 2;
#endif
        do
        :: i == WORKERS -> break
#ifndef FAULT_INBOX_UNSEEN
        :: i < WORKERS && inbox[i] -> break
        :: i < WORKERS && !inbox[i] ->
#else
        :: i < WORKERS ->
#endif
            d_step { all = all - ended[i]; out = (i == 0 -> external : out); i++ }
        od;
        if
        :: i < WORKERS
        :: i == WORKERS && entering -> may_sleep = false
        :: else ->
            if
#ifndef FAULT_NO_EPOCH
            :: is_new[id] -> may_sleep = false
#endif
            :: else ->
                if
                :: (all && out) || is_stopping
                :: else ->
                    atomic {
                        assert(!can_go_on(M) && !can_go_on(X) && !can_go_on(F));
                        assert((all != 0) == (state[M] == INTERNAL || state[X] == INTERNAL));
                        is_stopping = true;
                        wake[0] = true;
                        wake[1] = true
                    }
                fi
            fi
        fi
    fi;
#ifdef FAULT_NOT_AGAIN
    may_sleep = true;
#endif
    atomic { i = 0; all = 0; out = 0 }
}

#define wakes(t, w) \
    state[t] = READY; d_step { woken = (inbox[w] -> 0 : w + 1); inbox[w] = inbox[w] | t }

/* Runs the ready threads of the worker one after the other. The other worker takes what they send
 * to it afterwards. */
inline run_threads()
{
    do
    :: taken == 0 -> break
    :: taken & F ->
        taken = taken & ~F;
        if :: f_unparks && state[M] == PARKED -> wakes(M, 0) :: else fi;
        ended[id]++;
        state[F] = ENDED
    :: taken & M ->
        taken = taken & ~M;
        external = 0;
        if
        :: signals && state[X] == INTERNAL -> signals--; wakes(X, home_x)
        :: true
        fi;
        if :: state[M] = INTERNAL :: state[M] = ENDED; ended[0]++ fi
    :: taken & X ->
        taken = taken & ~X;
        if
        :: signals && state[M] == INTERNAL -> signals--; wakes(M, 0)
        :: true
        fi;
        if :: state[X] = INTERNAL :: state[X] = ENDED; ended[id]++ fi
    od
}

proctype worker(byte id)
{
    byte i, all, out, taken, woken;
    bool may_sleep, is_last;
    do
    :: atomic { is_stopping -> break }
    :: atomic { !is_stopping && inbox[id] ->
                taken = inbox[id]; inbox[id] = 0; run_threads() };
        if :: woken -> loop_wake(woken - 1); woken = 0 :: else fi
    :: atomic { !is_stopping && !inbox[id] -> idle++; is_last = idle == WORKERS }; /* idle */
        if
        :: is_last -> is_last = false; check_end()
        :: else -> may_sleep = true
        fi;
        if :: !may_sleep :: else -> wake[id]; may_sleep = false fi;
        wake[id] = false;
#ifdef FAULT_TAKE_FIRST
        atomic { taken = inbox[id]; inbox[id] = 0 };
#endif
#ifdef FAULT_EPOCH_FIRST
        count_epoch();
        idle--;
#else
        idle--;
        count_epoch();
#endif
#ifdef FAULT_TAKE_FIRST
        atomic { inbox[id] = inbox[id] | taken; taken = 0 }
#endif
    od;
    exited++
}

inline send(w, t)
{
    atomic { woken = (inbox[w] == 0); inbox[w] = inbox[w] | t };
    if :: woken -> loop_wake(w) :: else fi
}

proctype kernel_thread(bool spawns; bool unparks)
{
    byte woken;
    if
    :: spawns ->
#ifndef FAULT_SPAWN_UNCOUNTED
        enter();
#endif
        nonworker_spawns++;
        state[F] = READY;
        if :: send(0, F) :: send(1, F) fi;
#ifndef FAULT_SPAWN_UNCOUNTED
        leave()
#endif
    :: else
    fi;
    if
    :: unparks ->
#ifndef FAULT_UNPARK_UNCOUNTED
        enter();
#endif
        state[M] = READY;
        send(0, M);
#ifndef FAULT_UNPARK_UNCOUNTED
        leave()
#endif
    :: else
    fi
}

proctype monitor()
{
    byte items;
    if
    :: atomic { inbox[1] -> items = 0 };
#ifndef FAULT_SIFT_UNCOUNTED
        enter();
#endif
        atomic { items = inbox[1]; inbox[1] = 0 };
        if
        :: items & X -> items = items & ~X;
            atomic { inbox[0] = inbox[0] | X; home_x = 0 };
            wake[0] = true
        :: else
        fi;
        if :: items -> atomic { inbox[1] = inbox[1] | items }; wake[1] = true :: else fi;
#ifndef FAULT_SIFT_UNCOUNTED
        leave()
#endif
    :: is_stopping
    fi
}

init
{
    atomic {
        if
        :: run kernel_thread(false, true); signals = 2
        :: run kernel_thread(true, false); f_unparks = true; signals = 1
        :: run kernel_thread(true, true); signals = 0
        :: run kernel_thread(false, true); run monitor(); signals = 1
        fi;
        state[M] = PARKED;
        state[X] = READY;
        inbox[1] = X;
        run worker(0);
        run worker(1)
    }
}
