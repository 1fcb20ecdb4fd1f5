package dev.taskyard;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A host that runs in the background of a test, until it is closed. */
final class RunningHost implements AutoCloseable {
    final Host host;
    private final CompletableFuture<Void> left = new CompletableFuture<>();
    private final Thread thread;

    RunningHost(Host host) {
        this.host = host;
        thread = new Thread(() -> {
            try {
                host.run();
                left.complete(null);
            } catch (RuntimeException refused) {
                left.completeExceptionally(refused);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** Interrupts the thread of the run. */
    void interrupt() {
        thread.interrupt();
    }

    /** Waits until the run has ended, and throws what it threw. */
    void awaitLeft() throws Exception {
        left.get(30, TimeUnit.SECONDS);
    }

    @Override
    public void close() {
        host.drain();
        try {
            left.get(30, TimeUnit.SECONDS);
        } catch (Exception ended) {
            // A test that expects it calls awaitLeft.
        }
    }
}
