package dev.taskyard;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;

/** Tells whether a file is still as it was read: files are often replaced by others of the same size. */
record FileVersion(Object file, long modifiedNanos, long size, boolean settled) {
    /** A file that was written to a moment ago may change again at the same time of the file system. */
    private static final long SETTLED_MS = 50;

    static FileVersion of(Path path) throws IOException {
        var found = Files.readAttributes(path, BasicFileAttributes.class);
        var modified = found.lastModifiedTime().toInstant();
        boolean settled = System.currentTimeMillis() - modified.toEpochMilli() > SETTLED_MS;
        long nanos = modified.getEpochSecond() * 1_000_000_000 + modified.getNano();
        return new FileVersion(found.fileKey(), nanos, found.size(), settled);
    }

    /** Whether what was read at this version still holds at the other one. */
    boolean holdsAt(FileVersion now) {
        return settled && equals(now);
    }
}
