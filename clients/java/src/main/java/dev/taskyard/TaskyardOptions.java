package dev.taskyard;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.time.Duration;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where the server is, and what every call of a client carries. Immutable: each {@code with} method returns a changed copy.
 *
 * <p>Defaults: no agent, the namespace {@code default}, no token, no TLS, a timeout of 30 s, a patience of 30 s.
 *
 * @param address where the server is, {@code HOST:PORT}
 * @param agent the agent of tasks that name none; empty for none, then each task must name one
 * @param namespace the namespace of all calls, printable ASCII
 * @param token the token of the caller, printable ASCII, sent as {@code authorization: Bearer TOKEN}; null for none
 * @param credentials how the connection is secured
 * @param timeout how long a call waits for its answer before it ends as {@code deadline_exceeded}, more than 0; streams
 *     have no limit
 * @param patience how long calls that are safe to repeat are repeated while the server is unavailable; 0 for no repeats
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

    /** Longer than any call, and short enough as a number of nanoseconds. */
    private static final Duration MAX = Duration.ofDays(36_500);

    /**
     * Checks the options. A timeout or patience of more than 36,500 days counts as that.
     *
     * @throws IllegalArgumentException for options that no call can be made with; the text begins with the option's name
     */
    public TaskyardOptions {
        Objects.requireNonNull(address, "address");
        Objects.requireNonNull(agent, "agent");
        Objects.requireNonNull(namespace, "namespace");
        Objects.requireNonNull(credentials, "credentials");
        Objects.requireNonNull(timeout, "timeout");
        Objects.requireNonNull(patience, "patience");
        check(isAddress(address), "address: must be HOST:PORT, is '" + address + "'");
        check(isHeader(namespace), "namespace: must be of printable ASCII characters");
        // gRPC would send another value, and log this one.
        check(token == null || isHeader(token), "token: must be of printable ASCII characters");
        check(!timeout.isZero() && !timeout.isNegative(), "timeout: must be more than 0, is " + timeout);
        check(!patience.isNegative(), "patience: must not be less than 0, is " + patience);
        timeout = timeout.compareTo(MAX) < 0 ? timeout : MAX;
        patience = patience.compareTo(MAX) < 0 ? patience : MAX;
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

    /**
     * The default options.
     *
     * @param address where the server is, {@code HOST:PORT}
     * @return the options
     * @throws IllegalArgumentException if the address has another form
     */
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

    /**
     * Sets the agent of tasks that name none.
     *
     * @param agent the agent
     * @return the changed options
     */
    public TaskyardOptions withAgent(String agent) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /**
     * Sets the namespace of all calls.
     *
     * @param namespace the namespace
     * @return the changed options
     * @throws IllegalArgumentException if it is not printable ASCII
     */
    public TaskyardOptions withNamespace(String namespace) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /**
     * Sets the token that all calls carry.
     *
     * @param token the token, null for none
     * @return the changed options
     * @throws IllegalArgumentException if it is not printable ASCII
     */
    public TaskyardOptions withToken(String token) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /**
     * Secures the connection by TLS, with the certificate authorities of the Java runtime.
     *
     * @return the changed options
     */
    public TaskyardOptions withTls() {
        return withCredentials(TlsChannelCredentials.create());
    }

    /**
     * Secures the connection in a way of your own, for instance with a client certificate.
     *
     * @param credentials how the connection is secured
     * @return the changed options
     */
    public TaskyardOptions withCredentials(ChannelCredentials credentials) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /**
     * Sets how long a call waits for its answer.
     *
     * @param timeout the timeout, more than 0
     * @return the changed options
     * @throws IllegalArgumentException if it is not more than 0
     */
    public TaskyardOptions withTimeout(Duration timeout) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /**
     * Sets how long calls that are safe to repeat are repeated while the server is unavailable.
     *
     * @param patience the patience, 0 for no repeats
     * @return the changed options
     * @throws IllegalArgumentException if it is less than 0
     */
    public TaskyardOptions withPatience(Duration patience) {
        return new TaskyardOptions(address, agent, namespace, token, credentials, timeout, patience);
    }

    /** The address, agent and namespace, without the token. */
    @Override
    public String toString() {
        return "TaskyardOptions[address=%s, agent=%s, namespace=%s]".formatted(address, agent, namespace);
    }
}
