package dev.taskyard;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.time.Duration;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How a client reaches its server and in whose name it calls. Immutable; each {@code with} answers a changed copy.
 *
 * <p>The defaults: no agent, the namespace {@code default}, no token, no TLS, 30 s for each call, 30 s of patience.
 *
 * @param address where the server is, {@code HOST:PORT}
 * @param agent the agent of tasks that name none, or empty
 * @param namespace what all calls act in
 * @param token what tells the server who calls, sent as {@code authorization: Bearer TOKEN}; null for none
 * @param credentials whether and how the connection is secured
 * @param timeout how long one call may take before it ends as {@code deadline_exceeded}
 * @param patience how long calls that may be repeated are repeated while the server is unavailable
 */
public record TaskyardOptions(
        String address,
        String agent,
        String namespace,
        String token,
        ChannelCredentials credentials,
        Duration timeout,
        Duration patience) {
    private static final Pattern ADDRESS =
            Pattern.compile("([^\\s:/?#@\\[\\]]+|\\[[0-9a-fA-F:.%]+\\]):(?<port>\\d{1,5})");

    /** What no call outlasts, and no counter of nanoseconds overflows by. */
    private static final Duration EVER = Duration.ofDays(36_500);

    /** Throws IllegalArgumentException for what no call could be made with. */
    public TaskyardOptions {
        Objects.requireNonNull(address, "address");
        Objects.requireNonNull(agent, "agent");
        Objects.requireNonNull(namespace, "namespace");
        Objects.requireNonNull(credentials, "credentials");
        Objects.requireNonNull(timeout, "timeout");
        Objects.requireNonNull(patience, "patience");
        check(isAddress(address), "address: must be HOST:PORT, is '" + address + "'");
        check(isHeader(namespace), "namespace: must be of printable ASCII characters");
        // gRPC would send something else, and log it.
        check(token == null || isHeader(token), "token: must be of printable ASCII characters");
        check(!timeout.isZero() && !timeout.isNegative(), "timeout: must be more than 0, is " + timeout);
        check(!patience.isNegative(), "patience: must not be less than 0, is " + patience);
        timeout = timeout.compareTo(EVER) < 0 ? timeout : EVER;
        patience = patience.compareTo(EVER) < 0 ? patience : EVER;
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException(what);
        }
    }

    private static boolean isAddress(String text) {
        Matcher address = ADDRESS.matcher(text);
        return address.matches() && Integer.parseInt(address.group("port")) <= 65_535;
    }

    private static boolean isHeader(String text) {
        return text.chars().allMatch(each -> each >= ' ' && each <= '~');
    }

    /** The defaults, for the server at {@code HOST:PORT}. */
    public static TaskyardOptions of(String address) {
        return new TaskyardOptions(
                address,
                "",
                "default",
                null,
                InsecureChannelCredentials.create(),
                Duration.ofSeconds(30),
                Duration.ofSeconds(30));
    }

    /** Tasks that name no agent are this one's. */
    public TaskyardOptions withAgent(String agent) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /** All calls act in this namespace. */
    public TaskyardOptions withNamespace(String namespace) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /** All calls carry this token. */
    public TaskyardOptions withToken(String token) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /** The connection is secured by TLS, with the certificates that the Java runtime trusts. */
    public TaskyardOptions withTls() {
        return withCredentials(TlsChannelCredentials.create());
    }

    /** The connection is secured as these say, for instance with certificates of one's own. */
    public TaskyardOptions withCredentials(ChannelCredentials credentials) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /** One call may take so long. */
    public TaskyardOptions withTimeout(Duration timeout) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /** Outages up to this length pass unnoticed where a call may be repeated. */
    public TaskyardOptions withPatience(Duration patience) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /** Without the token. */
    @Override
    public String toString() {
        return "TaskyardOptions[address=%s, agent=%s, namespace=%s]".formatted(address, agent, namespace);
    }
}
