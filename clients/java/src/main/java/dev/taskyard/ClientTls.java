package dev.taskyard;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;
import javax.net.ssl.X509ExtendedTrustManager;

/** TLS by files of certificates, which are read anew when they change, for the connections from then on. */
final class ClientTls {
    /** How far the last connection came. A server that misses a certificate often ends the connection without a word. */
    enum Stage {
        /** The server has answered, or has not asked for a certificate. */
        HEARD,
        /** It asked for a certificate, there was none, and it has not answered since. */
        CERTIFICATE_MISSING,
        /** It asked for a certificate, got it, and has not answered since. */
        CERTIFICATE_SHOWN
    }

    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");
    private static final List<String> ALGORITHMS = List.of("EC", "RSA", "Ed25519", "Ed448");

    private final Path ca;
    private final Path cert;
    private final Path key;
    private volatile Stage stage = Stage.HEARD;

    /** The files may be null; without a CA the authorities of the Java runtime are trusted. */
    ClientTls(Path ca, Path cert, Path key) {
        this.ca = ca;
        this.cert = cert;
        this.key = key;
    }

    Path ca() {
        return ca;
    }

    Path cert() {
        return cert;
    }

    Stage stage() {
        return stage;
    }

    /** The server has answered a call. */
    void heard() {
        if (stage != Stage.HEARD) {
            stage = Stage.HEARD;
        }
    }

    /** @throws IllegalArgumentException if a file cannot be used */
    ChannelCredentials credentials() {
        TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
        // Also without a certificate: it notes that the server asks for one.
        builder.keyManager(new Keys());
        if (ca != null) {
            builder.trustManager(new Trust());
        }
        return builder.build();
    }

    /** What a file holds, read anew when it changes. */
    private static final class Contents<T> {
        private interface Reader<T> {
            T read() throws IOException, GeneralSecurityException;
        }

        private final List<Path> files;
        private final Reader<T> reader;
        private List<FileVersion> versions;
        private T value;

        /** @throws IllegalArgumentException if the files cannot be used; the text begins with the name of the option */
        Contents(String option, List<Path> files, Reader<T> reader) {
            if (files.stream().anyMatch(each -> each.toString().contains("-----BEGIN"))) {
                // The path stands in errors, where a private key must not.
                throw new IllegalArgumentException(option + ": must be the path of a file, is a text in PEM");
            }
            this.files = files;
            this.reader = reader;
            try {
                read();
            } catch (IOException | GeneralSecurityException unusable) {
                throw new IllegalArgumentException(option + ": cannot be used: " + unusable);
            }
        }

        synchronized T current() {
            try {
                boolean holds = true;
                for (int n = 0; n < files.size(); n++) {
                    holds = versions.get(n).holdsAt(FileVersion.of(files.get(n))) && holds;
                }
                if (!holds) {
                    read();
                }
            } catch (IOException | GeneralSecurityException unusable) {
                // A file is replaced in steps: until the next one is there, the last one holds.
                return value;
            }
            return value;
        }

        private void read() throws IOException, GeneralSecurityException {
            List<FileVersion> before = new ArrayList<>();
            for (Path file : files) {
                before.add(FileVersion.of(file));
            }
            value = reader.read();
            versions = before;
        }
    }

    private record Pair(X509Certificate[] chain, PrivateKey key) {}

    /** The client certificate. An alias names nothing here: there is one certificate. */
    private final class Keys extends X509ExtendedKeyManager {
        private final Contents<Pair> pair = cert == null
                ? null
                : new Contents<>("cert, key", List.of(cert, key), () -> new Pair(certificates(cert), privateKey(key)));
        private volatile Pair shown;

        @Override
        public String chooseEngineClientAlias(String[] types, Principal[] issuers, SSLEngine engine) {
            stage = pair == null ? Stage.CERTIFICATE_MISSING : Stage.CERTIFICATE_SHOWN;
            shown = pair == null ? null : pair.current();
            return pair == null ? null : "client";
        }

        @Override
        public X509Certificate[] getCertificateChain(String alias) {
            Pair current = shown;
            return current == null ? null : current.chain();
        }

        @Override
        public PrivateKey getPrivateKey(String alias) {
            Pair current = shown;
            return current == null ? null : current.key();
        }

        @Override
        public String chooseClientAlias(String[] types, Principal[] issuers, Socket socket) {
            return chooseEngineClientAlias(types, issuers, null);
        }

        @Override
        public String[] getClientAliases(String type, Principal[] issuers) {
            return pair == null ? null : new String[] {"client"};
        }

        @Override
        public String[] getServerAliases(String type, Principal[] issuers) {
            return null;
        }

        @Override
        public String chooseServerAlias(String type, Principal[] issuers, Socket socket) {
            return null;
        }
    }

    /** The certificate authorities. */
    private final class Trust extends X509ExtendedTrustManager {
        private final Contents<X509ExtendedTrustManager> authorities =
                new Contents<>("ca", List.of(ca), () -> trusting(certificates(ca)));

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine)
                throws CertificateException {
            authorities.current().checkServerTrusted(chain, type, engine);
        }

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket)
                throws CertificateException {
            authorities.current().checkServerTrusted(chain, type, socket);
        }

        @Override
        public void checkServerTrusted(X509Certificate[] chain, String type) throws CertificateException {
            throw new CertificateException("the name of the server cannot be checked");
        }

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine)
                throws CertificateException {
            throw new CertificateException("a client accepts no connections");
        }

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket)
                throws CertificateException {
            checkClientTrusted(chain, type);
        }

        @Override
        public void checkClientTrusted(X509Certificate[] chain, String type) throws CertificateException {
            throw new CertificateException("a client accepts no connections");
        }

        @Override
        public X509Certificate[] getAcceptedIssuers() {
            return authorities.current().getAcceptedIssuers();
        }
    }

    private static X509ExtendedTrustManager trusting(X509Certificate[] authorities)
            throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        for (int n = 0; n < authorities.length; n++) {
            store.setCertificateEntry("ca" + n, authorities[n]);
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        for (TrustManager each : factory.getTrustManagers()) {
            if (each instanceof X509ExtendedTrustManager found) {
                return found;
            }
        }
        throw new GeneralSecurityException("the Java runtime has no X.509");
    }

    private static X509Certificate[] certificates(Path file) throws IOException, GeneralSecurityException {
        try (InputStream stream = Files.newInputStream(file)) {
            Certificate[] found = CertificateFactory.getInstance("X.509")
                    .generateCertificates(stream)
                    .toArray(Certificate[]::new);
            if (found.length == 0) {
                throw new CertificateException(file + " has no certificate in PEM");
            }
            X509Certificate[] chain = new X509Certificate[found.length];
            System.arraycopy(found, 0, chain, 0, found.length);
            return chain;
        }
    }

    private static PrivateKey privateKey(Path file) throws IOException, GeneralSecurityException {
        Matcher found = KEY.matcher(Files.readString(file, StandardCharsets.ISO_8859_1));
        if (!found.find()) {
            throw new GeneralSecurityException(file + " has no private key in PKCS #8 (BEGIN PRIVATE KEY)");
        }
        byte[] encoded;
        try {
            encoded = Base64.getMimeDecoder().decode(found.group(1));
        } catch (IllegalArgumentException broken) {
            throw new GeneralSecurityException(file + " has a broken private key");
        }
        for (String algorithm : ALGORITHMS) {
            try {
                return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(encoded));
            } catch (GeneralSecurityException other) {
                continue;
            }
        }
        throw new GeneralSecurityException(file + " has a private key of an unknown kind");
    }
}
