package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.taskyard.v1.NewChunk;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** How what a handler says becomes chunks. */
class ChunksTest {
    @Test
    void aLongTextBecomesSeveralChunksOfWholeCharacters() {
        for (String character : List.of("€", "😀")) {
            String text = "x".repeat(Chunks.MAX_BYTES - 1) + character + "y".repeat(Chunks.MAX_BYTES);
            List<NewChunk> chunks = Chunks.of("log", text);
            assertEquals(text, chunks.stream().map(NewChunk::getText).collect(Collectors.joining()));
            assertEquals(3, chunks.size());
            assertEquals(Chunks.MAX_BYTES - 1, chunks.get(0).getTextBytes().size());
            assertTrue(chunks.stream().allMatch(chunk -> chunk.getTextBytes().size() <= Chunks.MAX_BYTES));
            assertEquals("log", chunks.get(0).getChannel());
        }
        assertEquals(List.of(), Chunks.of("output", ""));
        assertEquals("a?", Chunks.of("output", "a\ud83d").get(0).getText());
    }

    @Test
    void bytesAreCutAndAreThoseOfWhenTheyWereSaid() {
        byte[] bytes = new byte[Chunks.MAX_BYTES + 1];
        List<NewChunk> chunks = Chunks.of("output", bytes);
        bytes[Chunks.MAX_BYTES] = 1;
        assertEquals(2, chunks.size());
        assertEquals(ByteString.copyFrom(new byte[1]), chunks.get(1).getBinary());
        assertEquals(2, Chunks.of("output", ByteString.copyFrom(bytes)).size());
    }

    @Test
    void anythingElseIsJson() {
        assertEquals(Map.of("n", 1L), Json.plain(Chunks.of("output", Map.of("n", 1)).get(0).getJson()));
        assertTrue(Chunks.of("output", null).get(0).getJson().hasNullValue());
        List<String> large = Collections.nCopies(2, "x".repeat(Chunks.MAX_BYTES / 2));
        for (Object wrong : List.of(new Object(), Double.NaN, (1L << 53) + 1, large)) {
            assertThrows(IllegalArgumentException.class, () -> Chunks.of("output", wrong));
        }
    }

    @Test
    void aMalformedChannelIsRefused() {
        for (String channel : List.of("", "a b", "ü", "x".repeat(65))) {
            assertThrows(IllegalArgumentException.class, () -> Chunks.of(channel, "x"));
        }
        assertEquals("a/b.c-d_1", Chunks.of("a/b.c-d_1", "x").get(0).getChannel());
    }
}
