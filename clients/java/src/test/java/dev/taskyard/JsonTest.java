package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.Value;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void whatIsPlainComesBackAsItWas() {
        List<Object> plain = Arrays.asList(null, true, "text", 1.5, -3L, List.of(), Map.of("k", List.of("v")));
        assertEquals(plain, Json.plain(Json.value(plain)));
    }

    @Test
    void wholeNumbersAreLongsWhileTheyAreExact() {
        assertEquals(1L << 53, Json.plain(Json.value(1L << 53)));
        assertEquals(0x1p60, Json.plain(Json.value(1L << 60)));
        assertEquals(7L, Json.plain(Json.value(7)));
    }

    @Test
    void whatIsAbsentIsNull() {
        assertNull(Json.plain(Value.getDefaultInstance()));
    }

    @Test
    void whatIsNotJsonIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> Json.value(new Object()));
        assertThrows(IllegalArgumentException.class, () -> Json.value(Double.NaN));
        assertThrows(IllegalArgumentException.class, () -> Json.value(Map.of(1, "one")));
    }
}
