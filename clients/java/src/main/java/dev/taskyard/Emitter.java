package dev.taskyard;

import dev.taskyard.v1.NewChunk;
import io.grpc.Status;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** What the handlers of a host say, which waits until there is room. */
final class Emitter implements Handlers.Sayer {
    private static final String NO_OUTPUT =
            "the server takes no output: it, or a replica beside it, is of an earlier version";

    private final HostSession session;
    private final ReentrantLock lock;
    private final Runnable wake;
    private final Condition room;

    /** {@code lock} is that of the session; {@code wake} is called under it when there is something to send. */
    Emitter(HostSession session, ReentrantLock lock, Runnable wake) {
        this.session = session;
        this.lock = lock;
        this.wake = wake;
        room = lock.newCondition();
    }

    /** Lets those try again that wait. The lock is held. */
    void retry() {
        room.signalAll();
    }

    @Override
    public void say(RunningTask task, List<NewChunk> chunks) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            for (NewChunk chunk : chunks) {
                while (!isSaid(task, chunk)) {
                    room.await();
                }
                wake.run();
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * Waits until the server keeps what was said under a lease so far.
     *
     * @throws TaskyardException {@code lease_lost} if the lease is over, also where the server does not know it yet
     */
    void flush(LeaseKey key) throws InterruptedException {
        lock.lock();
        try {
            int last = session.output.last(key);
            while (!session.isOver(key) && !session.output.isKept(key, last)) {
                room.await();
            }
            if (session.isOver(key)) {
                throw TaskyardException.of(Status.ABORTED, "the lease has ended");
            }
        } finally {
            lock.unlock();
        }
    }

    private boolean isSaid(RunningTask task, NewChunk chunk) throws InterruptedException {
        OutputBox.Taken taken = session.chunkSaid(task.key(), chunk).orElse(null);
        if (taken == null) {
            task.check();
            throw new InterruptedException("the task is over");
        } else if (taken == OutputBox.Taken.NEVER) {
            throw TaskyardException.of(Status.UNIMPLEMENTED, NO_OUTPUT);
        }
        return taken == OutputBox.Taken.YES;
    }
}
