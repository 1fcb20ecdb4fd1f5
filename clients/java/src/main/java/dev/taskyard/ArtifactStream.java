package dev.taskyard;

import com.google.api.HttpBody;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Objects;

/** The bytes of an artifact. After a broken connection they go on where they were; their hash is checked at the end. */
final class ArtifactStream extends InputStream {
    /** Opens a stream behind so many bytes. */
    interface Opener {
        void open(long offset, ServerStream<Object, HttpBody> stream);
    }

    /** What was read is not the artifact, since another one has taken its place. */
    static final class ReplacedException extends IOException {
        private static final long serialVersionUID = 1L;

        ReplacedException(Throwable cause) {
            super("the artifact has other bytes than its hash says", cause);
        }

        /** The same for callers that read all at once. */
        TaskyardException thrown() {
            return getCause() instanceof TaskyardException known
                    ? known
                    : TaskyardException.of(Status.INTERNAL, getMessage());
        }
    }

    private final Opener opener;
    private final Resumption resumption;
    private final String sha256;
    private final MessageDigest hash = ArtifactUpload.newHash();
    private ServerStream<Object, HttpBody> stream;
    private ByteBuffer part = ByteBuffer.allocate(0);
    private long offset;
    private boolean ended;

    /** {@code sha256} is null if it is not known. */
    ArtifactStream(Opener opener, Resumption resumption, String sha256) {
        this.opener = opener;
        this.resumption = resumption;
        this.sha256 = sha256;
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] into, int from, int length) throws IOException {
        Objects.checkFromIndexSize(from, length, into.length);
        while (!part.hasRemaining() && length > 0) {
            if (ended || !next()) {
                return -1;
            }
        }
        int count = Math.min(length, part.remaining());
        part.get(into, from, count);
        return count;
    }

    @Override
    public void close() {
        ended = true;
        if (stream != null) {
            stream.cancel();
        }
    }

    /** Waits for the next bytes; false once there are none. */
    private boolean next() throws ReplacedException {
        while (true) {
            try {
                if (stream == null) {
                    stream = new ServerStream<>("an artifact");
                    opener.open(offset, stream);
                }
                HttpBody body = stream.next();
                if (body == null) {
                    ended = true;
                    check();
                    return false;
                }
                resumption.works();
                part = body.getData().asReadOnlyByteBuffer();
                offset += part.remaining();
                hash.update(part.duplicate());
                return true;
            } catch (TaskyardException error) {
                if (offset > 0 && (error.code().equals("not_found") || error.code().equals("out_of_range"))) {
                    throw new ReplacedException(error);
                }
                resumption.await(error, false);
                stream.cancel();
                stream = null;
            }
        }
    }

    private void check() throws ReplacedException {
        if (sha256 != null && !sha256.equals(ArtifactUpload.hexOf(hash))) {
            throw new ReplacedException(null);
        }
    }
}
