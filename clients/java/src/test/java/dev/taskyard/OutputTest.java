package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.OutputChunk;
import dev.taskyard.v1.ReadOutputRequest;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Hosts whose tasks say something, and readers of it, with a real server behind proxies that break. */
@Timeout(60)
class OutputTest {
    private final TaskyardOptions options = LiveServer.options();
    private final Taskyard taskyard = Taskyard.connect(options);
    private CuttingProxy hostProxy;
    private CuttingProxy readerProxy;
    private Taskyard hosting;
    private Taskyard reading;

    @BeforeEach
    void connect() throws IOException {
        int port = Integer.parseInt(options.address().split(":")[1]);
        hostProxy = new CuttingProxy(port);
        readerProxy = new CuttingProxy(port);
        hosting = Taskyard.connect(TaskyardOptions.of(hostProxy.address()).withNamespace(options.namespace()));
        reading = Taskyard.connect(TaskyardOptions.of(readerProxy.address()).withNamespace(options.namespace()));
    }

    @AfterEach
    void close() throws IOException {
        hosting.close();
        reading.close();
        taskyard.close();
        hostProxy.close();
        readerProxy.close();
    }

    private RunningHost talker(HostOptions options, Handler handler) {
        return new RunningHost(new Host(hosting, "talker", options).action("talk", handler));
    }

    private static ReadOutputRequest.Builder of(String id) {
        return ReadOutputRequest.newBuilder().setTaskId(id);
    }

    private List<OutputChunk> read(ReadOutputRequest.Builder request) {
        List<OutputChunk> chunks = new ArrayList<>();
        try (OutputReader reader = reading.output(request.build())) {
            reader.forEachRemaining(chunks::add);
        }
        return chunks;
    }

    @Test
    void readersGetWhatATaskSaysLiveAndLater() {
        String longText = "€".repeat(Chunks.MAX_BYTES);
        try (RunningHost host = talker(HostOptions.defaults(), task -> {
            task.emit("grüß");
            task.emit("stdout", new byte[] {-1});
            task.emit("log", Map.of("n", 1));
            task.emit((Object) null);
            task.emit(longText);
            return null;
        })) {
            String id = taskyard.submit("talk", Map.of()).getTaskId();
            List<OutputChunk> all = read(of(id).setFollow(true));
            assertEquals(8, all.size());
            for (int n = 0; n < all.size(); n++) {
                assertEquals(n + 1, all.get(n).getSequence());
                assertEquals(1, all.get(n).getAttempt());
                assertTrue(all.get(n).hasTakenAt());
            }
            assertEquals("grüß", all.get(0).getText());
            assertEquals("output", all.get(0).getChannel());
            assertEquals("stdout", all.get(1).getChannel());
            assertEquals(-1, all.get(1).getBinary().byteAt(0));
            assertEquals(Map.of("n", 1L), Json.plain(all.get(2).getJson()));
            assertTrue(all.get(3).getJson().hasNullValue());
            List<OutputChunk> rest = read(of(id).setAfter(4).addChannels("output"));
            assertEquals(longText, rest.stream().map(OutputChunk::getText).collect(Collectors.joining()));
            assertEquals(1, read(of(id).addChannels("log")).size());
        }
        var unknown = assertThrows(TaskyardException.class, () -> read(of("tsk_none").setFollow(true)));
        assertEquals("not_found", unknown.code());
    }

    @Test
    void outputGoesOnAcrossBrokenConnectionsInOrderAndWithoutARepeat() {
        long count = 3_000;
        AtomicInteger begun = new AtomicInteger();
        Semaphore goOn = new Semaphore(0);
        try (RunningHost host = talker(HostOptions.defaults(), task -> {
            begun.incrementAndGet();
            for (long n = 0; n < count; n++) {
                if (n % 1_000 == 500) {
                    goOn.acquire();
                }
                task.emit(n);
            }
            return "done";
        })) {
            String id = taskyard.submit("talk", Map.of()).getTaskId();
            long next = 0;
            try (OutputReader reader = reading.output(of(id).setFollow(true).build())) {
                while (reader.hasNext()) {
                    assertEquals(next, Json.plain(reader.next().getJson()));
                    next++;
                    if (next % 1_000 == 500) {
                        readerProxy.cut();
                        goOn.release();
                        hostProxy.cut();
                    }
                }
            }
            assertEquals("done", taskyard.result(id));
            assertEquals(count, next);
            assertEquals(1, begun.get());
        }
    }

    @Test
    void sayingSomethingWaitsForRoomAndEndsOnceTheLeaseIsLost() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch muted = new CountDownLatch(1);
        CompletableFuture<String> reason = new CompletableFuture<>();
        HostOptions brief = HostOptions.defaults().withLease(Duration.ofSeconds(1));
        try (RunningHost host = talker(brief, task -> {
            if (runs.incrementAndGet() > 1) {
                return null;
            }
            begun.countDown();
            muted.await();
            try {
                while (true) {
                    task.emit(new byte[50_000]);
                }
            } catch (InterruptedException stopped) {
                reason.complete(task.stopReason().orElse("none"));
                throw stopped;
            }
        })) {
            taskyard.submit("talk", Map.of());
            begun.await();
            hostProxy.mute();
            muted.countDown();
            assertEquals("lease_lost", reason.get(30, TimeUnit.SECONDS));
            hostProxy.cut();
        }
    }

    @Test
    void aThreadOfAHandlerSaysNothingMoreOnceTheHostHasLeft() throws Exception {
        CountDownLatch muted = new CountDownLatch(1);
        CompletableFuture<Throwable> late = new CompletableFuture<>();
        try (RunningHost host = talker(HostOptions.defaults(), task -> {
            new Thread(() -> late.complete(assertThrows(InterruptedException.class, () -> {
                hostProxy.mute();
                muted.countDown();
                while (true) {
                    task.emit(new byte[50_000]);
                }
            }))).start();
            return late.get();
        })) {
            taskyard.submit("talk", Map.of());
            muted.await();
            hosting.close();
            late.get(30, TimeUnit.SECONDS);
        }
    }

    @Test
    void aReaderKnowsWhatWasDroppedToMakeRoom() {
        int count = 200;
        try (RunningHost host = talker(HostOptions.defaults(), task -> {
            for (int n = 0; n < count; n++) {
                task.emit(new byte[50_000]);
            }
            return null;
        })) {
            String id = taskyard.submit("talk", Map.of()).getTaskId();
            taskyard.result(id);
            try (OutputReader reader = reading.output(of(id).build())) {
                long first = reader.next().getSequence();
                assertTrue(reader.dropped() > 0);
                assertEquals(first, reader.dropped() + 1);
                int left = 1;
                for (; reader.hasNext(); left++) {
                    reader.next();
                }
                assertEquals(count, left + reader.dropped());
            }
        }
    }

    @Test
    void aReaderThatIsClosedEnds() throws Exception {
        String id = taskyard.submit("nobody", Map.of()).getTaskId();
        OutputReader reader = reading.output(of(id).setFollow(true).build());
        CompletableFuture<Boolean> hasNext = CompletableFuture.supplyAsync(reader::hasNext);
        reader.close();
        assertEquals(false, hasNext.get(30, TimeUnit.SECONDS));
    }
}
