package dev.taskyard;

import dev.taskyard.v1.Hello;
import dev.taskyard.v1.Machine;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/**
 * What a host takes and how it runs it. Immutable: each {@code with} method returns a changed copy.
 *
 * @param slots how many tasks the host runs at the same time, at least 1. Default: 10
 * @param capabilities what the host can do; it gets tasks whose requirements are among them. Default: none
 * @param project limits the host to the tasks of one project; null, the default, for all
 * @param labels labels that are shown with the host. Default: none
 * @param displayName the name for people; null, the default, for the id
 * @param lease the length of the host's leases, 1 s to 1 h, rounded up to seconds; null, the default, for that of the
 *     server, 60 s unless configured
 * @param drainGrace how long running tasks may go on once the host drains. Default: 30 s
 * @param machine returns the figures of the machine, for each heartbeat; null, the default, for the number of running tasks
 * @param executor runs the handlers, with at least {@code slots} threads; null, the default, for a virtual thread each where
 *     the JVM has them, else for a pool of threads that grows as needed. Handlers that compute for long are better off with
 *     a pool: virtual threads share a few carriers, which they leave only where they wait
 * @param handleSignals whether an end of the JVM, by SIGTERM or SIGINT for instance, drains the host while it runs, and
 *     waits until it has left. Default: false
 */
public record HostOptions(
        int slots,
        List<String> capabilities,
        String project,
        Map<String, String> labels,
        String displayName,
        Duration lease,
        Duration drainGrace,
        Supplier<Machine> machine,
        Executor executor,
        boolean handleSignals) {
    /**
     * Checks the options.
     *
     * @throws IllegalArgumentException for options that no host can run with; the text begins with the option's name
     */
    public HostOptions {
        capabilities = List.copyOf(capabilities);
        labels = Map.copyOf(labels);
        Objects.requireNonNull(drainGrace, "drainGrace");
        check(slots >= 1, "slots: must be at least 1, is " + slots);
        check(!drainGrace.isNegative(), "drainGrace: must not be less than 0, is " + drainGrace);
        boolean isLease = lease == null
                || lease.compareTo(Duration.ofSeconds(1)) >= 0 && lease.compareTo(Duration.ofHours(1)) <= 0;
        check(isLease, "lease: must be 1 s to 1 h, is " + lease);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException(what);
        }
    }

    /**
     * The default options.
     *
     * @return the options
     */
    public static HostOptions defaults() {
        return new HostOptions(10, List.of(), null, Map.of(), null, null, Duration.ofSeconds(30), null, null, false);
    }

    /**
     * Sets how many tasks the host runs at the same time.
     *
     * @param slots the number, at least 1
     * @return the changed options
     * @throws IllegalArgumentException if it is less
     */
    public HostOptions withSlots(int slots) {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, handleSignals);
    }

    /**
     * Sets what the host can do.
     *
     * @param capabilities the capabilities
     * @return the changed options
     */
    public HostOptions withCapabilities(String... capabilities) {
        return new HostOptions(
                slots,
                List.of(capabilities),
                project,
                labels,
                displayName,
                lease,
                drainGrace,
                machine,
                executor,
                handleSignals);
    }

    /**
     * Limits the host to the tasks of one project.
     *
     * @param project the project, null for all
     * @return the changed options
     */
    public HostOptions withProject(String project) {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, handleSignals);
    }

    /**
     * Sets the labels that are shown with the host.
     *
     * @param labels the labels
     * @return the changed options
     */
    public HostOptions withLabels(Map<String, String> labels) {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, handleSignals);
    }

    /**
     * Sets the name for people.
     *
     * @param displayName the name, null for the id
     * @return the changed options
     */
    public HostOptions withDisplayName(String displayName) {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, handleSignals);
    }

    /**
     * Sets the length of the host's leases.
     *
     * @param lease the length, 1 s to 1 h, null for that of the server
     * @return the changed options
     * @throws IllegalArgumentException for another length
     */
    public HostOptions withLease(Duration lease) {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, handleSignals);
    }

    /**
     * Sets how long running tasks may go on once the host drains.
     *
     * @param drainGrace the time, 0 for none
     * @return the changed options
     * @throws IllegalArgumentException if it is less than 0
     */
    public HostOptions withDrainGrace(Duration drainGrace) {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, handleSignals);
    }

    /**
     * Sets where the figures of the machine come from. They are asked for at each heartbeat, which must not wait for long.
     *
     * @param machine returns the figures, null for the number of running tasks
     * @return the changed options
     */
    public HostOptions withMachine(Supplier<Machine> machine) {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, handleSignals);
    }

    /**
     * Sets what runs the handlers.
     *
     * @param executor the executor, with at least as many threads as there are slots; null for threads of the host's own
     * @return the changed options
     */
    public HostOptions withExecutor(Executor executor) {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, handleSignals);
    }

    /**
     * Has an end of the JVM, by SIGTERM or SIGINT for instance, drain the host while it runs. The JVM ends once all such
     * hosts have left.
     *
     * @return the changed options
     */
    public HostOptions withHandleSignals() {
        return new HostOptions(
                slots, capabilities, project, labels, displayName, lease, drainGrace, machine, executor, true);
    }

    /** What a Hello says of these options. */
    Hello.Builder hello() {
        Hello.Builder hello = Hello.newBuilder()
                .addAllCapabilities(capabilities)
                .setSlots(slots)
                .putAllLabels(labels);
        if (displayName != null) {
            hello.setDisplayName(displayName);
        }
        if (project != null) {
            hello.setProject(project);
        }
        if (lease != null) {
            hello.setLeaseSecs((int) lease.plusNanos(999_999_999).toSeconds());
        }
        return hello;
    }
}
