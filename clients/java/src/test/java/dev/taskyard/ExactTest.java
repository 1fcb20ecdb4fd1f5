package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.taskyard.v1.Payload;
import dev.taskyard.v1.SubmitTaskRequest;
import dev.taskyard.v1.Task;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Whole numbers that doubles do not hold: refused as params, sent whole as inputs. */
class ExactTest {
    private static final long BIG = (1L << 53) + 1;

    @Test
    void aWholeNumberBeyondDoublesIsRefusedByTheNameOfItsField() {
        var nested = Map.of("pages", List.of(Map.of("id", 1), Map.of("id", BIG)));
        for (Number number : List.of(BIG, -BIG, BigInteger.TWO.pow(100), new BigDecimal(BIG))) {
            var refused = assertThrows(IllegalArgumentException.class, () -> Json.struct(Map.of("id", number)));
            assertTrue(refused.getMessage().startsWith("id: " + number), refused.getMessage());
        }
        var refused = assertThrows(IllegalArgumentException.class, () -> Json.struct(nested));
        assertTrue(refused.getMessage().startsWith("pages[1].id: "), refused.getMessage());
        Json.struct(Map.of("id", 1L << 53, "large", 1e300, "half", new BigDecimal("0.5")));
    }

    @Test
    void whatParamsHoldTravelsAsParams() {
        var request = new Exact(Map.of("id", 1L << 53)).putInto(SubmitTaskRequest.newBuilder());
        assertTrue(request.hasParams());
        assertFalse(request.hasInput());
    }

    @Test
    void whatParamsCannotHoldTravelsAsInput() {
        for (Object value : List.of(Map.of("id", BIG), List.of(1, 2), "text")) {
            var request = Exact.of(value).putInto(SubmitTaskRequest.newBuilder());
            assertFalse(request.hasParams());
            assertEquals("", request.getInput().getEncoding());
            var task = Task.newBuilder().setInput(request.getInput()).build();
            assertEquals(value instanceof List ? List.of(1L, 2L) : value, Json.input(task));
        }
    }

    @Test
    void anOutputIsAResultWhereThatHoldsIt() {
        assertEquals("{}", Json.plain(new Exact(Map.of()).completed().getResult()).toString());
        assertEquals(BIG, Json.plain(new Exact(BIG).completed().getOutput()));
        assertFalse(new Exact(null).completed().hasResult());
    }

    @Test
    void payloadsComeBackUnchanged() {
        Map<String, Object> plain = new LinkedHashMap<>();
        plain.put("numbers", Arrays.asList(BIG, Long.MIN_VALUE, BigInteger.TWO.pow(70), 0.1, -1.5e-7, 0L));
        plain.put("texts", List.of("", "gr\u00fc\u00df \ud83d\ude00", "\"\\/\b\f\n\r\t\u0001"));
        plain.put("others", Arrays.asList(null, true, false, List.of(), Map.of()));
        assertEquals(plain, Json.plain(Json.payload(plain)));
    }

    @Test
    void textOfOthersIsReadAsJsonIs() {
        assertEquals(Map.of("a", List.of(1L, "\u00e9/\ud83d\ude00", 100L)), read(" { \"a\" : [ 1 , \"\\u00e9\\/\\ud83d\\ude00\" , 1e2 ] } "));
    }

    @Test
    void whatIsNotJsonIsRefused() {
        var wrong = List.of(
                "", "{", "[1,]", "{\"a\"}", "{\"a\":1,}", "01", "1.", "+1", "NaN", "tru", "\"\n\"", "\"\\x\"", "\"\\u12\"",
                "1 2", "'a'", "1e999", "[".repeat(1_000), "1".repeat(2_000));
        for (String text : wrong) {
            assertThrows(IllegalArgumentException.class, () -> read(text), text);
        }
    }

    @Test
    void whatOnlyACodecReadsIsRefused() {
        var payload = Payload.newBuilder().setEncoding("fernet").build();
        var refused = assertThrows(IllegalArgumentException.class, () -> Json.plain(payload));
        assertEquals("unknown encoding 'fernet'", refused.getMessage());
    }

    private static Object read(String text) {
        return Json.plain(Payload.newBuilder().setData(ByteString.copyFromUtf8(text)).build());
    }
}
