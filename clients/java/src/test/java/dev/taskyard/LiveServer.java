package dev.taskyard;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A real server of the repository's environment. All tests share one; each test has a namespace of its own. */
final class LiveServer {
    private static final Path COMMAND = Path.of("../../.venv/bin/taskyard").toAbsolutePath().normalize();
    private static final int START_SECS = 60;
    private static final AtomicInteger NAMESPACES = new AtomicInteger();
    private static LiveServer shared;

    final int port;
    private final Process process;

    private LiveServer(int port, Process process) {
        this.port = port;
        this.process = process;
    }

    /** Options for the shared server, with a new namespace and the agent {@code ann}. */
    static synchronized TaskyardOptions options() {
        if (shared == null) {
            shared = start(freePort());
            Runtime.getRuntime().addShutdownHook(new Thread(shared::stop));
        }
        return options("127.0.0.1:" + shared.port);
    }

    /** The same for a server at another address. */
    static TaskyardOptions options(String address) {
        return TaskyardOptions.of(address).withNamespace("test-" + NAMESPACES.incrementAndGet()).withAgentId("ann");
    }

    /** Starts another server on this port, and returns once it serves. */
    static LiveServer start(int port) {
        if (!Files.isExecutable(COMMAND)) {
            throw new IllegalStateException(COMMAND + " is missing: make -C ../.. setup");
        }
        String grpc = "127.0.0.1:" + port;
        String metrics = "127.0.0.1:" + freePort();
        ProcessBuilder builder = new ProcessBuilder(
                COMMAND.toString(), "up", "--no-gateway", "--grpc", grpc, "--metrics", metrics, "--log-level", "error",
                "--store", "memory://");
        builder.environment().keySet().removeIf(name -> name.startsWith("TASKYARD_"));
        builder.redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.INHERIT);
        try {
            LiveServer server = new LiveServer(port, builder.start());
            server.awaitListening();
            return server;
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    void stop() {
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    /** A free port of the loopback interface. */
    static int freePort() {
        try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return probe.getLocalPort();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private void awaitListening() {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_SECS);
        while (System.nanoTime() < until && process.isAlive()) {
            try (Socket probe = new Socket()) {
                probe.connect(new InetSocketAddress("127.0.0.1", port), 1_000);
                return;
            } catch (IOException notYet) {
                try {
                    Thread.sleep(50);
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                    break;
                }
            }
        }
        process.destroyForcibly();
        throw new IllegalStateException("the server does not start");
    }
}
