package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.taskyard.v1.ConnectRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicNode;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.DynamicContainer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The rules of the host stream, by scripts in src/test/resources/host-session. {@link SessionScript} explains them. */
class HostSessionTest {
    private static final Path SCRIPTS = Path.of("src/test/resources/host-session");

    @TestFactory
    List<DynamicNode> scripts() throws IOException {
        try (Stream<Path> files = Files.list(SCRIPTS)) {
            List<DynamicNode> nodes = new ArrayList<>();
            for (Path file : files.sorted().toList()) {
                nodes.add(DynamicContainer.dynamicContainer(file.getFileName().toString(), testsOf(file)));
            }
            assertTrue(nodes.size() >= 5);
            return nodes;
        }
    }

    /** A test for each paragraph: its first line is the name, the others are steps. */
    private static List<DynamicTest> testsOf(Path file) throws IOException {
        List<DynamicTest> tests = new ArrayList<>();
        for (String paragraph : Files.readString(file).split("\n\n")) {
            List<String> lines = paragraph.lines().toList();
            if (!lines.get(0).startsWith("#")) {
                tests.add(DynamicTest.dynamicTest(lines.get(0), () -> perform(lines.subList(1, lines.size()))));
            }
        }
        return tests;
    }

    private static void perform(List<String> lines) {
        SessionScript script = new SessionScript(2);
        for (String line : lines) {
            String[] parts = line.split("->", -1);
            String wanted = parts.length > 1 ? parts[1].strip() : "";
            assertEquals(wanted, script.step(parts[0].strip()), line);
        }
    }

    @Test
    void noMessageExceedsTheLimitOfTheServer() {
        SessionScript script = new SessionScript(100);
        for (int n = 0; n < 100; n++) {
            script.step("running t" + n);
        }
        for (int n = 0; n < 100; n++) {
            script.step("ended t" + n);
        }
        int reports = 0;
        while (!script.step("take").isEmpty()) {
            for (ConnectRequest message : script.unwritten) {
                assertTrue(message.getSerializedSize() <= SessionScript.MESSAGE_BYTES);
                reports += message.getReports().getReportsCount();
            }
            script.step("write");
        }
        assertEquals(100, reports);
    }

    @Test
    void theNextExpiryIsThatOfTheFirstLeaseThatLives() {
        SessionScript script = new SessionScript(2);
        assertTrue(script.session.nextExpiry().isEmpty());
        script.step("running a b");
        assertEquals(60_000_000_000L, script.session.nextExpiry().getAsLong());
        script.step("at 10");
        script.step("heartbeat");
        script.step("ack 1");
        assertEquals(70_000_000_000L, script.session.nextExpiry().getAsLong());
    }
}
