/** The errors of failed calls and of refused tasks. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorFrom, errorFromMessage, errorFromOutcome, TaskyardError } from "../src/errors.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { ErrorSchema } from "../src/gen/taskyard/v1/task_pb.js";

/** What only a server sends. */
const FROM_SERVER = { "grpc-status": "1" };

function refusal(code: Code, reason: string, metadata: Record<string, string> = {}, delaySecs?: number) {
  const info = { desc: ErrorInfoSchema, value: { domain: "taskyard", reason, metadata } };
  const retry = { desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(delaySecs ?? 0) } } };
  return new ConnectError("no room", code, FROM_SERVER, delaySecs === undefined ? [info] : [info, retry]);
}

test("the code is the reason of the ErrorInfo in lower case, with its details", () => {
  const error = errorFrom(refusal(Code.ResourceExhausted, "QUEUE_FULL", { queued: "3" }, 1));
  assert.equal(error.code, "queue_full");
  assert.equal(error.reason, "no room");
  assert.equal(error.message, "queue_full: no room");
  assert.deepEqual(error.details, { queued: "3" });
  assert.equal(error.retryable, true);
  assert.equal(error.retryAfterMs, 1000);
  assert.equal(error.status, "RESOURCE_EXHAUSTED");
});

test("an error with a RetryInfo is retryable, whatever its code", () => {
  assert.equal(errorFrom(refusal(Code.FailedPrecondition, "CONFLICT", {}, 1)).retryable, true);
  assert.equal(errorFrom(refusal(Code.FailedPrecondition, "CONFLICT")).retryable, false);
});

test("a code of a later server is kept", () => {
  assert.equal(errorFrom(refusal(Code.FailedPrecondition, "MOON_TOO_FULL")).code, "moon_too_full");
});

test("the ErrorInfo of another domain is ignored", () => {
  const info = { desc: ErrorInfoSchema, value: { domain: "proxy", reason: "NOPE" } };
  assert.equal(errorFrom(new ConnectError("x", Code.NotFound, FROM_SERVER, [info])).code, "not_found");
});

test("without an ErrorInfo the status decides", () => {
  for (const [status, code] of [
    [Code.InvalidArgument, "bad_request"],
    [Code.ResourceExhausted, "too_large"],
    [Code.Aborted, "lease_lost"],
    [Code.OutOfRange, "cursor_expired"],
    [Code.Canceled, "cancelled"],
    [Code.DataLoss, "internal"],
  ] as const) {
    assert.equal(errorFrom(new ConnectError("x", status, FROM_SERVER)).code, code);
  }
});

test("a lost connection is unavailable, whichever code Node reports", () => {
  const reset = new ConnectError("x", Code.Aborted);
  const ended = new ConnectError("x", Code.Canceled);
  const pipe = new ConnectError("x", Code.Internal);
  pipe.cause = Object.assign(new Error("write EPIPE"), { code: "EPIPE" });
  for (const lost of [reset, ended, pipe]) {
    const error = errorFrom(lost);
    assert.equal(error.code, "unavailable");
    assert.equal(error.retryable, true);
    assert.equal(error.status, "UNAVAILABLE");
  }
});

test("a TaskyardError is returned unchanged", () => {
  const error = new TaskyardError("conflict", "x");
  assert.equal(errorFrom(error), error);
});

test("the error of a refused task of a batch has details as JSON and the id of the task that is kept", () => {
  const message = create(ErrorSchema, { code: "queue_full", error: "full", retryable: true, details: { queued: 3 } });
  const error = errorFromMessage(message, "tsk_1");
  assert.deepEqual([error.code, error.retryable, error.taskId], ["queue_full", true, "tsk_1"]);
  assert.deepEqual(error.details, { queued: 3 });
  assert.equal(error.status, undefined);
  assert.equal(errorFromMessage(create(ErrorSchema, { code: "bad_request", error: "x" }), "tsk_1").taskId, undefined);
});

test("a refused task of a batch or a submit stream says when to try again, as a call does by its RetryInfo", () => {
  const message = create(ErrorSchema, { code: "queue_full", error: "full", retryable: true, retryAfterMs: 2_500 });
  const unary = errorFrom(refusal(Code.ResourceExhausted, "QUEUE_FULL", {}, 3));
  assert.deepEqual([unary.retryable, unary.retryAfterMs], [true, 3_000]);
  for (const error of [errorFromMessage(message), errorFromOutcome(message)]) {
    assert.deepEqual([error.retryable, error.retryAfterMs], [true, 2_500]);
  }
});

test("without a time from the server there is no time to try again", () => {
  const message = create(ErrorSchema, { code: "queue_full", error: "full", retryable: true });
  for (const error of [errorFromMessage(message), errorFromOutcome(message)]) {
    assert.deepEqual([error.retryable, error.retryAfterMs], [true, undefined]);
  }
});
