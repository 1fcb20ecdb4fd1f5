package dev.taskyard;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.UnaryOperator;

/**
 * Who calls which server, as decided for one client by options, the environment and a profile.
 *
 * @param target what gRPC connects to, {@code HOST:PORT}
 * @param namespace the namespace of all calls
 * @param token the token of the calls, null for none
 * @param tls the files of certificates, null without TLS of our own
 * @param security how the connection is secured
 */
record Identity(String target, String namespace, Token token, ClientTls tls, ChannelCredentials security) {
    private static final String DEFAULT_ADDRESS = "127.0.0.1:50051";
    private static final String HTTPS = "https://";

    /** The credentials of one place; {@code named} makes of an option's name what people know it by. */
    private record Place(
            String token, Path tokenFile, Path ca, Path cert, Path key, UnaryOperator<String> named) {
        boolean showsCaller() {
            return token != null || tokenFile != null || cert != null || key != null;
        }
    }

    /** Decides by the environment and the home folder of this process. */
    static Identity of(TaskyardOptions options) {
        return of(options, System.getenv(), Path.of(System.getProperty("user.home", "/")));
    }

    /** @throws IllegalArgumentException for options that no call can be made with; the text begins with their name */
    static Identity of(TaskyardOptions options, Map<String, String> environment, Path home) {
        Caller given = options.caller();
        Profile profile = profileOf(options, environment, home);
        List<Place> places = placesOf(given, environment, profile);
        String address = first(options.address(), profile == null ? null : profile.text("address"), DEFAULT_ADDRESS);
        String namespace = first(options.namespace(), profile == null ? null : profile.text("namespace"), "default");
        Token token = tokenOf(places);
        if (options.credentials() != null) {
            boolean isEncrypted = !isInsecure(options.credentials());
            checkSecrecy(address, token, isEncrypted || given.insecure());
            return new Identity(targetOf(address), namespace, token, null, options.credentials());
        }
        Path ca = places.stream().map(Place::ca).filter(Objects::nonNull).findFirst().orElse(null);
        Place pair = pairOf(places);
        if (!options.tls() && !address.startsWith(HTTPS) && ca == null && pair == null) {
            checkSecrecy(address, token, given.insecure());
            return new Identity(targetOf(address), namespace, token, null, InsecureChannelCredentials.create());
        }
        ClientTls tls = new ClientTls(ca, pair == null ? null : pair.cert(), pair == null ? null : pair.key());
        return new Identity(targetOf(address), namespace, token, tls, tls.credentials());
    }

    private static Profile profileOf(TaskyardOptions options, Map<String, String> environment, Path home) {
        String named = options.caller().profile();
        String name = named == null ? text(environment, "PROFILE") : named;
        // Its token is not for other servers than its own.
        boolean isDefaultLeftOut = name == null && options.address() != null;
        return isDefaultLeftOut ? null : Profile.find(name, environment, home);
    }

    /**
     * Where to look for credentials, in this order: the options, a profile that they name, the environment, a profile that
     * it names or the default one. The environment does not say who calls beside a profile that the options name and that
     * does: its token is not for that server.
     */
    private static List<Place> placesOf(Caller given, Map<String, String> environment, Profile profile) {
        Place options =
                new Place(given.token(), given.tokenFile(), given.ca(), given.cert(), given.key(), option -> option);
        UnaryOperator<String> variable =
                option -> "TASKYARD_" + option.replace("File", "_FILE").toUpperCase(Locale.ROOT);
        Place variables = new Place(
                text(environment, "TOKEN"),
                path(environment, "TOKEN_FILE"),
                path(environment, "CA"),
                path(environment, "CERT"),
                path(environment, "KEY"),
                variable);
        if (profile == null) {
            return List.of(options, variables);
        }
        Place named = new Place(
                profile.text("token"),
                profile.path("token_file"),
                profile.path("ca"),
                profile.path("cert"),
                profile.path("key"),
                option -> option.replace("File", "_file") + " of profile " + profile.name());
        if (given.profile() == null) {
            return List.of(options, variables, named);
        }
        Place authorities = new Place(null, null, variables.ca(), null, null, variable);
        return List.of(options, named, named.showsCaller() ? authorities : variables);
    }

    /** The credentials that a call shows, by where they come from. */
    String tried() {
        List<String> shown = new ArrayList<>();
        if (token != null) {
            shown.add(token.tried);
        }
        if (tls != null && tls.cert() != null) {
            shown.add("the client certificate " + tls.cert());
        }
        return shown.isEmpty() ? "nothing: no token and no client certificate is set" : String.join(" and ", shown);
    }

    /** Reads the token anew after a refusal. Returns whether there may be another one. */
    boolean renew() {
        return token != null && token.renew();
    }

    /** Host and port of an address, which is checked already. */
    private static String targetOf(String address) {
        if (!TaskyardOptions.isAddress(address)) {
            throw new IllegalArgumentException(TaskyardOptions.addressRefusal(address));
        }
        if (!address.startsWith(HTTPS)) {
            return address;
        }
        String rest = address.substring(HTTPS.length()).replaceAll("/$", "");
        return rest.matches(".*:\\d+") ? rest : rest + ":443";
    }

    private static Token tokenOf(List<Place> places) {
        for (Place place : places) {
            if (place.token() != null && place.token().isEmpty() && place.tokenFile() == null) {
                return null;
            } else if (place.token() != null && place.tokenFile() != null) {
                String both = place.named().apply("token") + " and " + place.named().apply("tokenFile");
                throw new IllegalArgumentException(both + ": set only one of them");
            } else if (place.token() != null) {
                return new Token(place.token(), place.named().apply("token"));
            } else if (place.tokenFile() != null) {
                return new Token(place.tokenFile(), place.named().apply("tokenFile"));
            }
        }
        return null;
    }

    private static Place pairOf(List<Place> places) {
        for (Place place : places) {
            if ((place.cert() == null) != (place.key() == null)) {
                String both = place.named().apply("cert") + " and " + place.named().apply("key");
                throw new IllegalArgumentException(both + ": one needs the other");
            } else if (place.cert() != null) {
                return place;
            }
        }
        return null;
    }

    private static void checkSecrecy(String address, Token token, boolean isPermitted) {
        String target = targetOf(address);
        if (token != null && !isPermitted && !staysHere(target)) {
            throw new IllegalArgumentException("token: without encryption everybody on the way to " + target
                    + " could read it; set ca or an https:// address, or else insecure");
        }
    }

    /** Whether credentials of gRPC, perhaps with some for calls on top, do not encrypt. */
    private static boolean isInsecure(ChannelCredentials credentials) {
        return credentials.withoutBearerTokens() instanceof InsecureChannelCredentials;
    }

    /** Whether what is sent to a target does not leave this machine. No name is looked up. */
    private static boolean staysHere(String target) {
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

    private static String text(Map<String, String> environment, String name) {
        String text = environment.get("TASKYARD_" + name);
        return text == null || text.isEmpty() ? null : text;
    }

    private static Path path(Map<String, String> environment, String name) {
        String text = text(environment, name);
        return text == null ? null : Path.of(text);
    }

    private static String first(String... texts) {
        for (String each : texts) {
            if (each != null) {
                return each;
            }
        }
        throw new IllegalArgumentException("no text");
    }
}
