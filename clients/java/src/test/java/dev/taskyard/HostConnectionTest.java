package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.DeregisterHostRequest;
import dev.taskyard.v1.DrainHostRequest;
import dev.taskyard.v1.ListHostsRequest;
import dev.taskyard.v1.RuntimeHostServiceGrpc;
import dev.taskyard.v1.Task;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How a host keeps its connection and leaves it, with a real server behind a proxy that breaks. */
@Timeout(60)
class HostConnectionTest {
    private final TaskyardOptions options = LiveServer.options();
    private final Taskyard taskyard = Taskyard.connect(options);
    private final AtomicInteger begun = new AtomicInteger();
    private final AtomicInteger stopped = new AtomicInteger();
    private final Semaphore begins = new Semaphore(0);
    private final CountDownLatch mayEnd = new CountDownLatch(1);
    private CuttingProxy proxy;
    private Taskyard hosting;

    @BeforeEach
    void connect() throws IOException {
        proxy = new CuttingProxy(Integer.parseInt(options.address().split(":")[1]));
        hosting = Taskyard.connect(
                TaskyardOptions.of(proxy.address()).withNamespace(options.namespace()));
    }

    @AfterEach
    void close() throws IOException {
        mayEnd.countDown();
        hosting.close();
        taskyard.close();
        proxy.close();
    }

    /** A host whose tasks end once they may. */
    private RunningHost start(String id, HostOptions options) {
        return new RunningHost(new Host(hosting, id, options).action("work", task -> {
            begun.incrementAndGet();
            begins.release();
            try {
                mayEnd.await();
            } catch (InterruptedException interrupted) {
                stopped.incrementAndGet();
                throw interrupted;
            }
            return task.attempt();
        }));
    }

    private RunningHost start() {
        return start("main", HostOptions.defaults());
    }

    /** Submits a task and waits until its handler has begun. */
    private String running() throws InterruptedException {
        String id = taskyard.submit("work", Map.of()).getTaskId();
        begins.acquire();
        return id;
    }

    @Test
    void aTaskGoesOnWhenTheConnectionBreaks() throws Exception {
        try (RunningHost host = start()) {
            String id = running();
            proxy.cut();
            String next = running();
            mayEnd.countDown();
            assertEquals(1L, taskyard.result(id));
            assertEquals(1L, taskyard.result(next));
            assertEquals(2, begun.get());
        }
    }

    @Test
    void anOutcomeThatCouldNotBeSentIsSentByTheNextStream() throws Exception {
        try (RunningHost host = start()) {
            String id = running();
            // What the server answers is lost from now on.
            proxy.mute();
            mayEnd.countDown();
            while (taskyard.get(id).getState() != Task.State.done) {
                Thread.onSpinWait();
            }
            proxy.cut();
            assertEquals(1L, taskyard.run("work", Map.of()));
            assertEquals(2, begun.get());
        }
    }

    @Test
    void aSilentServerIsGivenUpAndTheTaskIsStopped() throws Exception {
        try (RunningHost host = start("main", HostOptions.defaults().withLease(Duration.ofSeconds(1)))) {
            running();
            proxy.mute();
            while (stopped.get() == 0) {
                Thread.onSpinWait();
            }
            mayEnd.countDown();
            proxy.cut();
            taskyard.run("work", Map.of());
        }
    }

    @Test
    void aDeregisteredHostStopsItsTasksAndRegistersAnew() throws Exception {
        try (RunningHost host = start()) {
            String id = running();
            taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub)
                    .deregisterHost(DeregisterHostRequest.newBuilder().setHostId("main").build());
            // The same task again.
            begins.acquire();
            mayEnd.countDown();
            taskyard.result(id);
            assertEquals(1, stopped.get());
        }
    }

    @Test
    void aHostThatDrainsFinishesItsTasksAndLeaves() throws Exception {
        RunningHost host = start();
        String id = running();
        host.host.drain();
        String late = taskyard.submit("work", Map.of()).getTaskId();
        mayEnd.countDown();
        host.awaitLeft();
        assertEquals(1L, taskyard.result(id));
        assertEquals(Task.State.queued, taskyard.get(late).getState());
        assertEquals(0, hostCount());
    }

    @Test
    void whatRunsPastTheDrainGraceIsInterruptedAndGivenBack() throws Exception {
        RunningHost host = start("main", HostOptions.defaults().withDrainGrace(Duration.ofMillis(200)));
        String id = running();
        host.host.drain();
        host.awaitLeft();
        assertEquals(1, stopped.get());
        assertEquals(Task.State.queued, taskyard.get(id).getState());
    }

    @Test
    void anInterruptDrainsTheHostAndASecondOneItsTasks() throws Exception {
        RunningHost host = start();
        String id = running();
        host.interrupt();
        while (!isDraining()) {
            Thread.onSpinWait();
        }
        assertEquals(0, stopped.get());
        host.interrupt();
        host.awaitLeft();
        assertEquals(1, stopped.get());
        assertEquals(Task.State.queued, taskyard.get(id).getState());
    }

    @Test
    void aHostThatTheServerDrainsLeaves() throws Exception {
        RunningHost host = start();
        String id = running();
        taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub)
                .drainHost(DrainHostRequest.newBuilder().setHostId("main").build());
        mayEnd.countDown();
        host.awaitLeft();
        assertEquals(1L, taskyard.result(id));
    }

    @Test
    void aHostThatWasDrainedBeforehandReturnsAtOnce() {
        Host host = new Host(hosting, "main").action("work", task -> null);
        host.drain();
        host.run();
    }

    @Test
    void aHostDrainsWithoutAConnection() throws Exception {
        proxy.close();
        RunningHost host = start();
        host.host.drain();
        host.awaitLeft();
    }

    @Test
    void aSecondHostWithTheSameIdWaitsForTheFirst() throws Exception {
        try (RunningHost first = start()) {
            running();
            try (RunningHost second = new RunningHost(new Host(hosting, "main").action("other", task -> "second"))) {
                String other = taskyard.submit("other", Map.of()).getTaskId();
                mayEnd.countDown();
                first.close();
                assertEquals("second", taskyard.result(other));
            }
        }
    }

    @Test
    void aClosedClientEndsTheRunAndStopsItsTasks() throws Exception {
        RunningHost host = start();
        running();
        hosting.close();
        var ended = assertThrows(ExecutionException.class, host::awaitLeft);
        assertEquals("cancelled", assertInstanceOf(TaskyardException.class, ended.getCause()).code());
        assertEquals(1, stopped.get());
    }

    @Test
    void aHostComesBackWhenTheServerWasStartedAnew() throws Exception {
        int port = LiveServer.freePort();
        LiveServer server = LiveServer.start(port);
        try (Taskyard other = Taskyard.connect(LiveServer.options("127.0.0.1:" + port))) {
            Host host = new Host(other, "main").action("echo", RunningTask::params);
            try (RunningHost running = new RunningHost(host)) {
                other.run("echo", Map.of());
                server.stop();
                server = LiveServer.start(port);
                assertEquals(Map.of("n", 1L), other.run("echo", Map.of("n", 1)));
            }
        } finally {
            server.stop();
        }
    }

    private int hostCount() {
        return taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub)
                .listHosts(ListHostsRequest.getDefaultInstance())
                .getHostsCount();
    }

    private boolean isDraining() {
        return taskyard.stub(RuntimeHostServiceGrpc::newBlockingStub)
                .listHosts(ListHostsRequest.getDefaultInstance())
                .getHosts(0)
                .getDraining();
    }
}
