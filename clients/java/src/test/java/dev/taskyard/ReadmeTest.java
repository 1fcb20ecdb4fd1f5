package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.StringWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The snippets of the README and the examples compile. */
class ReadmeTest {
    private static final Pattern SNIPPET = Pattern.compile("^```java\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL);
    private static final Pattern CLASS = Pattern.compile("public class (\\w+)");
    private static final String AROUND = """
            import com.google.protobuf.*;
            import dev.taskyard.*;
            import dev.taskyard.v1.*;
            import io.grpc.StatusRuntimeException;
            import java.nio.file.Path;
            import java.time.Duration;
            import java.util.List;
            import java.util.Map;
            import java.util.Optional;
            import java.util.stream.Stream;

            public class Snippet%d {
                static void run(Taskyard taskyard) {
            %s
                }
            }
            """;

    @TempDir
    Path folder;

    @Test
    void everySnippetOfTheReadmeCompiles() throws IOException {
        List<String> bodies = SNIPPET.matcher(Files.readString(Path.of("README.md")))
                .results()
                .map(found -> found.group(1))
                .toList();
        assertTrue(bodies.size() > 5);
        for (int n = 0; n < bodies.size(); n++) {
            assertCompiles(bodies.get(n).contains("public class") ? bodies.get(n) : AROUND.formatted(n, bodies.get(n)));
        }
    }

    @Test
    @Timeout(60)
    void theAgentAndTheHostOfTheReadmeWorkTogether() throws Exception {
        String address = LiveServer.options().address();
        for (var found : SNIPPET.matcher(Files.readString(Path.of("README.md"))).results().toList()) {
            if (found.group(1).contains("public class")) {
                assertCompiles(found.group(1).replace("127.0.0.1:50051", address));
            }
        }
        PrintStream usual = System.out;
        var printed = new ByteArrayOutputStream();
        try (var loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
            Thread host = new Thread(() -> runMain(loader, "Greeter"));
            host.start();
            System.setOut(new PrintStream(printed, true));
            runMain(loader, "Hello");
            host.interrupt();
            host.join();
        } finally {
            System.setOut(usual);
        }
        assertEquals("{greeting=Hello, Ann!}", printed.toString().strip());
    }

    private static void runMain(ClassLoader loader, String name) {
        try {
            loader.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) new String[0]);
        } catch (ReflectiveOperationException failed) {
            throw new AssertionError(failed);
        }
    }

    @Test
    void everyExampleCompiles() throws IOException {
        try (Stream<Path> examples = Files.list(Path.of("examples"))) {
            for (Path example : examples.toList()) {
                assertCompiles(Files.readString(example));
            }
        }
    }

    private void assertCompiles(String source) throws IOException {
        var name = CLASS.matcher(source);
        assertTrue(name.find(), source);
        Path file = Files.writeString(folder.resolve(name.group(1) + ".java"), source);
        var compiler = ToolProvider.getSystemJavaCompiler();
        var complaints = new StringWriter();
        var files = compiler.getStandardFileManager(null, null, null);
        var options = List.of("-d", folder.toString(), "-cp", System.getProperty("java.class.path"), "-proc:none");
        var units = files.getJavaFileObjects(file);
        compiler.getTask(complaints, files, null, options, null, units).call();
        assertEquals("", complaints.toString(), source);
    }
}
