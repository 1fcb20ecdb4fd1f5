package dev.taskyard;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The token of a client: a fixed one, or that of a file, which is read anew when it changes. */
final class Token {
    /** The token by where it comes from, for people. */
    final String tried;

    private final Path file;
    private String token;
    private FileVersion version;

    /** @throws IllegalArgumentException for a text that no header can hold */
    Token(String token, String where) {
        checkHeader(token, where);
        this.token = token;
        file = null;
        String option = where.equals("token") ? "the option token" : where;
        tried = where.startsWith("token of ") ? "the " + where : "the token from " + option;
    }

    /** @throws IllegalArgumentException if there is no token in the file */
    Token(Path file, String where) {
        if (file.toString().startsWith("tyd_") || file.toString().startsWith("eyJ")) {
            throw new IllegalArgumentException(where + ": must be the path of a file, is a token");
        }
        this.file = file;
        tried = "the token file " + file + " from " + where;
        try {
            read(where);
        } catch (IOException unreadable) {
            throw new IllegalArgumentException(where + ": cannot be read: " + unreadable);
        }
    }

    /** The token to send now. */
    synchronized String current() {
        if (file != null) {
            try {
                if (!version.holdsAt(FileVersion.of(file))) {
                    read(file.toString());
                }
            } catch (IOException | IllegalArgumentException unreadable) {
                // A file is replaced in steps: until the next one is there, the last token holds.
                return token;
            }
        }
        return token;
    }

    /** Reads the token anew after a refusal. Returns whether there may be another one. */
    synchronized boolean renew() {
        version = new FileVersion(null, 0, 0, false);
        current();
        return file != null;
    }

    private void read(String where) throws IOException {
        if (token != null && !Files.isRegularFile(file)) {
            // A pipe gives its token once.
            return;
        }
        FileVersion before = FileVersion.of(file);
        String text = Files.readString(file).strip();
        if (text.isEmpty()) {
            throw new IllegalArgumentException(where + ": " + file + " is empty");
        }
        checkHeader(text, where);
        token = text;
        version = before;
    }

    private static void checkHeader(String text, String where) {
        if (!text.chars().allMatch(each -> each >= ' ' && each <= '~')) {
            throw new IllegalArgumentException(where + ": must be of printable ASCII characters");
        }
    }
}
