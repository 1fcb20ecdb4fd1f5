/** Inputs and outputs: what travels in params and results, what in payloads, and what is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { TaskSchema } from "../src/gen/taskyard/v1/task_pb.js";
import { inputOf, outputOf } from "../src/index.js";
import { inputFields, outputFields, Payload } from "../src/payloads.js";
import { fieldsOf, submitRequest, taskFrom } from "../src/tasks.js";
import { jsonOf, parseExactly, plainJson } from "../src/values.js";

const BEYOND = 2n ** 53n + 1n;
const text = (payload?: { data: Uint8Array }) => payload && new TextDecoder().decode(payload.data);

test("a bigint that no number holds is refused in params and results, by its field", () => {
  const params = { lines: [{ id: 1n }, { id: BEYOND }] };
  const refusal = { name: "TypeError", message: /^params\.lines\[1\]\.id: 9007199254740993: / };
  assert.throws(() => submitRequest({ action: "a", params }, "me"), refusal);
  assert.throws(() => fieldsOf({ action: "a", params }), refusal);
  assert.throws(() => plainJson(-BEYOND, "result"), { name: "TypeError", message: /^result: -9007199254740993: / });
  assert.throws(() => plainJson({ n: 2n ** 60n }, "result"), { message: /^result\.n: 1152921504606846976: / });
});

test("a bigint that a number holds is that number", () => {
  const params = { id: 2n ** 53n, big: 1e300, small: -5n };
  assert.deepEqual(submitRequest({ action: "a", params }, "me").params, { id: 2 ** 53, big: 1e300, small: -5 });
});

test("an input is sent as params where these hold it, else as a payload", () => {
  assert.deepEqual(inputFields({ id: 1n, at: new Date(0) }), { params: { id: 1, at: "1970-01-01T00:00:00.000Z" } });
  assert.deepEqual(inputFields(undefined), {});
  for (const [input, json] of [
    [
      { id: BEYOND, "9007199254740993": "9007199254740993" },
      '{"id":9007199254740993,"9007199254740993":"9007199254740993"}',
    ],
    [[1, "a"], '[1,"a"]'],
    [null, "null"],
    [7n, "7"],
  ] as const) {
    const fields = inputFields(input);
    assert.deepEqual([fields.params, text(fields.input), fields.input?.encoding], [undefined, json, undefined]);
  }
  const own = inputFields(new Payload(new Uint8Array([255]), "fernet")).input;
  assert.deepEqual([[...(own?.data ?? [])], own?.encoding], [[255], "fernet"]);
  assert.throws(() => fieldsOf({ action: "a", params: {}, input: 1 }), { name: "TypeError", message: /^input: / });
});

test("an output is sent as a result where that holds it, else as a payload", () => {
  assert.equal(jsonOf(outputFields([1n]).result)?.toString(), "1");
  assert.equal(jsonOf(outputFields(null).result), null);
  assert.deepEqual(text(outputFields({ id: -BEYOND }).output), '{"id":-9007199254740993}');
});

test("a value of JSON keeps all digits of its integers", () => {
  const read =
    '{"id":-9007199254740993,"n":[1,2.5,18446744073709551615,1e20,100000000000000000000],"9007199254740993":"9007199254740993 \\" 9007199254740993"}';
  assert.deepEqual(parseExactly(read), {
    id: -BEYOND,
    n: [1, 2.5, 18446744073709551615n, 1e20, 1e20],
    "9007199254740993": '9007199254740993 " 9007199254740993',
  });
});

test("a task is read from its params and result, or from its payloads", () => {
  const payload = { data: new TextEncoder().encode('{"id":9007199254740993}') };
  const exact = taskFrom(create(TaskSchema, { input: payload, output: payload }));
  assert.deepEqual([inputOf(exact), outputOf(exact)], [{ id: BEYOND }, { id: BEYOND }]);
  const plain = taskFrom(create(TaskSchema, { params: { a: 1 } }));
  assert.deepEqual([inputOf(plain), outputOf(plain)], [{ a: 1 }, undefined]);
  const encoded = taskFrom(create(TaskSchema, { input: { ...payload, encoding: "fernet" } }));
  assert.throws(() => inputOf(encoded), { name: "TypeError", message: /codec 'fernet'/ });
});
