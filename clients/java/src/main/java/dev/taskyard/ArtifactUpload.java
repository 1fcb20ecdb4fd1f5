package dev.taskyard;

import com.google.api.HttpBody;
import com.google.protobuf.ByteString;
import dev.taskyard.v1.Artifact;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.function.Function;

/** Uploads of artifacts: in parts of one size, the last of which brings the hash of the whole (docs/rules.md, Artifacts). */
final class ArtifactUpload {
    static final int PART_BYTES = 1 << 20;

    /** How often an upload begins, where the server has less of it than it said. */
    private static final int MAX_TRIES = 5;

    /** A part. {@code sha256} is empty but for the last one; {@code size} is that of the whole, 0 if it is not known. */
    record Part(long offset, long size, String sha256, HttpBody content) {}

    private ArtifactUpload() {}

    /**
     * Uploads an artifact.
     *
     * @param send sends a part, repeats it while the server is unavailable, and returns the artifact once it is complete
     */
    static Artifact send(ArtifactContent content, String mediaType, Function<Part, Artifact> send) {
        for (int left = MAX_TRIES - 1; ; left--) {
            try {
                return once(content, mediaType, send);
            } catch (TaskyardException error) {
                boolean hasLostSome = error.code().equals("bad_request") && error.reason().startsWith("offset:");
                if (left == 0 || !hasLostSome) {
                    throw error;
                }
            } catch (IOException unreadable) {
                throw new UncheckedIOException(unreadable);
            }
        }
    }

    private static Artifact once(ArtifactContent content, String mediaType, Function<Part, Artifact> send)
            throws IOException {
        MessageDigest hash = newHash();
        long size = content.size();
        try (InputStream bytes = content.open()) {
            byte[] data = bytes.readNBytes(PART_BYTES);
            for (long offset = 0; ; ) {
                byte[] next = data.length < PART_BYTES ? new byte[0] : bytes.readNBytes(PART_BYTES);
                hash.update(data);
                HttpBody.Builder body = HttpBody.newBuilder().setData(ByteString.copyFrom(data));
                if (mediaType != null) {
                    body.setContentType(mediaType);
                }
                boolean isLast = next.length == 0;
                Artifact artifact = send.apply(new Part(offset, size, isLast ? hexOf(hash) : "", body.build()));
                if (isLast) {
                    return artifact;
                }
                offset += data.length;
                data = next;
            }
        }
    }

    /** Begins a hash of SHA-256. */
    static MessageDigest newHash() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** The hash in hex, which begins anew. */
    static String hexOf(MessageDigest hash) {
        return HexFormat.of().formatHex(hash.digest());
    }
}
