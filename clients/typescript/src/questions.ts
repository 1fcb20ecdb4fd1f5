/** Parked tasks: what they wait for, and the questions that they ask (docs/rules.md, Parked tasks, Questions). */
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { OpenQuestion as OpenQuestionMessage } from "./gen/taskyard/v1/park_pb.js";
import {
  type Park as ParkMessage,
  type Question as QuestionMessage,
  type Wait as WaitMessage,
  Wait_Kind,
} from "./gen/taskyard/v1/wait_pb.js";
import { dateOf, jsonOf } from "./values.js";

/** What a task asks of people or agents. */
export interface Question {
  /** The question, empty if there is only a `url`. */
  text: string;
  /** The JSON Schema of the answer. Absent: any JSON. */
  schema?: JsonObject;
  /** The answers that there are. Absent: any. */
  choices?: JsonValue[];
  /** The answer that counts if nobody gives one in time. Absent: the task fails then. */
  default?: JsonValue;
  /** An address to visit for the answer. Absent without one. */
  url?: string;
}

/** One thing that a parked task waits for. Any of them lets it go on. */
export interface TaskWait {
  /** An answer, the end of tasks, a time, or an event. A kind that only a later server knows has its number as name. */
  kind: "answer" | "ends" | "time" | "event";
  /** The name, which no other of its kind has in the task; of a question its id. */
  name: string;
  /** When it is over. Absent where it has no end. */
  until?: Date;
  /** The question. Absent for other kinds, and for a viewer that is shown no payloads. */
  question?: Question;
  /** The tasks whose ends are waited for. */
  taskIds: string[];
  /** The name of the event. Absent for other kinds. */
  eventName?: string;
}

/** What a parked task waits for. */
export interface TaskPark {
  /** Since when it is parked. */
  since: Date;
  /** The things that it waits for. */
  waits: TaskWait[];
}

/** A question that nobody has answered yet. */
export interface OpenQuestion {
  /** The task that asks. */
  taskId: string;
  /** Its agent. */
  agentId: string;
  /** Its action. */
  action: string;
  /** The id of the question. */
  questionId: string;
  /** The question. Absent for a viewer that is shown no payloads. */
  question?: Question;
  /** Since when the task is parked, or was last. */
  since: Date;
  /** Until when it can be answered. Absent where that has no end. */
  until?: Date;
}

const KINDS = new Map<number, TaskWait["kind"]>([
  [Wait_Kind.answer, "answer"],
  [Wait_Kind.ends, "ends"],
  [Wait_Kind.time, "time"],
  [Wait_Kind.event, "event"],
]);

/** The question of a message. */
export function questionFrom(message: QuestionMessage): Question {
  const question: Question = { text: message.text };
  if (message.schema) question.schema = message.schema;
  if (message.choices) question.choices = message.choices.values.map((each) => jsonOf(each) as JsonValue);
  if (message.default) question.default = jsonOf(message.default) as JsonValue;
  if (message.url) question.url = message.url;
  return question;
}

/** The waits of a message. */
export function parkFrom(message: ParkMessage): TaskPark {
  return { since: dateOf(message.since) ?? new Date(0), waits: message.waits.map(waitFrom) };
}

/** The open question of a message. */
export function openQuestionFrom(message: OpenQuestionMessage): OpenQuestion {
  const open: OpenQuestion = {
    taskId: message.taskId ?? "",
    agentId: message.agentId ?? "",
    action: message.action ?? "",
    questionId: message.questionId ?? "",
    since: dateOf(message.since) ?? new Date(0),
  };
  return withEnd(open, message);
}

function waitFrom(message: WaitMessage): TaskWait {
  const kind = KINDS.get(message.kind ?? 0) ?? (String(message.kind) as TaskWait["kind"]);
  const wait: TaskWait = { kind, name: message.name ?? "", taskIds: message.taskIds };
  if (message.eventName !== undefined) wait.eventName = message.eventName;
  return withEnd(wait, message);
}

function withEnd<T extends Pick<OpenQuestion, "until" | "question">>(
  open: T,
  { until, question }: Pick<OpenQuestionMessage, "until" | "question">,
): T {
  const end = dateOf(until);
  if (end) open.until = end;
  if (question) open.question = questionFrom(question);
  return open;
}
