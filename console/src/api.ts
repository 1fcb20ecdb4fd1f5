/**
 * The calls of the page: generated stubs over gRPC-Web at its own origin, in the namespace of the address.
 *
 * `api().tasks.getTask({ taskId })` throws a `TaskyardError`; views call inside `useRead` or `act`, which show it.
 */
import { type Client as Stub, createClient } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { computed } from "@preact/signals";
import { Calls } from "@client/calls";
import { type Stubs, stubsOver } from "@client/stubs";
import { type TaskEvent, watchEvents, type WatchOptions } from "@client/watching";
import { NamespaceService } from "@v1/namespace_pb";
import { OutputService } from "@v1/output_pb";
import { SignInService } from "@v1/sign_in_pb";
import { StoreService } from "@v1/store_pb";
import type { WatchTasksResponse } from "@v1/task_pb";
import { TokenService } from "@v1/token_pb";
import { noting } from "./connection";
import { credential, refusal } from "./credential";
import { namespace } from "./route";

export interface Api extends Stubs {
  readonly namespaces: Stub<typeof NamespaceService>;
  readonly tokens: Stub<typeof TokenService>;
  readonly store: Stub<typeof StoreService>;
  readonly signIn: Stub<typeof SignInService>;
  readonly outputs: Stub<typeof OutputService>;
}

const transport = createGrpcWebTransport({
  baseUrl: location.origin,
  interceptors: [
    noting((reason, shown) => {
      // The answer to a call of before says nothing of the token that the page has now.
      if (shown === null || shown !== `Bearer ${credential.peek()?.token}`) return;
      refusal.value = reason;
      credential.value = undefined;
    }),
  ],
});

const credentials = {
  token: () => credential.peek()?.token,
  tried: "the token of this page",
  renew: () => false,
};

const calls = computed(
  () => new Calls(transport, { namespace: namespace.value, patienceMs: 0 }, undefined, credentials),
);

const stubs = computed<Api>(() => ({
  ...stubsOver(calls.value),
  namespaces: createClient(NamespaceService, calls.value),
  tokens: createClient(TokenService, calls.value),
  store: createClient(StoreService, calls.value),
  signIn: createClient(SignInService, calls.value),
  outputs: createClient(OutputService, calls.value),
}));

/** The stubs in the present namespace. */
export function api(): Api {
  return stubs.value;
}

/**
 * The events of tasks, over outages of any length, until the signal aborts. `onMessage` sees each message before its
 * events: its cursor is the place at which another watch can go on, and there is none while current tasks are listed.
 */
export function watchTasks(
  options: WatchOptions & { signal: AbortSignal },
  onMessage: (message: WatchTasksResponse) => void = () => {},
): AsyncGenerator<TaskEvent, void> {
  const { tasks } = stubs.peek();
  async function* open(request: Parameters<typeof tasks.watchTasks>[0], signal: AbortSignal) {
    for await (const message of tasks.watchTasks(request, { signal })) {
      onMessage(message);
      yield message;
    }
  }
  return watchEvents(open, options, Number.POSITIVE_INFINITY);
}
