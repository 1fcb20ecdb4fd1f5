package dev.taskyard;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.taskyard.v1.Error;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * A call that the server refused or that did not reach it.
 *
 * <p>{@link #code()} is the code of the API, such as {@code queue_full}. Three codes are also the client's own: {@code
 * unavailable} when no server answers, {@code deadline_exceeded} when the answer does not come in time, {@code cancelled}
 * when the client is closed or the thread is interrupted.
 */
public class TaskyardException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private static final String DOMAIN = "taskyard";

    /** The reason of a server that has done nothing, since another one serves the namespace. For users it is unavailable. */
    private static final String NOT_OWNER = "NOT_OWNER";

    /** The statuses of calls that are refused with these codes. */
    private static final Map<String, Status> STATUS_OF_CODE = Map.ofEntries(
            Map.entry("bad_request", Status.INVALID_ARGUMENT),
            Map.entry("batch_too_large", Status.INVALID_ARGUMENT),
            Map.entry("too_large", Status.INVALID_ARGUMENT),
            Map.entry("unauthenticated", Status.UNAUTHENTICATED),
            Map.entry("permission_denied", Status.PERMISSION_DENIED),
            Map.entry("not_found", Status.NOT_FOUND),
            Map.entry("conflict", Status.FAILED_PRECONDITION),
            Map.entry("lease_lost", Status.ABORTED),
            Map.entry("already_exists", Status.ALREADY_EXISTS),
            Map.entry("cursor_expired", Status.OUT_OF_RANGE),
            Map.entry("out_of_range", Status.OUT_OF_RANGE),
            Map.entry("queue_full", Status.RESOURCE_EXHAUSTED),
            Map.entry("too_many_requests", Status.RESOURCE_EXHAUSTED),
            Map.entry("unavailable", Status.UNAVAILABLE));

    private final String code;
    private final String reason;
    private final boolean retryable;
    private final transient Duration retryAfter;
    private final transient Map<String, String> details;
    private final transient Status status;
    private final boolean elsewhere;

    private TaskyardException(
            String code,
            String reason,
            boolean retryable,
            Duration retryAfter,
            Map<String, String> details,
            Status status,
            boolean elsewhere,
            Throwable cause) {
        super(code + ": " + reason, cause);
        this.code = code;
        this.reason = reason;
        this.retryable = retryable;
        this.retryAfter = retryAfter;
        this.details = Map.copyOf(details);
        this.status = status;
        this.elsewhere = elsewhere;
    }

    /** A task that the server no longer knows. */
    TaskyardException(String reason, Throwable cause) {
        this("not_found", reason, false, null, Map.of(), Status.NOT_FOUND.withDescription(reason), false, cause);
    }

    /**
     * Converts the error of a call of a raw stub.
     *
     * @param failed what the stub threw
     * @return the error with its code, and with the failure as cause
     */
    public static TaskyardException of(StatusRuntimeException failed) {
        return from(failed, failed.getStatus());
    }

    /**
     * Converts the error of one task of a batch, to the exception that a submit of its own would have thrown.
     *
     * @param refused the error of the outcome
     * @return the same as an exception
     */
    public static TaskyardException of(Error refused) {
        return of(refused, false);
    }

    /** The same for one task of a stream: one that names the owner of the namespace has done nothing. */
    static TaskyardException ofItem(Error refused) {
        boolean isElsewhere = refused.getCode().equals("unavailable")
                && refused.getDetails().containsFields("owner");
        return of(refused, isElsewhere);
    }

    private static TaskyardException of(Error refused, boolean elsewhere) {
        String code = refused.getCode().isEmpty() ? "internal" : refused.getCode();
        Map<String, String> details = new LinkedHashMap<>();
        Json.plain(refused.getDetails()).forEach((key, value) -> details.put(key, String.valueOf(value)));
        return new TaskyardException(
                code,
                refused.getError(),
                refused.getRetryable() || isRetryable(code),
                refused.hasRetryAfterMs()
                        ? Duration.ofMillis(Integer.toUnsignedLong(refused.getRetryAfterMs()))
                        : null,
                details,
                STATUS_OF_CODE.getOrDefault(code, Status.INTERNAL).withDescription(refused.getError()),
                elsewhere,
                null);
    }

    /** Converts a failure of any kind. One that is not of gRPC is {@code internal}. */
    static TaskyardException of(Throwable failed) {
        return failed instanceof TaskyardException known ? known : from(failed, Status.fromThrowable(failed));
    }

    /** An error that the client itself found. */
    static TaskyardException of(Status status, String reason) {
        return of(status.withDescription(reason).asRuntimeException());
    }

    /**
     * The code, for programs.
     *
     * @return the code, for instance {@code bad_request}
     */
    public String code() {
        return code;
    }

    /**
     * What was wrong, for people.
     *
     * @return the text of the server, without the code
     */
    public String reason() {
        return reason;
    }

    /**
     * Whether the same request may succeed later.
     *
     * @return true for {@code unavailable}, {@code queue_full}, {@code too_many_requests}, and any error that the server calls retryable
     */
    public boolean retryable() {
        return retryable;
    }

    /**
     * How long to wait before another try.
     *
     * @return the delay, empty if the server did not say
     */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    /**
     * Values that belong to the code, under the keys of the REST error body: for a full queue {@code maxQueue} and so on.
     *
     * @return the values as text, empty if there are none
     */
    public Map<String, String> details() {
        return details;
    }

    /**
     * The status of gRPC.
     *
     * @return the status of the call; for one task of a batch the status that a call of its own would have had
     */
    public Status status() {
        return status;
    }

    /** The same error with another code and text. */
    TaskyardException withReason(String code, String reason) {
        return new TaskyardException(
                code, reason, retryable, retryAfter, details, status.withDescription(reason), elsewhere, this);
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
                    // The details of a proxy may be anything. The ones before are valid.
                    break;
                }
            }
        }
        boolean elsewhere = info != null && info.getReason().equals(NOT_OWNER);
        String code = info == null || elsewhere
                ? codeOf(status.getCode())
                : info.getReason().toLowerCase(Locale.ROOT);
        String reason = status.getDescription() == null ? code.replace('_', ' ') : status.getDescription();
        boolean retryable = retryAfter != null || isRetryable(code);
        Map<String, String> details = info == null ? Map.of() : info.getMetadataMap();
        return new TaskyardException(code, reason, retryable, retryAfter, details, status, elsewhere, failed);
    }

    private static boolean isRetryable(String code) {
        return code.equals("unavailable") || code.equals("queue_full") || code.equals("too_many_requests");
    }

    /** Whether another server serves the namespace. Then nothing was done. */
    boolean isElsewhere() {
        return elsewhere;
    }

    /** Whether the caller is to come again later. Then nothing was done. */
    boolean isTooMany() {
        return code.equals("too_many_requests");
    }

    private static boolean isOfGrpc(Throwable failed) {
        return failed instanceof StatusRuntimeException || failed instanceof StatusException;
    }

    /** The code of a status without an ErrorInfo of Taskyard: from gRPC itself, a proxy or an older server. */
    private static String codeOf(Status.Code code) {
        return switch (code) {
            case INVALID_ARGUMENT -> "bad_request";
            // Without an ErrorInfo it comes from gRPC itself: a message is over its limit.
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
