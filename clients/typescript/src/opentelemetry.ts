/**
 * Traces by OpenTelemetry: spans of what is submitted and of what runs, in one trace from the agent to the handler.
 *
 * It needs `@opentelemetry/api`, which is an optional dependency; the program sets up the SDK. Names and attributes are
 * those of the semantic conventions for messaging.
 */
import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type TracerProvider,
} from "@opentelemetry/api";
import type { Client } from "./client.js";
import type { SubmitOptions } from "./client_options.js";
import { isUnwinding } from "./parked.js";
import type { Handler, RunningTask } from "./running_task.js";
import type { NewSingleTask, NewTask, Submitted } from "./tasks.js";

/** The header of W3C, which tasks carry whatever propagators the program has set up. */
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Makes spans of submits and of handlers. */
export class Tracing {
  readonly #provider: TracerProvider | undefined;

  /** @param provider What makes the spans. Default: the global one. */
  constructor(provider?: TracerProvider) {
    this.#provider = provider;
  }

  /**
   * Submits a task as `client.submit` does, with a span of the kind PRODUCER: `send` and the action. The task carries its
   * trace context, unless it has one.
   *
   * @param client The client that submits it.
   * @param task The task.
   * @param options As for `client.submit`.
   * @returns What `client.submit` returns. It throws the same.
   */
  async submit(client: Client, task: NewSingleTask, options: SubmitOptions = {}): Promise<Submitted> {
    const attributes = attributesOf("send", task.action);
    return this.#within(`send ${task.action}`, SpanKind.PRODUCER, attributes, context.active(), async (span) => {
      const submitted = await client.submit(withTrace(task), options);
      span.setAttribute("messaging.message.id", submitted.id);
      return submitted;
    });
  }

  /**
   * Wraps a handler: each attempt has a span of the kind CONSUMER, `process` and the action, below the trace context of the
   * attempt. An attempt that is stopped, as by a cancel, has the attribute `taskyard.task.cancelled` and no error; one that
   * parks its task has `taskyard.task.parked`.
   *
   * @param handler The handler.
   * @returns A handler of the same action.
   */
  handler<I>(handler: Handler<I>): Handler<I> {
    return (task: RunningTask<I>) => {
      const attributes = {
        ...attributesOf("process", task.action),
        "messaging.message.id": task.id,
        "taskyard.task.attempt": task.attempt,
        "taskyard.agent.id": task.task.agentId,
      };
      const parent = contextOf(task.task.traceparent);
      const name = `process ${task.action}`;
      return this.#within(name, SpanKind.CONSUMER, attributes, parent, async () => handler(task), task.signal);
    };
  }

  async #within<T>(
    name: string,
    kind: SpanKind,
    attributes: Attributes,
    parent: Context,
    work: (span: Span) => Promise<T>,
    stop?: AbortSignal,
  ): Promise<T> {
    const tracer = (this.#provider ?? trace.getTracerProvider()).getTracer("taskyard");
    const span = tracer.startSpan(name, { kind, attributes }, parent);
    try {
      return await context.with(trace.setSpan(parent, span), () => work(span));
    } catch (error) {
      if (stop?.aborted) span.setAttribute("taskyard.task.cancelled", true);
      else if (isUnwinding(error)) span.setAttribute("taskyard.task.parked", true);
      else note(span, error);
      throw error;
    } finally {
      span.end();
    }
  }
}

/**
 * Gives a task the trace context of the active span, for example those of a batch.
 *
 * @param task The task.
 * @returns The task with a `traceparent`. Unchanged if it has one already, or there is no span.
 */
export function withTrace<T extends NewTask>(task: T): T {
  const span = trace.getSpanContext(context.active());
  if (task.traceparent !== undefined || !span || !isSpanContextValid(span)) return task;
  const flags = span.traceFlags.toString(16).padStart(2, "0");
  return { ...task, traceparent: `00-${span.traceId}-${span.spanId}-${flags}` };
}

/**
 * Reads the trace context of a task.
 *
 * @param traceparent The header of W3C, undefined for none.
 * @returns A context with the remote span alone.
 */
export function contextOf(traceparent: string | undefined): Context {
  const found = TRACEPARENT.exec(traceparent ?? "");
  if (!found) return ROOT_CONTEXT;
  const [, traceId = "", spanId = "", flags = "0"] = found;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
  });
}

function attributesOf(operation: string, action: string): Attributes {
  return {
    "messaging.system": "taskyard",
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
    "messaging.destination.name": action,
  };
}

function note(span: Span, error: unknown): void {
  const failure = error instanceof Error ? error : new Error(String(error));
  const { code } = failure as { code?: unknown };
  span.recordException(failure);
  span.setAttribute("error.type", typeof code === "string" && code ? code : failure.name);
  span.setStatus({ code: SpanStatusCode.ERROR, message: failure.message });
}
