package dev.taskyard.conformance;

import dev.taskyard.TaskyardException;
import dev.taskyard.Watch;
import dev.taskyard.v1.TaskEvent;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A watch that is read in a thread of its own: a step that waits for too many events does not block the scenario. */
final class OpenWatch {
    /** What the watch has read: an event with its cursor, an error, or, without both, its end. */
    private record Item(TaskEvent event, String cursor, TaskyardException error) {}

    private final String step;
    private final Watch watch;
    private final BlockingQueue<Item> read = new LinkedBlockingQueue<>();

    OpenWatch(String step, Watch watch) {
        this.step = step;
        this.watch = watch;
        Thread reader = new Thread(this::pump, "watch " + step);
        reader.setDaemon(true);
        reader.start();
    }

    /** Reads up to {@code count} events, or all until the end if it is 0. Returns the outcome of the step. */
    Map<String, Object> take(Arguments with) throws InterruptedException {
        int count = with.number("count");
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(with.number("ms"));
        List<String> events = new ArrayList<>();
        String cursor = null;
        boolean ended = false;
        while (!ended && (count == 0 || events.size() < count)) {
            Item item = read.poll(until - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (item == null) {
                break;
            } else if (item.error() != null) {
                throw item.error();
            } else if (item.event() == null) {
                ended = true;
            } else {
                events.add(item.event().getKind().name() + " "
                        + item.event().getTask().getState().name());
                cursor = item.cursor();
            }
        }
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("events", events);
        outcome.put("cursor", cursor);
        outcome.put("ended", ended);
        if (with.truth("keep")) {
            outcome.put("watch", step);
        } else {
            watch.close();
        }
        return outcome;
    }

    private void pump() {
        try {
            while (watch.hasNext()) {
                TaskEvent event = watch.next();
                read.add(new Item(event, watch.cursor().orElse(null), null));
            }
            read.add(new Item(null, null, null));
        } catch (TaskyardException error) {
            read.add(new Item(null, null, error));
        }
    }
}
