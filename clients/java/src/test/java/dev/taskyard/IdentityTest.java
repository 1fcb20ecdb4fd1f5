package dev.taskyard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallCredentials;
import io.grpc.CompositeChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.Metadata;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where credentials come from, and to whom they are not sent. */
class IdentityTest {
    private static final String SECRET = "tyd_0123456789";
    private final Map<String, String> environment = new HashMap<>();

    @TempDir
    Path home;

    private Path configure(String text) throws IOException {
        Path folder = Files.createDirectories(home.resolve(".config/taskyard"));
        Files.writeString(folder.resolve("config.toml"), text);
        return folder;
    }

    private Identity identity(TaskyardOptions options) {
        return Identity.of(options, environment, home);
    }

    private String token(TaskyardOptions options) {
        Token token = identity(options).token();
        return token == null ? null : token.current();
    }

    private static TaskyardOptions at(String address) {
        return TaskyardOptions.of(address);
    }

    @Test
    void optionsComeBeforeTheEnvironmentAndThatBeforeItsProfile() throws IOException {
        configure("[profiles.blue]\naddress = \"127.0.0.1:1\"\nnamespace = \"blue\"\ntoken = \"of-profile\"");
        var found = identity(TaskyardOptions.ofProfile("blue"));
        assertEquals(List.of("127.0.0.1:1", "blue"), List.of(found.target(), found.namespace()));
        assertEquals("of-profile", found.token().current());
        environment.put("TASKYARD_PROFILE", "blue");
        assertEquals("of-profile", token(at("127.0.0.1:2")));
        environment.put("TASKYARD_TOKEN", "of-environment");
        assertEquals("of-environment", token(TaskyardOptions.ofProfile(null)));
        Path file = Files.writeString(home.resolve("token"), "of-file\n");
        assertEquals("of-file", token(at("127.0.0.1:2").withTokenFile(file)));
        assertEquals("of-option", token(at("127.0.0.1:2").withToken("of-option")));
        assertNull(token(at("127.0.0.1:2").withToken("")));
        // The token of the environment is not for the server of a profile that was asked for.
        assertEquals("of-profile", token(TaskyardOptions.ofProfile("blue")));
    }

    @Test
    void addressAndNamespaceComeFromTheEnvironmentWhereNoOptionNamesThem() throws IOException {
        configure("default_profile = \"red\"\n[profiles.red]\ntoken = \"of-red\"\n[profiles.blue]\nnamespace = \"blue\"");
        environment.put("TASKYARD_ADDRESS", "127.0.0.1:1");
        environment.put("TASKYARD_NAMESPACE", "green");
        assertPlace("127.0.0.1:1", "green", TaskyardOptions.ofProfile(null));
        assertPlace("127.0.0.1:2", "green", at("127.0.0.1:2"));
        assertPlace("127.0.0.1:1", "red", TaskyardOptions.ofProfile(null).withNamespace("red"));
        assertPlace("127.0.0.1:1", "blue", TaskyardOptions.ofProfile("blue"));
    }

    private void assertPlace(String target, String namespace, TaskyardOptions options) {
        Identity found = identity(options);
        assertEquals(List.of(target, namespace), List.of(found.target(), found.namespace()));
        // The default profile is for its own server.
        assertNull(found.token());
    }

    @Test
    void theDefaultProfileCountsOnlyWhereNoAddressIsGiven() throws IOException {
        configure("default_profile = \"blue\"\n[profiles.blue]\naddress = \"127.0.0.1:1\"\ntoken = \"of-profile\"");
        assertEquals("of-profile", token(TaskyardOptions.ofProfile(null)));
        assertNull(token(at("127.0.0.1:1")));
    }

    @Test
    void theFolderOfProfilesIsThatOfXdg() throws IOException {
        Path folder = Files.createDirectories(home.resolve("elsewhere/taskyard"));
        Files.writeString(folder.resolve("config.toml"), "[profiles.blue]\ntoken_file = \"token\"");
        Files.writeString(folder.resolve("token"), "beside");
        environment.put("XDG_CONFIG_HOME", home.resolve("elsewhere").toString());
        assertEquals("beside", token(TaskyardOptions.ofProfile("blue")));
        environment.put("XDG_CONFIG_HOME", "elsewhere");
        assertThrows(IllegalArgumentException.class, () -> token(TaskyardOptions.ofProfile("blue")));
    }

    @Test
    void mistakesInCredentialsAreNamedWithoutTheSecret() throws IOException {
        configure("[profiles.both]\ntoken = \"" + SECRET + "\"\ntoken_file = \"x\"\n[profiles.number]\ntoken = 5"
                + "\n[profiles.typo]\ntokens = \"" + SECRET + "\"");
        Path empty = Files.writeString(home.resolve("empty"), "\n");
        Path lines = Files.writeString(home.resolve("lines"), SECRET + "\n" + SECRET + "\n");
        Path pem = Path.of("-----BEGIN PRIVATE KEY-----\n" + SECRET);
        var options = at("127.0.0.1:1");
        refused("[profiles.red]", options.withProfile("red"));
        refused("token_file of profile both: set only one", options.withProfile("both"));
        refused("profiles.number.token: must be a text", options.withProfile("number"));
        refused("profiles.typo.tokens: unknown key", options.withProfile("typo"));
        refused("set only one", options.withToken(SECRET).withTokenFile(empty));
        refused("is empty", options.withTokenFile(empty));
        refused("printable ASCII", options.withTokenFile(lines));
        refused("tokenFile: cannot be read", options.withTokenFile(Path.of("/nowhere/token")));
        refused("is a token", options.withTokenFile(Path.of(SECRET)));
        refused("ca: cannot be used", options.withCa(Path.of("/nowhere")));
        refused("ca: cannot be used", options.withCa(empty));
        refused("cert and key: one needs the other", options.withClientCertificate(empty, null));
        refused("is a text in PEM", options.withClientCertificate(empty, pem));
        String list = "[profiles.red]\ntoken = [\"" + SECRET + "\"]";
        for (String broken : List.of("token = " + SECRET, "[profiles.red]\n\"" + SECRET, list)) {
            configure(broken);
            refused("profile", options.withProfile("red"));
        }
        assertFalse(options.withToken(SECRET).caller().toString().contains(SECRET));
        assertFalse(options.withToken(SECRET).toString().contains(SECRET));
    }

    private void refused(String want, TaskyardOptions options) {
        var error = assertThrows(IllegalArgumentException.class, () -> identity(options));
        assertTrue(error.getMessage().contains(want), error.getMessage());
        assertFalse(error.getMessage().contains(SECRET), error.getMessage());
        assertNull(error.getCause());
    }

    @Test
    void aTokenIsNotSentInTheClearToAnotherMachine() {
        for (String here : List.of("127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "LOCALHOST:1")) {
            assertEquals("secret", token(at(here).withToken("secret")));
        }
        var others = List.of("taskyard.example", "10.0.0.1", "0.0.0.0", "127.0.0.1.example", "localhost.example", "[::2]");
        for (String away : others) {
            var options = at(away + ":1").withToken("secret");
            var error = assertThrows(IllegalArgumentException.class, () -> identity(options));
            assertTrue(error.getMessage().contains("without encryption"), error.getMessage());
            assertThrows(IllegalArgumentException.class, () -> Taskyard.connect(options));
            assertEquals("secret", token(options.withInsecure()));
            assertEquals("secret", token(options.withTls()));
            assertEquals("secret", token(at("https://" + away).withToken("secret")));
            assertNull(token(at(away + ":1")));
        }
        environment.put("TASKYARD_TOKEN", "secret");
        assertThrows(IllegalArgumentException.class, () -> identity(at("taskyard.example:1")));
    }

    @Test
    void credentialsOfGrpcThatDoNotEncryptAreNotTakenForOthers() {
        var clear = InsecureChannelCredentials.create();
        for (var each : List.of(clear, CompositeChannelCredentials.create(clear, new NoCredentials()))) {
            var options = at("taskyard.example:1").withToken("secret").withCredentials(each);
            assertThrows(IllegalArgumentException.class, () -> identity(options));
        }
    }

    private static final class NoCredentials extends CallCredentials {
        @Override
        public void applyRequestMetadata(RequestInfo call, Executor executor, MetadataApplier applier) {
            applier.apply(new Metadata());
        }
    }

    @Test
    void httpsIsTlsAtThePort443UnlessAnotherIsGiven() {
        assertEquals("a.example:443", identity(at("https://a.example")).target());
        assertEquals("a.example:8443", identity(at("https://a.example:8443/")).target());
        assertEquals("[::2]:443", identity(at("https://[::2]")).target());
        var wrong = List.of("https://", "https://a/b", "https://a@b", "https://a?b", "http://a:1", "https://a:99999");
        for (String bad : wrong) {
            assertThrows(IllegalArgumentException.class, () -> at(bad));
        }
    }

    @Test
    void anAddressOfAProfileIsCheckedToo() throws IOException {
        configure("[profiles.blue]\naddress = \"http://a:1\"");
        assertThrows(IllegalArgumentException.class, () -> identity(TaskyardOptions.ofProfile("blue")));
    }

    @Test
    void aTokenFileIsReadAnewWhenItChanges() throws IOException {
        Path file = Files.writeString(home.resolve("token"), "first\n");
        Token token = identity(at("127.0.0.1:1").withTokenFile(file)).token();
        assertEquals("first", token.current());
        Files.writeString(file, "again");
        assertEquals("again", token.current());
        Path next = Files.writeString(home.resolve("new"), "third");
        Files.move(next, file, StandardCopyOption.REPLACE_EXISTING);
        assertEquals("third", token.current());
        // A file is replaced in steps.
        Files.delete(file);
        assertEquals("third", token.current());
        assertTrue(token.renew());
        assertEquals("third", token.current());
    }
}
