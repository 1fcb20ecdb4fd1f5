package dev.taskyard;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A certificate authority of a test, made with openssl. */
final class TestAuthority {
    private static final List<String> NEW_KEY = List.of("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes");

    /** The files of a certificate and its key. */
    record Pair(Path cert, Path key) {}

    private final Path folder;
    private final String name;
    private final Pair own;
    private int count;

    TestAuthority(Path parent, String name) throws IOException {
        folder = Files.createDirectories(parent.resolve(name));
        this.name = name;
        own = pair("ca");
        List<String> request = new ArrayList<>(List.of("req", "-x509", "-days", "1", "-subj", "/CN=" + name));
        request.addAll(NEW_KEY);
        request.addAll(List.of("-keyout", own.key().toString(), "-out", own.cert().toString()));
        openssl(request);
    }

    /** The file with its certificate. */
    Path file() {
        return own.cert();
    }

    /** Makes a certificate for this machine. */
    Pair issue() throws IOException {
        return issue("DNS:localhost,IP:127.0.0.1");
    }

    /** Makes a certificate for names. */
    Pair issue(String forNames) throws IOException {
        count++;
        Pair made = pair("" + count);
        String request = folder.resolve(count + ".csr").toString();
        Path names = Files.writeString(folder.resolve("names"), "subjectAltName=" + forNames);
        List<String> ask = new ArrayList<>(List.of("req", "-subj", "/CN=" + name + count));
        ask.addAll(NEW_KEY);
        ask.addAll(List.of("-keyout", made.key().toString(), "-out", request));
        openssl(ask);
        String serial = System.nanoTime() + "" + count;
        List<String> sign = new ArrayList<>(List.of("x509", "-req", "-days", "1", "-in", request));
        sign.addAll(List.of("-CA", own.cert().toString(), "-CAkey", own.key().toString()));
        sign.addAll(List.of("-set_serial", serial, "-extfile", names.toString(), "-out", made.cert().toString()));
        openssl(sign);
        return made;
    }

    private Pair pair(String stem) {
        return new Pair(folder.resolve(stem + ".pem"), folder.resolve(stem + ".key"));
    }

    private static void openssl(List<String> arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of("openssl"));
        command.addAll(arguments);
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes());
        try {
            if (process.waitFor() != 0) {
                throw new IOException(output);
            }
        } catch (InterruptedException interrupted) {
            throw new IOException(interrupted);
        }
    }
}
