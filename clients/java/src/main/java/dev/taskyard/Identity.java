package dev.taskyard;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * Who calls which server, as decided for one client by options, the environment and a profile.
 *
 * @param target what gRPC connects to, such as {@code HOST:PORT}
 * @param namespace the namespace of all calls
 * @param token the token of the calls, null for none
 * @param tls the files of certificates, null without TLS of our own
 * @param security how the connection is secured
 */
record Identity(String target, String namespace, Token token, ClientTls tls, ChannelCredentials security) {
    private static final String DEFAULT_ADDRESS = "127.0.0.1:50051";

    /** What one place says; {@code named} makes of an option's name what people know it by. */
    private record Place(
            String address,
            String namespace,
            String token,
            Path tokenFile,
            Path ca,
            Path cert,
            Path key,
            UnaryOperator<String> named) {
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
        List<Place> places = placesOf(options, environment, profile);
        Addresses servers = Addresses.of(first(places, Place::address, DEFAULT_ADDRESS));
        String namespace = first(places, Place::namespace, "default");
        if (!TaskyardOptions.isHeader(namespace)) {
            throw new IllegalArgumentException("namespace: must be of printable ASCII characters");
        }
        Token token = tokenOf(places);
        if (servers.isUnix() && (options.tls() || given.ca() != null || given.cert() != null)) {
            throw new IllegalArgumentException("address: a unix socket is not encrypted");
        }
        if (options.credentials() != null) {
            boolean isEncrypted = !isInsecure(options.credentials());
            checkSecrecy(servers, token, isEncrypted || given.insecure());
            return new Identity(servers.target(), namespace, token, null, options.credentials());
        }
        Path ca = places.stream().map(Place::ca).filter(Objects::nonNull).findFirst().orElse(null);
        Place pair = pairOf(places);
        boolean isPlain = !options.tls() && !servers.encrypted() && ca == null && pair == null;
        if (isPlain || servers.isUnix()) {
            checkSecrecy(servers, token, given.insecure());
            return new Identity(servers.target(), namespace, token, null, InsecureChannelCredentials.create());
        }
        ClientTls tls = new ClientTls(ca, pair == null ? null : pair.cert(), pair == null ? null : pair.key());
        return new Identity(servers.target(), namespace, token, tls, tls.credentials());
    }

    private static Profile profileOf(TaskyardOptions options, Map<String, String> environment, Path home) {
        String named = options.caller().profile();
        String name = named == null ? text(environment, "PROFILE") : named;
        // Its token is not for other servers than its own.
        boolean isAddressed = options.address() != null || text(environment, "ADDRESS") != null;
        boolean isDefaultLeftOut = name == null && isAddressed;
        return isDefaultLeftOut ? null : Profile.find(name, environment, home);
    }

    /**
     * Where to look, in this order: the options, a profile that they name, the environment, a profile that
     * it names or the default one. The environment does not say who calls beside a profile that the options name and that
     * does: its token is not for that server.
     */
    private static List<Place> placesOf(TaskyardOptions given, Map<String, String> environment, Profile profile) {
        Caller caller = given.caller();
        Place options = new Place(
                given.address(),
                given.namespace(),
                caller.token(),
                caller.tokenFile(),
                caller.ca(),
                caller.cert(),
                caller.key(),
                option -> option);
        UnaryOperator<String> variable =
                option -> "TASKYARD_" + option.replace("File", "_FILE").toUpperCase(Locale.ROOT);
        Place variables = new Place(
                text(environment, "ADDRESS"),
                text(environment, "NAMESPACE"),
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
                profile.text("address"),
                profile.text("namespace"),
                profile.text("token"),
                profile.path("token_file"),
                profile.path("ca"),
                profile.path("cert"),
                profile.path("key"),
                option -> option.replace("File", "_file") + " of profile " + profile.name());
        if (caller.profile() == null) {
            return List.of(options, variables, named);
        }
        Place others = new Place(
                variables.address(), variables.namespace(), null, null, variables.ca(), null, null, variable);
        return List.of(options, named, named.showsCaller() ? others : variables);
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

    private static void checkSecrecy(Addresses servers, Token token, boolean isPermitted) {
        List<String> elsewhere = servers.elsewhere();
        if (token != null && !isPermitted && !elsewhere.isEmpty()) {
            throw new IllegalArgumentException("token: without encryption everybody on the way to " + elsewhere.get(0)
                    + " could read it; set ca or an https:// address, or else insecure");
        }
    }

    /** Whether credentials of gRPC, perhaps with some for calls on top, do not encrypt. */
    private static boolean isInsecure(ChannelCredentials credentials) {
        return credentials.withoutBearerTokens() instanceof InsecureChannelCredentials;
    }

    private static String text(Map<String, String> environment, String name) {
        String text = environment.get("TASKYARD_" + name);
        return text == null || text.isEmpty() ? null : text;
    }

    private static Path path(Map<String, String> environment, String name) {
        String text = text(environment, name);
        return text == null ? null : Path.of(text);
    }

    /** What the first place says that says it. */
    private static String first(List<Place> places, Function<Place, String> part, String otherwise) {
        return places.stream().map(part).filter(Objects::nonNull).findFirst().orElse(otherwise);
    }
}
