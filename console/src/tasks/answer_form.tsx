/** A question of a task with the form of its answer: buttons for choices, fields for a simple schema, else JSON or text. */
import { errorFrom } from "@client/errors";
import { jsonOf, valueFrom } from "@client/values";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Value } from "@bufbuild/protobuf/wkt";
import { useState } from "preact/hooks";
import { ParkService } from "@v1/park_pb";
import type { Question } from "@v1/wait_pb";
import { notify } from "../acting";
import { api } from "../api";
import { Button } from "../parts/button";
import { AreaField, CheckField, jsonIn, SelectField, TextField } from "../parts/fields";
import { may } from "../session";

export interface AskedProps {
  taskId: string;
  agentId: string;
  questionId: string;
  /** Absent where the caller is shown no payloads. */
  question: Question | undefined;
  onAnswered: () => void;
}

export function Asked({ question, taskId, agentId, questionId, onAnswered }: AskedProps) {
  return (
    <div class="stack">
      <Asking question={question} />
      {question && may(ParkService.method.answerQuestion, agentId) && (
        <AnswerForm
          question={question}
          send={(answer) => api().parks.answerQuestion({ taskId, questionId, answer })}
          onAnswered={onAnswered}
        />
      )}
    </div>
  );
}

/** What is asked. */
export function Asking({ question }: { question: Question | undefined }) {
  const text = jsonOf(question?.default);
  return (
    <>
      {question?.text && <p class="question-text">{question.text}</p>}
      {question?.url && (
        <a href={question.url} target="_blank" rel="noreferrer">
          {question.url}
        </a>
      )}
      {text !== undefined && <p class="dim">Without an answer in time it is {JSON.stringify(text)}.</p>}
    </>
  );
}

export interface AnswerFormProps {
  question: Question;
  /** Gives the answer. */
  send: (answer: Value) => Promise<unknown>;
  onAnswered: () => void;
}

export function AnswerForm({ question, send, onAnswered }: AnswerFormProps) {
  const fields = fieldsOf(question.schema);
  const [text, setText] = useState("");
  const [values, setValues] = useState<Record<string, string>>({});
  const [problem, setProblem] = useState("");
  const give = async (answer: () => unknown) => {
    try {
      await send(valueFrom(answer(), "answer"));
    } catch (thrown) {
      setProblem(thrown instanceof SyntaxError ? thrown.message : errorFrom(thrown).reason);
      return;
    }
    setProblem("");
    notify("The question is answered");
    onAnswered();
  };
  const choices = question.choices?.values.map((each) => jsonOf(each) ?? null) ?? [];
  const wrong = problem && (
    <p class="bad-text" role="alert">
      {problem}
    </p>
  );
  if (choices.length)
    return (
      <>
        <div class="row">
          {choices.map((choice) => (
            <Button key={JSON.stringify(choice)} onPress={() => give(() => choice)}>
              {typeof choice === "string" ? choice : JSON.stringify(choice)}
            </Button>
          ))}
        </div>
        {wrong}
      </>
    );
  return (
    <form
      class="stack"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void give(() => (fields ? objectOf(fields, values) : question.schema ? jsonIn(text) : freeAnswer(text)));
      }}
    >
      {fields ? (
        fields.map((field) => (
          <SchemaField
            key={field.name}
            field={field}
            value={values[field.name] ?? ""}
            onChange={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
          />
        ))
      ) : (
        <AreaField
          label="Answer"
          rows={3}
          value={text}
          onChange={setText}
          hint={question.schema ? "JSON, as the schema of the question wants it." : "JSON, or a text."}
        />
      )}
      {wrong}
      <div class="row">
        <Button kind="primary" type="submit">
          Answer
        </Button>
      </div>
    </form>
  );
}

type Kind = "string" | "number" | "integer" | "boolean" | "enum";

interface Field {
  readonly name: string;
  readonly kind: Kind;
  readonly required: boolean;
  readonly hint: string | undefined;
  readonly choices: readonly JsonValue[];
}

const KINDS: readonly unknown[] = ["string", "number", "integer", "boolean"];

/** The fields of an object whose properties are simple ones; undefined of any other schema. */
function fieldsOf(schema: JsonObject | undefined): Field[] | undefined {
  const { type, properties, required } = schema ?? {};
  if (type !== "object" || !isObject(properties) || !Object.keys(properties).length) return undefined;
  const fields = Object.entries(properties).map(([name, property]): Field | undefined => {
    if (!isObject(property)) return undefined;
    const choices = Array.isArray(property.enum) ? property.enum : [];
    const kind = choices.length ? "enum" : property.type;
    if (kind !== "enum" && !KINDS.includes(kind)) return undefined;
    const hint = property.description ?? property.title;
    return {
      name,
      kind: kind as Kind,
      required: Array.isArray(required) && required.includes(name),
      hint: typeof hint === "string" ? hint : undefined,
      choices,
    };
  });
  return fields.every((field) => field !== undefined) ? fields : undefined;
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function SchemaField({ field, value, onChange }: { field: Field; value: string; onChange: (value: string) => void }) {
  const { name: label, hint, required, kind } = field;
  if (kind === "boolean")
    return (
      <CheckField
        label={label}
        value={value === "true"}
        onChange={(on) => onChange(String(on))}
        {...(hint && { hint })}
      />
    );
  const common = { label, hint, required, value, onChange };
  if (kind === "enum") {
    const options = field.choices.map((choice, at): [string, string] => [
      String(at),
      typeof choice === "string" ? choice : JSON.stringify(choice),
    ]);
    return <SelectField {...common} options={[["", ""], ...options]} />;
  }
  if (kind === "string") return <TextField {...common} />;
  return <TextField {...common} type="number" step={kind === "integer" ? 1 : "any"} />;
}

/** The object that the fields make. What is empty and not required is left out; the server says what is wrong. */
function objectOf(fields: readonly Field[], values: Readonly<Record<string, string>>): JsonObject {
  const object: JsonObject = {};
  for (const { name, kind, required, choices } of fields) {
    const value = values[name] ?? "";
    if (kind === "boolean") {
      if (value || required) object[name] = value === "true";
    } else if (kind === "string") {
      if (value || required) object[name] = value;
    } else if (value) {
      object[name] = kind === "enum" ? (choices[Number(value)] ?? null) : Number(value);
    }
  }
  return object;
}

/** What was typed as JSON, or as a text where it is none. */
function freeAnswer(text: string): unknown {
  try {
    return jsonIn(text) ?? text;
  } catch {
    return text;
  }
}
