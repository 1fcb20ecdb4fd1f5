/**
 * What a call can end with: one error type, told apart by its code word (the `Error.code` of the API).
 *
 * Three words come from the client's side of the wire too: `unavailable` when no server answers, `deadline_exceeded`
 * when the answer did not come in time, `cancelled` when the call was given up or the client closed.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import type { Error as ErrorMessage } from "./gen/taskyard/v1/task_pb.js";

const DOMAIN = "taskyard";

/** The code words that this client knows; a later server may have more. */
export type ErrorCode =
  | "bad_request"
  | "batch_too_large"
  | "too_large"
  | "unauthenticated"
  | "permission_denied"
  | "not_found"
  | "conflict"
  | "lease_lost"
  | "already_exists"
  | "cursor_expired"
  | "queue_full"
  | "unavailable"
  | "unimplemented"
  | "deadline_exceeded"
  | "cancelled"
  | "internal"
  | (string & {});

/** What a status means that comes without an ErrorInfo of ours: from gRPC itself, a proxy or an older server. */
const CODE_OF_STATUS: Partial<Record<Code, ErrorCode>> = {
  [Code.InvalidArgument]: "bad_request",
  // Without an ErrorInfo it is gRPC itself that speaks, of a message over its limit.
  [Code.ResourceExhausted]: "too_large",
  [Code.Unauthenticated]: "unauthenticated",
  [Code.PermissionDenied]: "permission_denied",
  [Code.NotFound]: "not_found",
  [Code.FailedPrecondition]: "conflict",
  [Code.Aborted]: "lease_lost",
  [Code.AlreadyExists]: "already_exists",
  [Code.OutOfRange]: "cursor_expired",
  [Code.Unavailable]: "unavailable",
  [Code.Unimplemented]: "unimplemented",
  [Code.DeadlineExceeded]: "deadline_exceeded",
  [Code.Canceled]: "cancelled",
};

/** The status of a whole call that is refused by these words. */
const STATUS_OF_CODE: Record<string, string> = {
  bad_request: "INVALID_ARGUMENT",
  batch_too_large: "INVALID_ARGUMENT",
  too_large: "INVALID_ARGUMENT",
  unauthenticated: "UNAUTHENTICATED",
  permission_denied: "PERMISSION_DENIED",
  not_found: "NOT_FOUND",
  conflict: "FAILED_PRECONDITION",
  lease_lost: "ABORTED",
  already_exists: "ALREADY_EXISTS",
  cursor_expired: "OUT_OF_RANGE",
  queue_full: "RESOURCE_EXHAUSTED",
  unavailable: "UNAVAILABLE",
  internal: "INTERNAL",
};

/** What the server says by a RetryInfo, which an outcome has no field for. */
const RETRY_AFTER_MS = 1_000;

/** What else there is to know of a refusal. */
export interface ErrorExtras {
  details?: JsonObject;
  retryable?: boolean;
  retryAfterMs?: number;
  status?: string;
  taskId?: string;
  cause?: unknown;
}

/** A call, or one task of it, that was refused or did not reach the server. */
export class TaskyardError extends Error {
  override readonly name = "TaskyardError";
  /** The code word; switch on this. */
  readonly code: ErrorCode;
  /** The text for people, without the code word. */
  readonly reason: string;
  /** Whether the same request may work later. */
  readonly retryable: boolean;
  /** When it may, in milliseconds from now; undefined if the server did not say. */
  readonly retryAfterMs: number | undefined;
  /**
   * What the code comes with, under the keys of the REST error body: for a full queue `queued`, `maxQueue` and so on. A
   * whole call's details are strings, those of one item among several are JSON values.
   */
  readonly details: JsonObject;
  /** The gRPC status, such as `NOT_FOUND`; undefined for one item among several. */
  readonly status: string | undefined;
  /** The id under which a task that was refused as `queue_full` is kept as rejected, where the server named it. */
  readonly taskId: string | undefined;

  constructor(code: ErrorCode, reason: string, extras: ErrorExtras = {}) {
    super(`${code}: ${reason}`, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.code = code;
    this.reason = reason;
    this.retryable = extras.retryable ?? (code === "unavailable" || code === "queue_full");
    this.retryAfterMs = extras.retryAfterMs;
    this.details = extras.details ?? {};
    this.status = extras.status;
    this.taskId = extras.taskId;
  }
}

/** How a stream ends that may be opened again: a server that goes away shows as any of these. */
export function isBreak(error: TaskyardError): boolean {
  return ["unavailable", "internal", "cancelled", "deadline_exceeded"].includes(error.code);
}

/** What a failed call means, by the ErrorInfo and RetryInfo that the server sends, else by its status. */
export function errorFrom(thrown: unknown, givenUp = false): TaskyardError {
  if (thrown instanceof TaskyardError) return thrown;
  const error = ConnectError.from(thrown);
  const info = error.findDetails(ErrorInfoSchema).find((each) => each.domain === DOMAIN);
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  const retryAfterMs = delay && Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  const isLost = !info && !givenUp && isConnectionLost(error);
  const code = info ? info.reason.toLowerCase() : isLost ? "unavailable" : CODE_OF_STATUS[error.code];
  const status = isLost ? Code.Unavailable : error.code;
  return new TaskyardError(code ?? "internal", error.rawMessage || statusName(status).toLowerCase(), {
    ...(info && { details: { ...info.metadata } }),
    ...(retryAfterMs !== undefined && { retryAfterMs, retryable: true }),
    ...(info?.reason === "QUEUE_FULL" && info.metadata.taskId && { taskId: info.metadata.taskId }),
    status: statusName(status),
    cause: thrown,
  });
}

/** Why one item among several was refused; `taskId` is the id under which a refused task is kept. */
export function errorFromMessage(message: ErrorMessage, taskId?: string): TaskyardError {
  const code = message.code ?? "internal";
  return new TaskyardError(code, message.error ?? "", {
    ...(message.details && { details: message.details }),
    ...(message.retryable && { retryable: true }),
    ...(code === "queue_full" && taskId && { taskId }),
  });
}

/** Why a task of a stream of submissions was refused, as its own call would have been. */
export function errorFromOutcome(message: ErrorMessage | undefined, taskId?: string): TaskyardError {
  const { code = "internal", error = "", retryable, details = {} } = message ?? {};
  return new TaskyardError(code, error, {
    details: Object.fromEntries(Object.entries(details).map(([name, value]) => [name, String(value)])),
    ...(retryable && { retryable: true, retryAfterMs: RETRY_AFTER_MS }),
    ...(code === "queue_full" && taskId && { taskId }),
    status: STATUS_OF_CODE[code] ?? "INTERNAL",
  });
}

/**
 * Whether it is the connection that failed and no server that spoke. Node and browsers tell of it by codes that mean
 * something else when a server sends them: a reset is ABORTED, the end of the connection CANCELED.
 */
function isConnectionLost(error: ConnectError): boolean {
  if (error.metadata.has("grpc-status")) return false;
  if ([Code.Canceled, Code.Aborted, Code.Unknown].includes(error.code)) return true;
  const cause: unknown = error.cause;
  const isSystem = cause instanceof Error && "code" in cause && typeof cause.code === "string";
  return error.code === Code.Internal && (isSystem || error.rawMessage.startsWith("http/2"));
}

function statusName(code: Code): string {
  // gRPC spells it with two L.
  if (code === Code.Canceled) return "CANCELLED";
  return Code[code].replace(/(?<=.)[A-Z]/g, "_$&").toUpperCase();
}
