package dev.taskyard;

import com.google.protobuf.ByteString;
import com.google.protobuf.Value;
import dev.taskyard.v1.NewChunk;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/** What a handler says, cut into chunks. */
final class Chunks {
    /** The most that one chunk has. */
    static final int MAX_BYTES = 64 * 1024;

    static final String DEFAULT_CHANNEL = "output";
    private static final Pattern CHANNEL = Pattern.compile("[A-Za-z0-9_./-]{1,64}");

    private Chunks() {}

    /**
     * A string as text, bytes as they are, anything else as JSON.
     *
     * @throws IllegalArgumentException for a malformed channel, for what is not plain, and for JSON that does not fit a chunk
     */
    static List<NewChunk> of(String channel, Object said) {
        if (!CHANNEL.matcher(channel).matches()) {
            throw new IllegalArgumentException(
                    "channel: must have 1 to 64 letters, digits, '.', '_', '-' or '/', is '" + channel + "'");
        }
        String named = channel.equals(DEFAULT_CHANNEL) ? "" : channel;
        List<NewChunk> chunks = new ArrayList<>();
        if (said instanceof CharSequence text) {
            ByteString bytes = ByteString.copyFromUtf8(text.toString());
            for (int begin = 0; begin < bytes.size(); ) {
                int end = endOfText(bytes, begin);
                chunks.add(chunk(named).setTextBytes(bytes.substring(begin, end)).build());
                begin = end;
            }
        } else if (said instanceof byte[] || said instanceof ByteString) {
            ByteString bytes = said instanceof byte[] array ? ByteString.copyFrom(array) : (ByteString) said;
            for (int begin = 0; begin < bytes.size(); begin += MAX_BYTES) {
                int end = Math.min(begin + MAX_BYTES, bytes.size());
                chunks.add(chunk(named).setBinary(bytes.substring(begin, end)).build());
            }
        } else {
            Value value = Json.value(said);
            if (value.getSerializedSize() > MAX_BYTES) {
                throw new IllegalArgumentException(
                        "JSON of " + value.getSerializedSize() + " bytes does not fit a chunk of " + MAX_BYTES);
            }
            chunks.add(chunk(named).setJson(value).build());
        }
        return chunks;
    }

    private static NewChunk.Builder chunk(String channel) {
        return NewChunk.newBuilder().setChannel(channel);
    }

    /** Where a chunk ends that begins here: never inside a character. */
    private static int endOfText(ByteString text, int begin) {
        if (text.size() - begin <= MAX_BYTES) {
            return text.size();
        }
        int end = begin + MAX_BYTES;
        while ((text.byteAt(end) & 0xC0) == 0x80) {
            end--;
        }
        return end;
    }
}
