package dev.taskyard;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.InsecureChannelCredentials;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.net.ConnectException;
import java.nio.channels.ClosedChannelException;

/**
 * Adds namespace and token to every call, and to the errors of calls what helps: which credentials were tried, where TLS or a
 * certificate is missing, and that the server was lost. The words of the transport are kept as the cause.
 */
final class Identification implements ClientInterceptor {
    private static final Metadata.Key<String> NAMESPACE =
            Metadata.Key.of("taskyard-namespace", Metadata.ASCII_STRING_MARSHALLER);
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private final Identity identity;

    /** Whether the server has ever answered. A connection that is lost later ends with the same words as one without TLS. */
    private volatile boolean isHeard;

    Identification(Identity identity) {
        this.identity = identity;
    }

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
            @Override
            public void start(Listener<A> listener, Metadata headers) {
                headers.put(NAMESPACE, identity.namespace());
                if (identity.token() != null) {
                    headers.put(AUTHORIZATION, "Bearer " + identity.token().current());
                }
                super.start(new Explaining<>(listener), headers);
            }
        };
    }

    private final class Explaining<A> extends SimpleForwardingClientCallListener<A> {
        Explaining(ClientCall.Listener<A> listener) {
            super(listener);
        }

        @Override
        public void onHeaders(Metadata headers) {
            heard();
            super.onHeaders(headers);
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            // A refusal of the server has trailers alone.
            if (!trailers.keys().isEmpty()) {
                heard();
            }
            super.onClose(explained(status), trailers);
        }
    }

    private void heard() {
        if (!isHeard) {
            isHeard = true;
        }
        if (identity.tls() != null) {
            identity.tls().heard();
        }
    }

    private Status explained(Status status) {
        if (status.getCode() == Status.Code.UNAUTHENTICATED) {
            String reason = status.getDescription() == null ? "unauthenticated" : status.getDescription();
            // No cause: the server may have quoted the token.
            return Status.UNAUTHENTICATED.withDescription(withoutToken(reason) + " (tried: " + identity.tried() + ")");
        }
        boolean isCutOff = isCutOff(status);
        if (status.getCode() != Status.Code.UNAVAILABLE && !isCutOff) {
            return status;
        }
        String hint = hint(words(status), status);
        String reason = hint == null && isCutOff ? "the connection to the server was lost" : hint;
        return reason == null
                ? status
                : Status.UNAVAILABLE.withDescription(reason).withCause(status.asRuntimeException());
    }

    /** Of a call that meets the end of its connection while it is written gRPC knows no more than that: nobody has answered. */
    private static boolean isCutOff(Status status) {
        return status.getCode() == Status.Code.UNKNOWN && status.getCause() instanceof ClosedChannelException;
    }

    private String withoutToken(String text) {
        String token = identity.token() == null ? "" : identity.token().current();
        // A token of a few letters is part of other words.
        return token.length() < 8 ? text : text.replace(token, "...");
    }

    /** What helps, null if the error says enough by itself. */
    private String hint(String words, Status status) {
        ClientTls tls = identity.tls();
        if (isRefusedConnection(status)) {
            return null;
        }
        if (tls == null) {
            boolean isSilent = words.contains("Network closed for unknown reason")
                    || words.contains("First received frame was not SETTINGS");
            boolean isPlain = identity.security() instanceof InsecureChannelCredentials;
            return isSilent && isPlain && !isHeard
                    ? "the server closed the connection before its first word: if it demands TLS, set ca or an https://"
                            + " address"
                    : null;
        }
        if (words.contains("not an SSL/TLS record") || words.contains("WRONG_VERSION_NUMBER")) {
            return "the server does not speak TLS at this address: leave out https://, ca and cert";
        }
        if (words.contains("unable to find valid certification path") || words.contains("signature check failed")) {
            return tls.ca() == null
                    ? "the server's certificate is signed by no CA of this Java runtime: set ca to the one that signed it"
                    : "the server's certificate is not signed by the CA in " + tls.ca();
        }
        return switch (tls.stage()) {
            case CERTIFICATE_MISSING -> "the server demands a client certificate, and none is set";
            case CERTIFICATE_SHOWN ->
                "the server refused the connection after the client certificate " + tls.cert() + " was shown";
            case HEARD -> null;
        };
    }

    private static boolean isRefusedConnection(Status status) {
        for (Throwable each = status.getCause(); each != null; each = each.getCause()) {
            if (each instanceof ConnectException) {
                return true;
            }
        }
        return false;
    }

    /** All texts of a failure. */
    private static String words(Status status) {
        StringBuilder words = new StringBuilder(String.valueOf(status.getDescription()));
        for (Throwable each = status.getCause(); each != null; each = each.getCause()) {
            words.append('\n').append(each);
        }
        return words.toString();
    }
}
