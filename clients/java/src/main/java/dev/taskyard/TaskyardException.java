package dev.taskyard;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * A call that was refused or did not reach the server.
 *
 * <p>{@link #code()} is the code word of the API, such as {@code queue_full}. Three more words come from the client's
 * side of the wire: {@code unavailable} when no server answers, {@code deadline_exceeded} when the answer did not come in
 * time, {@code cancelled} when the call was given up or the client closed.
 */
public final class TaskyardException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private static final String DOMAIN = "taskyard";

    private final String code;
    private final String reason;
    private final boolean retryable;
    private final transient Duration retryAfter;
    private final transient Map<String, String> details;
    private final transient Status status;

    private TaskyardException(
            String code,
            String reason,
            boolean retryable,
            Duration retryAfter,
            Map<String, String> details,
            Status status,
            Throwable cause) {
        super(code + ": " + reason, cause);
        this.code = code;
        this.reason = reason;
        this.retryable = retryable;
        this.retryAfter = retryAfter;
        this.details = Map.copyOf(details);
        this.status = status;
    }

    /** What a call of a raw stub failed with, as one of these. */
    public static TaskyardException of(StatusRuntimeException failed) {
        return from(failed, failed.getStatus());
    }

    /** The same for a failure of any kind; what is none of gRPC is {@code internal}. */
    static TaskyardException of(Throwable failed) {
        return failed instanceof TaskyardException known ? known : from(failed, Status.fromThrowable(failed));
    }

    /** An error that the client itself found. */
    static TaskyardException of(Status status, String reason) {
        return of(status.withDescription(reason).asRuntimeException());
    }

    /** The code word, for instance {@code bad_request}. */
    public String code() {
        return code;
    }

    /** What was wrong, for people; the server's own words. */
    public String reason() {
        return reason;
    }

    /** Whether the same request may work later. */
    public boolean retryable() {
        return retryable;
    }

    /** How long to wait before the next try, where the server said so. */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    /** What the code comes with, under the keys of the REST error body: for a full queue {@code maxQueue} and so on. */
    public Map<String, String> details() {
        return details;
    }

    /** The status that the call ended with. */
    public Status status() {
        return status;
    }

    private static TaskyardException from(Throwable failed, Status status) {
        ErrorInfo info = null;
        Duration retryAfter = null;
        com.google.rpc.Status rich = isOfGrpc(failed) ? StatusProto.fromThrowable(failed) : null;
        if (rich != null) {
            for (Any packed : rich.getDetailsList()) {
                try {
                    if (packed.is(ErrorInfo.class) && packed.unpack(ErrorInfo.class).getDomain().equals(DOMAIN)) {
                        info = packed.unpack(ErrorInfo.class);
                    } else if (packed.is(RetryInfo.class)) {
                        var delay = packed.unpack(RetryInfo.class).getRetryDelay();
                        retryAfter = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
                    }
                } catch (InvalidProtocolBufferException broken) {
                    // A proxy's own details may be anything; what was understood so far counts.
                    break;
                }
            }
        }
        String code = info == null ? codeOf(status.getCode()) : info.getReason().toLowerCase(Locale.ROOT);
        String reason = status.getDescription() == null ? code.replace('_', ' ') : status.getDescription();
        boolean retryable = retryAfter != null || code.equals("unavailable") || code.equals("queue_full");
        Map<String, String> details = info == null ? Map.of() : info.getMetadataMap();
        return new TaskyardException(code, reason, retryable, retryAfter, details, status, failed);
    }

    private static boolean isOfGrpc(Throwable failed) {
        return failed instanceof StatusRuntimeException || failed instanceof StatusException;
    }

    /** What a status means that comes without an ErrorInfo of ours: from gRPC itself, a proxy or an older server. */
    private static String codeOf(Status.Code code) {
        return switch (code) {
            case INVALID_ARGUMENT -> "bad_request";
            // Here it is gRPC itself that speaks, of a message over its limit.
            case RESOURCE_EXHAUSTED -> "too_large";
            case FAILED_PRECONDITION -> "conflict";
            case ABORTED -> "lease_lost";
            case OUT_OF_RANGE -> "cursor_expired";
            case UNAUTHENTICATED,
                    PERMISSION_DENIED,
                    NOT_FOUND,
                    ALREADY_EXISTS,
                    UNAVAILABLE,
                    UNIMPLEMENTED,
                    DEADLINE_EXCEEDED,
                    CANCELLED -> code.name().toLowerCase(Locale.ROOT);
            default -> "internal";
        };
    }
}
