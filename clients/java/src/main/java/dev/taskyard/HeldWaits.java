package dev.taskyard;

import dev.taskyard.v1.NewWait;
import dev.taskyard.v1.Step;
import dev.taskyard.v1.Task;
import dev.taskyard.v1.TaskParked;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** The waits of one run of a task, and whether it is parked. */
final class HeldWaits {
    /** The step whose work is done in this thread. */
    private static final ThreadLocal<String> STEP = new ThreadLocal<>();

    private final HeldSteps steps;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition quiet = lock.newCondition();
    private final Set<HeldSteps.Key> used = new HashSet<>();

    /** How many waits for its end each child has had. */
    private final Map<String, Integer> ofChildren = new HashMap<>();

    /** In the order in which they were made; none unless the run is parked. */
    private final List<NewWait> parked = new ArrayList<>();

    /** The steps whose work goes on, or whose record does. */
    private int underWay;

    HeldWaits(HeldSteps steps) {
        this.steps = steps;
    }

    /** Sets the step whose work is done in this thread, null for none. Returns the one before. */
    static String setStep(String name) {
        String before = STEP.get();
        if (name == null) {
            STEP.remove();
        } else {
            STEP.set(name);
        }
        return before;
    }

    /**
     * The step that a wait has become.
     *
     * @throws Parked if nothing has come yet
     */
    Step await(Task task, NewWait wait) {
        String call = NewWaits.callOf(wait);
        if (STEP.get() != null) {
            String reason = "it is within the step '" + STEP.get() + "', whose work would be lost";
            throw NewWaits.failed(call, wait.getName(), reason);
        }
        HeldSteps.Key key = NewWaits.keyOf(wait);
        take(key, call);
        Step found;
        try {
            found = steps.earlier(task).get(key);
        } catch (TaskyardException refused) {
            locked(() -> used.remove(key));
            throw refused;
        }
        if (found != null) {
            return found;
        }
        locked(() -> parked.add(wait));
        throw new Parked("the task is parked: its handler begins again once something came");
    }

    boolean isParked() {
        lock.lock();
        try {
            return !parked.isEmpty();
        } finally {
            lock.unlock();
        }
    }

    /**
     * Refuses what the handler of a parked task begins.
     *
     * @throws Parked if the run is parked
     */
    void check() {
        if (isParked()) {
            throw goesOn();
        }
    }

    /**
     * Notes that a step is under way, until {@link #finish}.
     *
     * @throws Parked if the run is parked
     */
    void begin() {
        lock.lock();
        try {
            if (!parked.isEmpty()) {
                throw goesOn();
            }
            underWay++;
        } finally {
            lock.unlock();
        }
    }

    void finish() {
        locked(() -> {
            underWay--;
            quiet.signalAll();
        });
    }

    /** What the task waits for, once no step is under way. */
    TaskParked.Builder whenQuiet() throws InterruptedException {
        lock.lock();
        try {
            while (underWay > 0) {
                quiet.await();
            }
            return TaskParked.newBuilder().addAllWaits(parked);
        } finally {
            lock.unlock();
        }
    }

    /** The name of the next wait of this run for the end of a child. */
    String nameOf(String child) {
        lock.lock();
        try {
            int count = ofChildren.merge(child, 1, Integer::sum);
            return "child " + child + (count > 1 ? " " + count : "");
        } finally {
            lock.unlock();
        }
    }

    private void take(HeldSteps.Key key, String call) {
        lock.lock();
        try {
            if (!used.add(key)) {
                throw NewWaits.failed(call, key.name(), "this run has used the name already, and names must differ");
            }
        } finally {
            lock.unlock();
        }
    }

    private void locked(Runnable change) {
        lock.lock();
        try {
            change.run();
        } finally {
            lock.unlock();
        }
    }

    private static Parked goesOn() {
        return new Parked("the task is parked, and its handler goes on: what it reports is refused");
    }
}
