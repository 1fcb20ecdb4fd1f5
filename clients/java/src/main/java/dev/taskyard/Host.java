package dev.taskyard;

import java.util.Objects;
import java.util.concurrent.CountDownLatch;

/**
 * A runtime host: it takes tasks from the server and runs their handlers.
 *
 * <pre>{@code
 * Host host = new Host(taskyard, "host-1", HostOptions.defaults().withHandleSignals());
 * host.action("greet", task -> Map.of("greeting", "Hello, " + task.params().get("name") + "!"));
 * host.run();
 * }</pre>
 *
 * <p>It holds one stream: it is handed tasks as its slots allow, renews its leases, and reconnects by itself. Its leases are
 * renewed by the thread of {@link #run}, whatever the handlers do.
 */
public final class Host {
    private final Calls calls;
    private final String id;
    private final HostOptions options;
    private final Actions actions = new Actions();
    private HostRun current;
    private boolean drainsAtOnce;

    /**
     * A host with the default options.
     *
     * @param taskyard the client whose connection, namespace and token the host uses
     * @param id the id of the host, which no other one has
     */
    public Host(Taskyard taskyard, String id) {
        this(taskyard, id, HostOptions.defaults());
    }

    /**
     * A host.
     *
     * @param taskyard the client whose connection, namespace and token the host uses
     * @param id the id of the host, which no other one has
     * @param options what it takes and how it runs it
     */
    public Host(Taskyard taskyard, String id, HostOptions options) {
        calls = taskyard.calls();
        this.id = Objects.requireNonNull(id, "id");
        this.options = Objects.requireNonNull(options, "options");
    }

    /**
     * Registers the handler of an action. Do so before {@link #run}.
     *
     * @param action the name of the action
     * @param handler runs its tasks
     * @return this host
     * @throws IllegalArgumentException if the action has a handler already
     */
    public Host action(String action, Handler handler) {
        actions.add(action, Objects.requireNonNull(handler, "handler"));
        return this;
    }

    /**
     * Registers the handler of all actions that have none of their own. With it the host takes tasks of any action.
     *
     * @param handler runs their tasks
     * @return this host
     * @throws IllegalArgumentException if there is one already
     */
    public Host anyAction(Handler handler) {
        actions.addAny(Objects.requireNonNull(handler, "handler"));
        return this;
    }

    /**
     * Connects, runs tasks, and reconnects whenever the connection is lost. It returns once the host has drained, because
     * {@link #drain} was called, the thread was interrupted, or the server drains the host. A second interrupt ends the
     * tasks that still run.
     *
     * @throws TaskyardException if the server refuses the host for good: {@code bad_request}, {@code unauthenticated},
     *     {@code permission_denied}, {@code unimplemented}; {@code conflict} if another stream of this host has taken its
     *     place; {@code cancelled} if the client is closed
     * @throws IllegalStateException if the host has no handlers, or runs already
     */
    public void run() {
        if (actions.isEmpty()) {
            throw new IllegalStateException("the host has no handlers: give it some with action()");
        }
        HostRun run = begin();
        CountDownLatch hasLeft = new CountDownLatch(1);
        Thread hook = null;
        try {
            hook = options.handleSignals() ? drainAtShutdown(hasLeft) : null;
            run.run();
        } finally {
            synchronized (this) {
                current = null;
            }
            hasLeft.countDown();
            if (hook != null) {
                removeHook(hook);
            }
        }
    }

    /**
     * Takes no new tasks, lets the running ones go on for the drain grace, interrupts and gives back the rest, and has
     * {@link #run} return. It does not wait. Before a run it has the next one return at once.
     */
    public void drain() {
        HostRun run;
        synchronized (this) {
            drainsAtOnce = current == null;
            run = current;
        }
        if (run != null) {
            run.drain();
        }
    }

    private synchronized HostRun begin() {
        if (current != null) {
            throw new IllegalStateException("the host runs already");
        }
        current = new HostRun(calls, id, options, actions);
        if (drainsAtOnce) {
            drainsAtOnce = false;
            current.drain();
        }
        return current;
    }

    private Thread drainAtShutdown(CountDownLatch hasLeft) {
        Thread hook = new Thread(() -> {
            drain();
            try {
                hasLeft.await();
            } catch (InterruptedException ends) {
                Thread.currentThread().interrupt();
            }
        }, "taskyard-drain-" + id);
        Runtime.getRuntime().addShutdownHook(hook);
        return hook;
    }

    private static void removeHook(Thread hook) {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shutsDown) {
            // It runs, and ends by itself.
        }
    }
}
