package dev.taskyard;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The addresses of servers, any of which does: how they are written, which ask for TLS, which stay on this machine.
 *
 * @param targets each {@code HOST:PORT}, or a single {@code unix:PATH}
 * @param encrypted whether one of them asks for TLS
 */
record Addresses(List<String> targets, boolean encrypted) {
    private static final String HTTPS = "https://";
    private static final Pattern ADDRESS =
            Pattern.compile("([^\\s,:/?#@\\[\\]]+|\\[[0-9a-fA-F:.%]+\\])(:(?<port>\\d{1,5}))?");
    private static final Pattern UNIX = Pattern.compile("unix:(?!//[^/]).+");

    /**
     * Reads an address, or several with commas in between.
     *
     * @throws IllegalArgumentException if one of them has another form
     */
    static Addresses of(String text) {
        List<String> targets = new ArrayList<>();
        boolean encrypted = false;
        String[] parts = text.split(",", -1);
        for (String part : parts) {
            String address = part.strip();
            if (UNIX.matcher(address).matches()) {
                if (parts.length > 1) {
                    throw new IllegalArgumentException("address: a unix socket stands alone, is '" + text + "'");
                }
                return new Addresses(List.of(address), false);
            }
            targets.add(target(address));
            encrypted |= address.startsWith(HTTPS);
        }
        return new Addresses(List.copyOf(targets), encrypted);
    }

    private static String target(String address) {
        boolean isHttps = address.startsWith(HTTPS);
        String rest = isHttps
                ? address.substring(HTTPS.length()).replaceAll("/$", "")
                : address.replaceFirst("^dns:(///)?", "");
        Matcher found = ADDRESS.matcher(rest);
        String port = found.matches() ? found.group("port") : "";
        if (port == null && isHttps) {
            return rest + ":443";
        } else if (port == null || port.isEmpty() || Integer.parseInt(port) > 65_535) {
            throw new IllegalArgumentException("address: must be HOST:PORT, https://HOST:PORT, dns:///HOST:PORT or"
                    + " unix:PATH, or several with commas in between, is '" + address + "'");
        }
        return rest;
    }

    /** Whether it is a unix socket, which needs no encryption. */
    boolean isUnix() {
        return targets.get(0).startsWith("unix:");
    }

    /** What gRPC connects to. */
    String target() {
        return targets.size() == 1 ? targets.get(0) : ReplicaResolver.target(targets);
    }

    /** The targets for which a connection leaves this machine. No name is looked up. */
    List<String> elsewhere() {
        return targets.stream().filter(each -> !staysHere(each)).toList();
    }

    private static boolean staysHere(String target) {
        if (target.startsWith("unix:")) {
            return true;
        }
        String host = target.substring(0, target.lastIndexOf(':'));
        if (host.startsWith("[")) {
            try {
                return InetAddress.getByName(host).isLoopbackAddress();
            } catch (UnknownHostException malformed) {
                return false;
            }
        }
        return host.equalsIgnoreCase("localhost") || host.matches("127(\\.\\d{1,3}){3}");
    }
}
