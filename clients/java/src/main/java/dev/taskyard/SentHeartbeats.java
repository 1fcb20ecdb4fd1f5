package dev.taskyard;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Optional;

/** The heartbeats of a stream that the server has not answered. Their numbers go on over all streams of a host. */
final class SentHeartbeats {
    /** A heartbeat, when it was sent, and the leases that it lists. */
    record Sent(int sequence, long sentAt, List<LeaseKey> listed) {}

    private final Deque<Sent> unanswered = new ArrayDeque<>();
    private int last;

    /** Returns the number of the heartbeat. */
    int add(long now, List<LeaseKey> listed) {
        unanswered.add(new Sent(++last, now, listed));
        return last;
    }

    /** Takes out the heartbeat that is answered, and those before it. Empty if none of this number waits for an answer. */
    Optional<Sent> take(int sequence) {
        while (!unanswered.isEmpty() && unanswered.peek().sequence() <= sequence) {
            Sent sent = unanswered.remove();
            if (sent.sequence() == sequence) {
                return Optional.of(sent);
            }
        }
        return Optional.empty();
    }

    /** Forgets them all, since their stream is gone. */
    void clear() {
        unanswered.clear();
    }
}
