package dev.taskyard;

import io.grpc.ChannelCredentials;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;

/**
 * Where the server is, who calls it, and what every call of a client carries. Immutable: each {@code with} method returns a
 * changed copy.
 *
 * <p>Defaults: no agent, a timeout of 30 s, a patience of 30 s; all else as the environment and the profile say, see
 * {@link Caller}.
 *
 * @param address where the server is: {@code HOST:PORT}, {@code https://HOST:PORT} for TLS, {@code dns:///HOST:PORT}, or
 *     {@code unix:PATH}. Several replicas have several addresses with commas in between, or one name with several: one that
 *     works is chosen at random, and kept while it does. Null for TASKYARD_ADDRESS, or that of the profile, or
 *     {@code 127.0.0.1:50051}
 * @param agentId the agent of tasks that name none; empty for none, then each task must name one
 * @param namespace the namespace of all calls, printable ASCII; null for TASKYARD_NAMESPACE, or that of the profile, or
 *     {@code default}
 * @param caller who calls, and whom the caller trusts
 * @param tls whether the connection is secured by TLS. It also is if there is a CA or a client certificate, or if the
 *     address begins with {@code https://}
 * @param credentials how the connection is secured, in place of TLS with the files of the caller; null for those
 * @param timeout how long a call waits for its answer before it ends as {@code deadline_exceeded}, more than 0; streams
 *     have no limit
 * @param patience how long calls that are safe to repeat are repeated while the server is unavailable; 0 for no repeats
 */
public record TaskyardOptions(
        String address,
        String agentId,
        String namespace,
        Caller caller,
        boolean tls,
        ChannelCredentials credentials,
        Duration timeout,
        Duration patience) {
    /** Longer than any call, and short enough as a number of nanoseconds. */
    private static final Duration MAX = Duration.ofDays(36_500);

    /**
     * Checks the options. A timeout or patience of more than 36,500 days counts as that.
     *
     * @throws IllegalArgumentException for options that no call can be made with; the text begins with the option's name
     */
    public TaskyardOptions {
        Objects.requireNonNull(agentId, "agentId");
        Objects.requireNonNull(caller, "caller");
        Objects.requireNonNull(timeout, "timeout");
        Objects.requireNonNull(patience, "patience");
        if (address != null) {
            Addresses.of(address);
        }
        check(namespace == null || isHeader(namespace), "namespace: must be of printable ASCII characters");
        // gRPC would send another value, and log this one.
        check(caller.token() == null || isHeader(caller.token()), "token: must be of printable ASCII characters");
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

    static boolean isHeader(String text) {
        return text.chars().allMatch(each -> each >= ' ' && each <= '~');
    }

    /**
     * The default options.
     *
     * @param address where the server is, or several with commas in between, see {@link #address}
     * @return the options
     * @throws IllegalArgumentException if the address has another form
     */
    public static TaskyardOptions of(String address) {
        Objects.requireNonNull(address, "address");
        return ofAddress(address);
    }

    /**
     * The default options, for several replicas.
     *
     * @param addresses where they are, at least one, see {@link #address}
     * @return the options
     * @throws IllegalArgumentException if one of them has another form
     */
    public static TaskyardOptions of(List<String> addresses) {
        return ofAddress(String.join(",", addresses));
    }

    /**
     * The options of a profile, which names the server and the caller.
     *
     * @param name the table {@code [profiles.NAME]} of {@code ~/.config/taskyard/config.toml}; null for TASKYARD_PROFILE, or
     *     the {@code default_profile} of that file, or the server at {@code 127.0.0.1:50051}
     * @return the options
     */
    public static TaskyardOptions ofProfile(String name) {
        return ofAddress(null).withProfile(name);
    }

    private static TaskyardOptions ofAddress(String address) {
        Duration usual = Duration.ofSeconds(30);
        return new TaskyardOptions(address, "", null, Caller.UNNAMED, false, null, usual, usual);
    }

    /**
     * Sets the agent of tasks that name none.
     *
     * @param agentId the agent
     * @return the changed options
     */
    public TaskyardOptions withAgentId(String agentId) {
        return new TaskyardOptions(address, agentId, namespace, caller, tls, credentials, timeout, patience);
    }

    /**
     * The former name of {@link #withAgentId}.
     *
     * @param agent the agent
     * @return the changed options
     * @deprecated use {@link #withAgentId}; this name goes with the next release
     */
    @Deprecated
    public TaskyardOptions withAgent(String agent) {
        return withAgentId(agent);
    }

    /**
     * The former name of {@link #agentId}.
     *
     * @return the agent of tasks that name none
     * @deprecated use {@link #agentId}; this name goes with the next release
     */
    @Deprecated
    public String agent() {
        return agentId;
    }

    /**
     * Sets the namespace of all calls.
     *
     * @param namespace the namespace
     * @return the changed options
     * @throws IllegalArgumentException if it is not printable ASCII
     */
    public TaskyardOptions withNamespace(String namespace) {
        return new TaskyardOptions(address, agentId, namespace, caller, tls, credentials, timeout, patience);
    }

    /**
     * Sets who calls, and whom the caller trusts.
     *
     * @param caller the caller
     * @return the changed options
     * @throws IllegalArgumentException if its token is not printable ASCII
     */
    public TaskyardOptions withCaller(Caller caller) {
        return new TaskyardOptions(address, agentId, namespace, caller, tls, credentials, timeout, patience);
    }

    /**
     * Sets the token that all calls carry.
     *
     * @param token the token, null for that of the environment or the profile
     * @return the changed options
     * @throws IllegalArgumentException if it is not printable ASCII
     */
    public TaskyardOptions withToken(String token) {
        return withCaller(new Caller(
                token, caller.tokenFile(), caller.ca(), caller.cert(), caller.key(), caller.profile(), caller.insecure()));
    }

    /**
     * Sets the file with the token that all calls carry, which is read anew when it changes.
     *
     * @param tokenFile the file
     * @return the changed options
     */
    public TaskyardOptions withTokenFile(Path tokenFile) {
        return withCaller(new Caller(
                caller.token(), tokenFile, caller.ca(), caller.cert(), caller.key(), caller.profile(), caller.insecure()));
    }

    /**
     * Secures the connection by TLS, and trusts the certificate authorities in a PEM file, which is read anew when it
     * changes.
     *
     * @param ca the file
     * @return the changed options
     */
    public TaskyardOptions withCa(Path ca) {
        return withCaller(new Caller(
                caller.token(), caller.tokenFile(), ca, caller.cert(), caller.key(), caller.profile(), caller.insecure()));
    }

    /**
     * Secures the connection by TLS, and shows the server a certificate. Both files are read anew when they change.
     *
     * @param cert a PEM file with the certificate
     * @param key a PEM file with its private key in PKCS #8
     * @return the changed options
     */
    public TaskyardOptions withClientCertificate(Path cert, Path key) {
        return withCaller(new Caller(
                caller.token(), caller.tokenFile(), caller.ca(), cert, key, caller.profile(), caller.insecure()));
    }

    /**
     * Sets the profile that says what neither the options nor the environment say.
     *
     * @param profile the table {@code [profiles.NAME]} of {@code ~/.config/taskyard/config.toml}, null for the default
     * @return the changed options
     */
    public TaskyardOptions withProfile(String profile) {
        return withCaller(new Caller(
                caller.token(), caller.tokenFile(), caller.ca(), caller.cert(), caller.key(), profile, caller.insecure()));
    }

    /**
     * Permits a token without encryption to another machine, where everybody on the way can read it.
     *
     * @return the changed options
     */
    public TaskyardOptions withInsecure() {
        return withCaller(new Caller(
                caller.token(), caller.tokenFile(), caller.ca(), caller.cert(), caller.key(), caller.profile(), true));
    }

    /**
     * Secures the connection by TLS, with the certificate authorities of the Java runtime unless there is a CA.
     *
     * @return the changed options
     */
    public TaskyardOptions withTls() {
        return new TaskyardOptions(address, agentId, namespace, caller, true, credentials, timeout, patience);
    }

    /**
     * Secures the connection in a way of your own, which the files of certificates do not change.
     *
     * @param credentials how the connection is secured, null for TLS by files or none
     * @return the changed options
     */
    public TaskyardOptions withCredentials(ChannelCredentials credentials) {
        return new TaskyardOptions(address, agentId, namespace, caller, tls, credentials, timeout, patience);
    }

    /**
     * Sets how long a call waits for its answer.
     *
     * @param timeout the timeout, more than 0
     * @return the changed options
     * @throws IllegalArgumentException if it is not more than 0
     */
    public TaskyardOptions withTimeout(Duration timeout) {
        return new TaskyardOptions(address, agentId, namespace, caller, tls, credentials, timeout, patience);
    }

    /**
     * Sets how long calls that are safe to repeat are repeated while the server is unavailable.
     *
     * @param patience the patience, 0 for no repeats
     * @return the changed options
     * @throws IllegalArgumentException if it is less than 0
     */
    public TaskyardOptions withPatience(Duration patience) {
        return new TaskyardOptions(address, agentId, namespace, caller, tls, credentials, timeout, patience);
    }

    /** The address, agent and namespace, without the token. */
    @Override
    public String toString() {
        return "TaskyardOptions[address=%s, agentId=%s, namespace=%s]".formatted(address, agentId, namespace);
    }
}
