/**
 * The error of a failed call: one type, with a code (`Error.code` of the API).
 *
 * Three codes are also the client's own: `unavailable` when no server answers, `deadline_exceeded` when the answer does
 * not come in time, `cancelled` when the signal of the call aborts or the client is closed.
 */
import type { JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import type { Error as ErrorMessage } from "./gen/taskyard/v1/task_pb.js";

const DOMAIN = "taskyard";
/** The reason of a server that has done nothing, since another one serves the namespace. For users it is unavailable. */
const NOT_OWNER = "NOT_OWNER";
const RETRYABLE = ["unavailable", "queue_full", "too_many_requests"];
/** The errors with that reason. */
const ELSEWHERE = new WeakSet<TaskyardError>();

/** The codes that this client knows. A later server may send others. */
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
  | "out_of_range"
  | "queue_full"
  | "too_many_requests"
  | "unavailable"
  | "unimplemented"
  | "deadline_exceeded"
  | "cancelled"
  | "internal"
  | (string & {});

/** The codes of statuses without an ErrorInfo of Taskyard: from gRPC itself, a proxy or an older server. */
const CODE_OF_STATUS: Partial<Record<Code, ErrorCode>> = {
  [Code.InvalidArgument]: "bad_request",
  // Without an ErrorInfo it comes from gRPC itself: a message is over its limit.
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

/** The status of a whole call that is refused with one of these codes. */
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
  out_of_range: "OUT_OF_RANGE",
  queue_full: "RESOURCE_EXHAUSTED",
  too_many_requests: "RESOURCE_EXHAUSTED",
  unavailable: "UNAVAILABLE",
  internal: "INTERNAL",
};

/** The optional parts of a `TaskyardError`. */
export interface ErrorExtras {
  details?: JsonObject;
  /** Default: true for `unavailable`, `queue_full` and `too_many_requests`. */
  retryable?: boolean;
  retryAfterMs?: number | undefined;
  status?: string;
  taskId?: string;
  cause?: unknown;
}

/** A call, or one task among several, that the server refused or that did not reach it. */
export class TaskyardError extends Error {
  override readonly name: string = "TaskyardError";
  /** The code, for programs. */
  readonly code: ErrorCode;
  /** The text for people, without the code. */
  readonly reason: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** How long to wait before another try, in milliseconds. Undefined if the server did not say. */
  readonly retryAfterMs: number | undefined;
  /**
   * Values that belong to the code, under the keys of the REST error body: for a full queue `queued`, `maxQueue` and so
   * on. Those of a call are strings, those of one task among several are JSON values.
   */
  readonly details: JsonObject;
  /** The gRPC status, such as `NOT_FOUND`. Undefined for one task among several. */
  readonly status: string | undefined;
  /** The id of a task that was refused as `queue_full` and is kept as rejected. Undefined if the server named none. */
  readonly taskId: string | undefined;

  /**
   * @param code The code.
   * @param reason The text for people, without the code.
   * @param extras The other properties. Default: `retryable` by the code, the rest undefined or empty.
   */
  constructor(code: ErrorCode, reason: string, extras: ErrorExtras = {}) {
    super(`${code}: ${reason}`, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.code = code;
    this.reason = reason;
    this.retryable = extras.retryable ?? RETRYABLE.includes(code);
    this.retryAfterMs = extras.retryAfterMs;
    this.details = extras.details ?? {};
    this.status = extras.status;
    this.taskId = extras.taskId;
  }
}

/** Whether a stream may be opened again: a server that goes away can cause any of these but the last. */
export function isBreak(error: TaskyardError): boolean {
  return ["unavailable", "internal", "cancelled", "deadline_exceeded", "too_many_requests"].includes(error.code);
}

/** Whether another server serves the namespace. Then nothing was done. */
export function isElsewhere(error: TaskyardError): boolean {
  return ELSEWHERE.has(error);
}

/** Whether the caller is to come again later. Then nothing was done. */
export function isTooMany(error: TaskyardError): boolean {
  return error.code === "too_many_requests";
}

/** The error of a failed call, by the ErrorInfo and RetryInfo of the server, else by the status. */
export function errorFrom(thrown: unknown): TaskyardError {
  if (thrown instanceof TaskyardError) return thrown;
  const error = ConnectError.from(thrown);
  const info = error.findDetails(ErrorInfoSchema).find((each) => each.domain === DOMAIN);
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  const retryAfterMs = delay && Number(delay.seconds) * 1000 + delay.nanos / 1e6;
  const isLost = !info && isConnectionLost(error);
  const isNotOwner = info?.reason === NOT_OWNER;
  const code = isNotOwner || (!info && isLost) ? "unavailable" : info ? info.reason.toLowerCase() : undefined;
  const status = isLost ? Code.Unavailable : error.code;
  const found = new TaskyardError(
    code ?? CODE_OF_STATUS[error.code] ?? "internal",
    error.rawMessage || statusName(status).toLowerCase(),
    {
      ...(info && { details: { ...info.metadata } }),
      ...(retryAfterMs !== undefined && { retryAfterMs, retryable: true }),
      ...(info?.reason === "QUEUE_FULL" && info.metadata.taskId && { taskId: info.metadata.taskId }),
      status: statusName(status),
      cause: thrown,
    },
  );
  if (isNotOwner) ELSEWHERE.add(found);
  return found;
}

/** Why one task of a batch was refused. `taskId` is the id under which a refused task is kept. */
export function errorFromMessage(message: ErrorMessage, taskId?: string): TaskyardError {
  const code = message.code ?? "internal";
  return new TaskyardError(code, message.error ?? "", {
    ...(message.details && { details: message.details }),
    ...(message.retryable && { retryable: true }),
    retryAfterMs: message.retryAfterMs,
    ...(code === "queue_full" && taskId && { taskId }),
  });
}

/** Why one task of a submit stream was refused, as the error that a call of its own would have thrown. */
export function errorFromOutcome(message: ErrorMessage | undefined, taskId?: string): TaskyardError {
  const { code = "internal", error = "", retryable, retryAfterMs, details = {} } = message ?? {};
  const refused = new TaskyardError(code, error, {
    details: Object.fromEntries(Object.entries(details).map(([name, value]) => [name, String(value)])),
    ...(retryable && { retryable: true }),
    retryAfterMs,
    ...(code === "queue_full" && taskId && { taskId }),
    status: STATUS_OF_CODE[code] ?? "INTERNAL",
  });
  // One task among several has no reason; the owner stands in its details.
  if (code === "unavailable" && details.owner !== undefined) ELSEWHERE.add(refused);
  return refused;
}

/**
 * Whether the connection failed, and the status is not a server's. Node and browsers report that by codes that mean
 * something else when a server sends them: ABORTED for a reset, CANCELED for the end of the connection.
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
