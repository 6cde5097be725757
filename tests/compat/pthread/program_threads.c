/* The life of threads: join, detach, keys, cancellation of both kinds, attributes, ends of the
 * process. */
#include "tests/compat/pthread/program.h"

#include <limits.h>

static pthread_key_t key;
static atomic_int destroyed, cleaned;

static void destroy(void *value)
{
    destroyed += (int)(long)value;
}

static void clean_up(void *argument)
{
    cleaned += (int)(long)argument;
}

static void *set_key(void *value)
{
    pthread_setspecific(key, value);
    return pthread_getspecific(key);
}

static void *exit_in_depth(void *value)
{
    pthread_cleanup_push(clean_up, value);
    pthread_exit(value);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *own_id(void *unused)
{
    (void)unused;
    return (void *)(long)(syscall(SYS_gettid) != getpid() && pthread_kill(pthread_self(), 0) == 0);
}

/* The word that the end of the thread clears, for which pthread_join waits, is the thread's. */
static void *set_same_word(void *unused)
{
    unsigned *word = NULL;
    (void)unused;
    if (prctl(PR_GET_TID_ADDRESS, &word) || !word)
        return NULL;
    long own = *word == (unsigned)syscall(SYS_gettid);
    return (void *)(own + (syscall(SYS_set_tid_address, word) == (long)*word ? 2L : 0L));
}

/* It is joined while its word is another one for a moment. */
static void *change_word(void *joins)
{
    static unsigned other;
    unsigned *word = NULL;
    prctl(PR_GET_TID_ADDRESS, &word);
    long result = syscall(SYS_set_tid_address, &other) == (long)*word;
    sem_post(joins);
    sleep_ms(20);
    syscall(SYS_set_tid_address, word);
    return (void *)result;
}

static void join_while_word_changes(void)
{
    sem_t joins;
    sem_init(&joins, 0, 0);
    pthread_t thread = start(change_word, &joins);
    sem_wait(&joins);
    SHOW(finish(thread));
}

static void test_life(void)
{
    pthread_t thread;
    pthread_key_create(&key, destroy);
    SHOW(finish(start(set_key, (void *)3)));
    SHOW(destroyed);
    SHOW(finish(start(exit_in_depth, (void *)7)));
    SHOW(cleaned);
    SHOW(finish(start(own_id, NULL)));
    SHOW(finish(start(set_same_word, NULL)));
    join_while_word_changes();
    thread = start(own_id, NULL);
    sleep_ms(20);
    SHOW(finish(thread));
    SHOW(pthread_join(pthread_self(), NULL));
    thread = start(own_id, NULL);
    SHOW(pthread_detach(thread));
    for (int i = 0; i < 300; i++)
        finish(start(own_id, NULL));
    SHOW(syscall(SYS_gettid) == getpid());
}

/* ---- Cancellation ---- */

static int ends[2];
static sem_t never;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_bool is_started;

static void *read_forever(void *unused)
{
    char byte;
    pthread_cleanup_push(clean_up, (void *)100);
    is_started = true;
    SHOW(read(ends[0], &byte, 1));
    pthread_cleanup_pop(0);
    return unused;
}

static void unlock(void *unused)
{
    (void)unused;
    printf("unlocked\n");
    pthread_mutex_unlock(&mutex);
}

static void *wait_forever(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    is_started = true;
    while (true)
        pthread_cond_wait(&changed, &mutex);
    pthread_cleanup_pop(0);
    return unused;
}

static void *post_forever(void *unused)
{
    is_started = true;
    sem_wait(&never);
    return unused;
}

static void *sleep_forever(void *unused)
{
    is_started = true;
    pause();
    sleep(1000);
    return unused;
}

static void *compute_forever(void *unused)
{
    int type;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    is_started = true;
    for (volatile unsigned i = 0;; i++)
        ;
    return unused;
}

static void *disabled(void *unused)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    is_started = true;
    sleep_ms(40);
    printf("not canceled\n");
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    pthread_testcancel();
    return unused;
}

static void *join_forever(void *thread)
{
    is_started = true;
    pthread_join(*(pthread_t *)thread, NULL);
    return NULL;
}

static void cancel(void *(*fn)(void *), void *argument)
{
    is_started = false;
    pthread_t thread = start(fn, argument);
    while (!is_started)
        sched_yield();
    sleep_ms(5);
    int err = pthread_cancel(thread);
    long result = finish(thread); /* before anything is printed, as it prints, too */
    SHOW(err);
    SHOW(result == (long)PTHREAD_CANCELED);
}

static void test_cancel(void)
{
    pthread_t self = pthread_self();
    SHOW_ERROR(pipe(ends));
    sem_init(&never, 0, 0);
    cancel(read_forever, NULL);
    SHOW(cleaned);
    cancel(wait_forever, NULL);
    SHOW(pthread_mutex_trylock(&mutex));
    cancel(post_forever, NULL);
    cancel(sleep_forever, NULL);
    cancel(compute_forever, NULL);
    cancel(disabled, NULL);
    cancel(join_forever, &self);
}

/* ---- Attributes ---- */

static void *inside_stack(void *unused)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    char local;
    (void)unused;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    return (void *)(long)(&local > (char *)low && &local < (char *)low + size);
}

static void test_attributes(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    char name[16];
    void *stack = NULL;
    pthread_attr_init(&attributes);
    SHOW(pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN));
    SHOW(pthread_create(&thread, &attributes, inside_stack, NULL));
    SHOW(finish(thread));
    SHOW(posix_memalign(&stack, 4096, 256 << 10));
    SHOW(pthread_attr_setstack(&attributes, stack, 256 << 10));
    SHOW(pthread_create(&thread, &attributes, inside_stack, NULL));
    SHOW(finish(thread));
    SHOW(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    SHOW(finish(start(inside_stack, NULL)));
    SHOW(pthread_setname_np(pthread_self(), "renamed"));
    SHOW(pthread_getname_np(pthread_self(), name, sizeof name));
    printf("%s\n", name);
}

static void *last(void *unused)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sleep_ms(30);
    printf("the last thread ends\n");
    return unused;
}

static void note_signal(int number)
{
    printf("signal %d\n", number);
}

/* The last thread calls it, which had blocked everything; its own mask holds here. */
static void at_exit(void)
{
    sigset_t mask;
    printf("exit handlers run\n");
    SHOW(pthread_sigmask(SIG_BLOCK, NULL, &mask));
    SHOW(sigismember(&mask, SIGUSR1));
    SHOW(sigismember(&mask, SIGUSR2));
    SHOW(kill(getpid(), SIGUSR1));
    fflush(stdout);
    signal(SIGUSR1, SIG_DFL);
    kill(getpid(), SIGUSR1);
    printf("not reached\n");
}

int main(void)
{
    test_life();
    test_cancel();
    test_attributes();
    signal(SIGUSR1, note_signal);
    atexit(at_exit);
    start(last, NULL);
    pthread_exit(NULL);
}
