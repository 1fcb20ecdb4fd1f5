package dev.taskyard;

import dev.taskyard.v1.LeaseOutput;
import dev.taskyard.v1.NewChunk;
import dev.taskyard.v1.Output;
import dev.taskyard.v1.OutputAck;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What the tasks of a host say: which chunks are to be sent, which are sent and unanswered, and which are sent again
 * (docs/rules.md, Output). It does not know which leases are held; {@link HostSession} decides what an answer means.
 */
final class OutputBox {
    /** What becomes of a chunk: it is taken, does not fit yet, or never will since the server takes no output. */
    enum Taken {
        YES,
        NOT_YET,
        NEVER
    }

    /** A lease that is over, and why. */
    record Refused(LeaseKey key, String code, String reason) {}

    /** A message without an answer, with the round of each of its leases. */
    private record Sent(long bytes, Map<LeaseKey, Integer> rounds) {}

    /** What the handler of one lease has said. */
    private static final class Said {
        /** Those that the server does not keep yet. */
        final Deque<NewChunk> chunks = new ArrayDeque<>();

        /** How many of these are sent. */
        int sent;

        /** How many came before them. */
        int kept;

        /** Grows when chunks are to be sent again: an answer to an earlier round says nothing about the lease. */
        int round;

        /** Whether chunks that were refused for the time being wait. */
        boolean waits;

        /** True from then on until all are kept. */
        boolean wasRefused;

        /** Whether it is not known how many the server keeps, so that nothing more can be said. */
        boolean isClosed;
    }

    /** About the most that one message carries, so that the reports behind it do not wait for long. */
    private static final int MESSAGE_BYTES = 128 * 1024;

    /** How long chunks wait that the server cannot keep for now, in nanoseconds. */
    private static final long RETRY = 1_000_000_000;

    private static final long NEVER = Long.MAX_VALUE;

    /** How many bytes may be held, and be sent without an answer; 0 where the server takes no output. */
    private long limit;

    private long heldBytes;
    private final Map<LeaseKey, Said> leases = new LinkedHashMap<>();

    /** The leases that have chunks to send, in turn. */
    private final Set<LeaseKey> turns = new LinkedHashSet<>();

    /** Oldest first: the server answers in this order. */
    private final Deque<Sent> unanswered = new ArrayDeque<>();

    private long unansweredBytes;
    private long retryAt = NEVER;

    /** Takes a chunk, if it fits. */
    Taken add(LeaseKey key, NewChunk chunk) {
        Said said = leases.get(key);
        if (limit == 0 || said != null && said.isClosed) {
            return Taken.NEVER;
        } else if (heldBytes > 0 && heldBytes + chunk.getSerializedSize() > limit) {
            return Taken.NOT_YET;
        }
        said = leases.computeIfAbsent(key, first -> new Said());
        heldBytes += chunk.getSerializedSize();
        said.chunks.add(chunk);
        if (!said.waits) {
            turns.add(key);
        }
        return Taken.YES;
    }

    /**
     * Whether the report of the end of a lease must wait for its chunks: until they are sent, and once some were refused for
     * the time being until they are kept.
     */
    boolean isBehind(LeaseKey key) {
        Said said = leases.get(key);
        return said != null && (said.sent < said.chunks.size() || said.wasRefused);
    }

    /** The number of the chunk that was said last under a lease, 0 for none. */
    int last(LeaseKey key) {
        Said said = leases.get(key);
        return said == null ? 0 : said.kept + said.chunks.size();
    }

    /** Whether the server keeps the chunks of a lease up to this number, or never will. */
    boolean isKept(LeaseKey key, int number) {
        Said said = leases.get(key);
        return said == null || said.isClosed || said.kept >= number;
    }

    /** Forgets the chunks of a lease that is over. Those that are sent are answered all the same. */
    void discard(LeaseKey key) {
        Said said = leases.remove(key);
        if (said != null) {
            free(said, said.chunks.size());
            turns.remove(key);
        }
    }

    /** A stream begins, with a limit of its own. */
    void streamOpened(int bytes) {
        limit = Integer.toUnsignedLong(bytes);
        if (limit > 0) {
            return;
        }
        for (Said said : leases.values()) {
            said.isClosed |= !said.chunks.isEmpty();
            said.waits = false;
            said.wasRefused = false;
            free(said, said.chunks.size());
        }
        turns.clear();
    }

    /** The stream broke: what has no answer is sent again. */
    void streamClosed() {
        unanswered.clear();
        unansweredBytes = 0;
        retryAt = NEVER;
        leases.forEach((key, said) -> {
            said.sent = 0;
            said.waits = false;
            said.wasRefused = false;
            if (!said.chunks.isEmpty()) {
                turns.add(key);
            }
        });
    }

    /** The next message, null if there is nothing to send, or too much without an answer. Leases take turns. */
    Output nextMessage(int maxBytes) {
        Output.Builder message = Output.newBuilder();
        Map<LeaseKey, Integer> rounds = new HashMap<>();
        long bytes = 0;
        for (LeaseKey key : List.copyOf(turns)) {
            Said said = leases.get(key);
            LeaseOutput.Builder part = LeaseOutput.newBuilder()
                    .setTaskId(key.taskId())
                    .setFencingToken(key.token())
                    .setNumber(said.kept + said.sent + 1);
            Iterator<NewChunk> chunks = said.chunks.stream().skip(said.sent).iterator();
            while (chunks.hasNext()) {
                NewChunk chunk = chunks.next();
                long size = chunk.getSerializedSize();
                long ahead = unansweredBytes + bytes;
                // A chunk that is larger than a limit goes alone.
                if (bytes > 0 && bytes + size > Math.min(maxBytes, MESSAGE_BYTES) || ahead > 0 && ahead + size > limit) {
                    break;
                }
                bytes += size;
                part.addChunks(chunk);
            }
            if (part.getChunksCount() == 0) {
                break;
            }
            said.sent += part.getChunksCount();
            rounds.put(key, said.round);
            message.addLeases(part);
            turns.remove(key);
            if (said.sent < said.chunks.size()) {
                turns.add(key);
                break;
            }
        }
        if (rounds.isEmpty()) {
            return null;
        }
        unanswered.add(new Sent(bytes, rounds));
        unansweredBytes += bytes;
        return message.build();
    }

    /** The oldest message without an answer has this one. Returns the leases that are over. */
    List<Refused> answered(List<OutputAck> acks, long now) {
        List<Refused> over = new ArrayList<>();
        Sent message = unanswered.poll();
        if (message == null) {
            return over;
        }
        unansweredBytes -= message.bytes();
        for (OutputAck ack : acks) {
            LeaseKey key = LeaseKey.of(ack);
            Said said = leases.get(key);
            Integer round = message.rounds().get(key);
            if (said == null || round == null) {
                continue;
            }
            int count = Math.min(ack.getTaken() - said.kept, said.chunks.size());
            if (count > 0) {
                free(said, count);
                said.kept += count;
                said.wasRefused &= !said.chunks.isEmpty();
            }
            String code = ack.getError().getCode();
            boolean isOld = round != said.round;
            boolean isLost = code.equals("lease_lost") || code.equals("not_found");
            if (ack.hasError() && code.equals("unavailable") && !isOld) {
                said.sent = 0;
                said.waits = true;
                said.wasRefused = true;
                said.round++;
                turns.remove(key);
                retryAt = Math.min(retryAt, now + RETRY);
            } else if (ack.hasError() && (!isOld || isLost)) {
                // What was sent behind chunks that were refused leaves a gap, which says nothing.
                over.add(new Refused(key, code, ack.getError().getError()));
            }
        }
        return over;
    }

    /** When chunks that were refused for the time being are sent again; {@link Long#MAX_VALUE} if there are none. */
    long retryAt() {
        return retryAt;
    }

    /** Makes them ready again once it is time. */
    void retry(long now) {
        if (now < retryAt) {
            return;
        }
        retryAt = NEVER;
        leases.forEach((key, said) -> {
            if (said.waits) {
                said.waits = false;
                turns.add(key);
            }
        });
    }

    /** Takes out the first chunks of a lease. */
    private void free(Said said, int count) {
        for (int n = 0; n < count; n++) {
            heldBytes -= said.chunks.remove().getSerializedSize();
        }
        said.sent = Math.max(0, said.sent - count);
    }
}
