package dev.taskyard;

import io.grpc.Attributes;
import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.Status;
import io.grpc.StatusOr;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;

/**
 * Tells gRPC where the servers of a client are, if it has several. A name that cannot be resolved is passed over. Each
 * server has a certificate of its own name.
 */
final class ReplicaResolver extends NameResolver {
    private static final String SCHEME = "taskyard";

    /** Servers are tried in random order, so that clients spread, and the first connection that works is kept. */
    static final Map<String, ?> ONE_AT_RANDOM =
            Map.of("loadBalancingConfig", List.of(Map.of("pick_first", Map.of("shuffleAddressList", true))));

    static {
        NameResolverRegistry.getDefaultRegistry().register(new Provider());
    }

    private final List<String> targets;
    private final Executor executor;
    private Listener2 listener;

    private ReplicaResolver(List<String> targets, Args args) {
        this.targets = targets;
        Executor offload = args.getOffloadExecutor();
        executor = offload == null ? Runnable::run : offload;
    }

    /** The target for gRPC of servers at {@code HOST:PORT} each. */
    static String target(List<String> targets) {
        try {
            return new URI(SCHEME, "", "/" + String.join(",", targets), null).toString();
        } catch (URISyntaxException malformed) {
            throw new IllegalArgumentException("address: " + malformed.getMessage());
        }
    }

    @Override
    public String getServiceAuthority() {
        return targets.get(0);
    }

    @Override
    public void start(Listener2 listener) {
        this.listener = listener;
        refresh();
    }

    @Override
    public void refresh() {
        executor.execute(this::resolve);
    }

    @Override
    public void shutdown() {}

    private void resolve() {
        List<EquivalentAddressGroup> found = new ArrayList<>();
        UnknownHostException unknown = null;
        for (String target : targets) {
            int colon = target.lastIndexOf(':');
            int port = Integer.parseInt(target.substring(colon + 1));
            Attributes named = Attributes.newBuilder()
                    .set(EquivalentAddressGroup.ATTR_AUTHORITY_OVERRIDE, target)
                    .build();
            try {
                for (InetAddress each : InetAddress.getAllByName(target.substring(0, colon))) {
                    found.add(new EquivalentAddressGroup(new InetSocketAddress(each, port), named));
                }
            } catch (UnknownHostException failed) {
                unknown = failed;
            }
        }
        if (found.isEmpty()) {
            listener.onError(Status.UNAVAILABLE.withDescription("none of the names is known").withCause(unknown));
        } else {
            listener.onResult(ResolutionResult.newBuilder()
                    .setAddressesOrError(StatusOr.fromValue(found))
                    .build());
        }
    }

    private static final class Provider extends NameResolverProvider {
        @Override
        public NameResolver newNameResolver(URI target, Args args) {
            return SCHEME.equals(target.getScheme())
                    ? new ReplicaResolver(List.of(target.getPath().substring(1).split(",")), args)
                    : null;
        }

        @Override
        public String getDefaultScheme() {
            return SCHEME;
        }

        @Override
        protected boolean isAvailable() {
            return true;
        }

        @Override
        protected int priority() {
            // Below that of dns, whose scheme stays the default one.
            return 1;
        }
    }
}
