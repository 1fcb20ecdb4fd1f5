package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Options that no call can be made with are refused at once, with an error that names them. */
class OptionsTest {
    private static final Duration FOREVER = ChronoUnit.FOREVER.getDuration();
    private final TaskyardOptions options = TaskyardOptions.of("127.0.0.1:50051");

    private static void refused(String name, Runnable make) {
        var error = assertThrows(IllegalArgumentException.class, make::run);
        assertTrue(error.getMessage().startsWith(name + ": "), error.getMessage());
    }

    @Test
    void anInvalidAddressIsRefused() {
        for (String bad : List.of("http://127.0.0.1:50051", "127.0.0.1", "", "127.0.0.1:99999", "a b:1", "h:1/x")) {
            refused("address", () -> TaskyardOptions.of(bad));
        }
    }

    @Test
    void hostNamesAndIpAddressesWithAPortAreAccepted() {
        for (String good : List.of("localhost:1", "127.0.0.1:50051", "[::1]:443", "my_host.internal:65535")) {
            assertEquals(good, TaskyardOptions.of(good).address());
        }
    }

    @Test
    void aTokenOrANamespaceThatNoHeaderCanHoldIsRefused() {
        for (String bad : List.of("two\nlines", "schlüssel")) {
            refused("token", () -> options.withToken(bad));
            refused("namespace", () -> options.withNamespace(bad));
        }
    }

    @Test
    void invalidTimesAreRefused() {
        refused("timeout", () -> options.withTimeout(Duration.ZERO));
        refused("timeout", () -> options.withTimeout(Duration.ofMillis(-1)));
        refused("patience", () -> options.withPatience(Duration.ofMillis(-1)));
    }

    @Test
    void anyLengthOfTimeIsAccepted() {
        try (Taskyard patient = Taskyard.connect(LiveServer.options().withTimeout(FOREVER).withPatience(FOREVER))) {
            patient.stats();
            String id = patient.submit("echo", Map.of()).getTaskId();
            patient.cancel(id);
            assertTrue(patient.await(id, FOREVER).isPresent());
        }
    }
}
