// Many blocked virtual threads, on one carrier thread. Compiled for Java 17, which has none yet, so the
// factory of virtual threads is found by reflection.
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

public class Many {
    private static final AtomicInteger waiting = new AtomicInteger();
    private static volatile boolean isWoken;

    /** Returns a field of /proc/self/status in bytes. */
    private static double field(String name) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            String[] words = line.split("\\s+");
            if (words[0].equals(name + ":")) {
                return Double.parseDouble(words[1]) * 1024;
            }
        }
        return 0;
    }

    private static ThreadFactory virtualThreads() throws ReflectiveOperationException {
        Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
        Class<?> type = Class.forName("java.lang.Thread$Builder");
        return (ThreadFactory) type.getMethod("factory").invoke(builder);
    }

    private static void block(CountDownLatch ended) {
        waiting.incrementAndGet();
        while (!isWoken) {
            LockSupport.park();
        }
        ended.countDown();
    }

    private static double measure(String figure, int count) throws Exception {
        ThreadFactory factory = virtualThreads();
        Thread[] threads = new Thread[count];
        CountDownLatch ended = new CountDownLatch(count);
        System.gc();
        double memory = field("VmRSS"), tables = field("VmPTE");
        long began = System.nanoTime();
        for (int i = 0; i < count; i++) {
            threads[i] = factory.newThread(() -> block(ended));
            threads[i].start();
        }
        while (waiting.get() < count) {
            Thread.yield();
        }
        long created = System.nanoTime() - began;
        System.gc(); // what was only needed to create them is given back
        memory = field("VmRSS") - memory;
        tables = field("VmPTE") - tables;
        began = System.nanoTime();
        isWoken = true;
        for (Thread thread : threads) {
            LockSupport.unpark(thread);
        }
        ended.await();
        long finished = System.nanoTime() - began;
        return switch (figure) {
            case "memory" -> memory;
            case "tables" -> tables;
            case "create" -> created;
            default -> finished;
        } / count;
    }

    public static void main(String[] arguments) throws Exception {
        System.out.printf("%.3f%n", measure(arguments[0], Integer.parseInt(arguments[1])));
    }
}
