package dev.taskyard;

import java.nio.file.Path;

/**
 * Who calls, and whom the caller trusts. Immutable. What is null comes from a profile that {@code profile} names, else from
 * the environment, else from a profile that the environment names, else from the default profile. Token and token file come
 * from one place together, and so do certificate and key.
 *
 * <p>No token reaches another server than its own: the default profile counts only where neither option nor variable give
 * an address, and the environment does not say who calls beside a profile that {@code profile} names and that does.
 *
 * @param token the token that all calls carry, printable ASCII; an empty one means none at all. Default: the variable
 *     TASKYARD_TOKEN, or {@code token} of the profile, or none
 * @param tokenFile a file with the token, which is read anew when it changes, and before a watch goes on whose token was
 *     refused. Default: TASKYARD_TOKEN_FILE, or {@code token_file} of the profile, or none
 * @param ca a PEM file with the certificate authorities to trust, read anew when it changes. Default: TASKYARD_CA, or
 *     {@code ca} of the profile, or the authorities of the Java runtime
 * @param cert a PEM file with the certificate to show the server, read anew when it changes. Default: TASKYARD_CERT, or
 *     {@code cert} of the profile, or none
 * @param key a PEM file with the private key of the certificate, in PKCS #8. Default: TASKYARD_KEY, or {@code key} of the
 *     profile
 * @param profile the table {@code [profiles.NAME]} of {@code ~/.config/taskyard/config.toml}. Default: TASKYARD_PROFILE, or
 *     the {@code default_profile} of that file
 * @param insecure whether a token may go to another machine without encryption, where everybody on the way can read it
 */
public record Caller(
        String token, Path tokenFile, Path ca, Path cert, Path key, String profile, boolean insecure) {
    /** Leaves everything to the environment and the profile. */
    public static final Caller UNNAMED = new Caller(null, null, null, null, null, null, false);

    /** Tells which parts are set, without the token. */
    @Override
    public String toString() {
        String shown = token == null ? "null" : "...";
        return "Caller[token=%s, tokenFile=%s, ca=%s, cert=%s, key=%s, profile=%s, insecure=%s]"
                .formatted(shown, tokenFile, ca, cert, key, profile, insecure);
    }
}
