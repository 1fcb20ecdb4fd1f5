package dev.taskyard;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** What an artifact consists of. It is opened again where an upload begins anew. */
@FunctionalInterface
public interface ArtifactContent {
    /**
     * Opens it at its first byte.
     *
     * @return its bytes; who opened them closes them
     * @throws IOException if they cannot be read
     */
    InputStream open() throws IOException;

    /**
     * How many bytes it has, so that a server that takes fewer refuses it at once.
     *
     * @return the number, 0 if it is not known
     * @throws IOException if it cannot be found out
     */
    default long size() throws IOException {
        return 0;
    }

    /**
     * Bytes.
     *
     * @param bytes the bytes, which must not change
     * @return the content
     */
    static ArtifactContent of(byte[] bytes) {
        return new ArtifactContent() {
            @Override
            public InputStream open() {
                return new ByteArrayInputStream(bytes);
            }

            @Override
            public long size() {
                return bytes.length;
            }
        };
    }

    /**
     * A file.
     *
     * @param file its path
     * @return the content
     */
    static ArtifactContent of(Path file) {
        return new ArtifactContent() {
            @Override
            public InputStream open() throws IOException {
                return Files.newInputStream(file);
            }

            @Override
            public long size() throws IOException {
                return Files.size(file);
            }
        };
    }
}
