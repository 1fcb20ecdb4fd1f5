package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.Value;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Plain values, converted to messages and back. */
class JsonTest {
    private static final String TOO_DEEP = "a JSON value must not nest deeper than 30 levels";

    @Test
    void plainValuesComeBackUnchanged() {
        List<Object> plain = Arrays.asList(null, true, "text", 1.5, -3L, List.of(), Map.of("k", List.of("v")));
        assertEquals(plain, Json.plain(Json.value(plain)));
    }

    @Test
    void wholeNumbersAreLongsWhileTheyAreExact() {
        assertEquals(1L << 53, Json.plain(Json.value(1L << 53)));
        assertEquals(0x1p60, Json.plain(Json.value(0x1p60)));
        assertEquals(7L, Json.plain(Json.value(7)));
    }

    @Test
    void anEmptyMessageIsNull() {
        assertNull(Json.plain(Value.getDefaultInstance()));
    }

    @Test
    void otherValuesAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> Json.value(new Object()));
        assertThrows(IllegalArgumentException.class, () -> Json.value(Double.NaN));
        assertThrows(IllegalArgumentException.class, () -> Json.value(Map.of(1, "one")));
    }

    @Test
    void aMapThatContainsItselfIsRefused() {
        Map<String, Object> map = new HashMap<>();
        map.put("list", List.of(1, map));
        String reason = "a map that contains itself is not a JSON value";
        assertEquals(reason, refusal(() -> Json.struct(map)));
        assertEquals(reason, refusal(() -> Json.value(map)));
    }

    @Test
    void aListThatContainsItselfIsRefused() {
        List<Object> list = new ArrayList<>();
        list.add(list);
        assertEquals("a list that contains itself is not a JSON value", refusal(() -> Json.value(list)));
    }

    @Test
    void valuesNestThirtyLevelsAtMost() {
        assertEquals(nested(30), Json.plain(Json.value(nested(30))));
        Json.struct(Map.of("k", nested(29)));
        assertEquals(TOO_DEEP, refusal(() -> Json.value(nested(31))));
        assertEquals(TOO_DEEP, refusal(() -> Json.value(nested(100_000))));
        assertEquals(TOO_DEEP, refusal(() -> Json.struct(Map.of("k", nested(30)))));
    }

    @Test
    void aValueThatIteratesOverNewValuesWithoutEndIsRefused() {
        // The only element of this path is a new path, which is equal to it.
        assertEquals(TOO_DEEP, refusal(() -> Json.value(Path.of("name"))));
    }

    @Test
    void theSameListMayOccurSeveralTimes() {
        List<Object> shared = List.of("x");
        assertEquals(List.of(shared, shared), Json.plain(Json.value(List.of(shared, shared))));
    }

    private static Object nested(int levels) {
        Object nested = "x";
        for (int level = 0; level < levels; level++) {
            nested = List.of(nested);
        }
        return nested;
    }

    private static String refusal(Runnable call) {
        return assertThrows(IllegalArgumentException.class, call::run).getMessage();
    }
}
