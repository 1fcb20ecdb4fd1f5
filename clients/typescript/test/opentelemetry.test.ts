/** Spans of submits and of handlers, and the trace that goes from one to the other. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import type { Client } from "../src/client.js";
import { ActionFailed, Parked, type RunningTask, TaskStopped, TaskyardError } from "../src/index.js";
import { Tracing, withTrace } from "../src/opentelemetry.js";
import type { NewSingleTask } from "../src/tasks.js";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const SPAN_ID = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE_ID}-${SPAN_ID}-01`;

let exporter: InMemorySpanExporter;
let provider: BasicTracerProvider;
let tracing: Tracing;

beforeEach(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  exporter = new InMemorySpanExporter();
  provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  tracing = new Tracing(provider);
});

afterEach(() => context.disable());

/** The only span that has ended. */
function onlySpan() {
  const [span, ...others] = exporter.getFinishedSpans();
  assert.ok(span);
  assert.deepEqual(others, []);
  return span;
}

/** A client that keeps the trace context of what it is given. */
function clientWith(given: (string | undefined)[], failure?: Error): Client {
  const submit = async (task: NewSingleTask) => {
    given.push(task.traceparent);
    if (failure) throw failure;
    return { id: "t" };
  };
  return { submit } as unknown as Client;
}

function running(traceparent?: string, signal = new AbortController().signal) {
  const task = { agentId: "ann", traceparent };
  return { id: "t", action: "crawl", attempt: 2, task, signal } as unknown as RunningTask;
}

test("a submit has a span and gives it to the task", async () => {
  const given: (string | undefined)[] = [];
  const outer = provider.getTracer("agent").startSpan("plan");
  await context.with(trace.setSpan(context.active(), outer), () =>
    tracing.submit(clientWith(given), { action: "crawl" }),
  );
  const span = onlySpan();
  const its = span.spanContext();
  assert.deepEqual(given, [`00-${its.traceId}-${its.spanId}-01`]);
  assert.deepEqual([span.name, span.kind], ["send crawl", SpanKind.PRODUCER]);
  assert.equal(span.parentSpanContext?.spanId, outer.spanContext().spanId);
  assert.deepEqual(span.attributes, {
    "messaging.system": "taskyard",
    "messaging.operation.name": "send",
    "messaging.operation.type": "send",
    "messaging.destination.name": "crawl",
    "messaging.message.id": "t",
  });
});

test("a task keeps the trace context that it has", async () => {
  const given: (string | undefined)[] = [];
  await tracing.submit(clientWith(given), { action: "crawl", traceparent: TRACEPARENT });
  assert.deepEqual(given, [TRACEPARENT]);
  assert.deepEqual(withTrace({ action: "crawl" }), { action: "crawl" });
});

test("a refused submit is an error of its span", async () => {
  const refusal = new TaskyardError("queue_full", "the queue is full");
  await assert.rejects(tracing.submit(clientWith([], refusal), { action: "crawl" }), refusal);
  const span = onlySpan();
  assert.equal(span.attributes["error.type"], "queue_full");
  assert.deepEqual(span.status, { code: SpanStatusCode.ERROR, message: refusal.message });
});

test("an attempt has a span below the trace context of its task, and what it does is below that", async () => {
  const within = await tracing.handler(() => trace.getActiveSpan()?.spanContext().spanId)(running(TRACEPARENT));
  const span = onlySpan();
  assert.equal(within, span.spanContext().spanId);
  assert.deepEqual([span.name, span.kind], ["process crawl", SpanKind.CONSUMER]);
  assert.deepEqual([span.spanContext().traceId, span.parentSpanContext?.spanId], [TRACE_ID, SPAN_ID]);
  assert.deepEqual(span.attributes, {
    "messaging.system": "taskyard",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.destination.name": "crawl",
    "messaging.message.id": "t",
    "taskyard.task.attempt": 2,
    "taskyard.agent.id": "ann",
  });
});

test("a task without a trace begins one", async () => {
  await tracing.handler(() => undefined)(running());
  assert.equal(onlySpan().parentSpanContext, undefined);
});

for (const [failure, type] of [
  [new RangeError("bad"), "RangeError"],
  [new ActionFailed("gone", { code: "no_page" }), "no_page"],
] as const) {
  test(`a ${type} is an error of the span`, async () => {
    const handler = tracing.handler(() => {
      throw failure;
    });
    await assert.rejects(async () => handler(running()), failure);
    const span = onlySpan();
    assert.equal(span.attributes["error.type"], type);
    assert.deepEqual(span.status, { code: SpanStatusCode.ERROR, message: failure.message });
    assert.deepEqual(
      span.events.map((event) => event.name),
      ["exception"],
    );
  });
}

test("a stopped attempt is no error", async () => {
  const stopped = new TaskStopped("cancelled by a person", "cancelled");
  const task = running(undefined, AbortSignal.abort(stopped));
  await assert.rejects(async () => tracing.handler(() => Promise.reject(stopped))(task), stopped);
  const span = onlySpan();
  assert.equal(span.attributes["taskyard.task.cancelled"], true);
  assert.equal(span.status.code, SpanStatusCode.UNSET);
});

test("an attempt that parks its task is no error", async () => {
  await assert.rejects(async () => tracing.handler(() => Promise.reject(new Parked()))(running()), Parked);
  const span = onlySpan();
  assert.equal(span.attributes["taskyard.task.parked"], true);
  assert.equal(span.status.code, SpanStatusCode.UNSET);
});
