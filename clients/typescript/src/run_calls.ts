/** The part of the client about the runs of tasks: what they have done, what they ask, and the events that they wait for. */
import type { Calls } from "./calls.js";
import type { GiveUp, QuestionsOptions, SendEventOptions } from "./client_options.js";
import { listQuestions } from "./listing.js";
import type { OpenQuestion } from "./questions.js";
import { stepFrom, type TaskStep } from "./steps.js";
import { type Stubs, stubsOver } from "./stubs.js";
import { stateOf, type TaskState } from "./tasks.js";
import { randomKey, valueFrom } from "./values.js";

/** The calls about runs. `Client` is one. */
export abstract class RunCalls {
  /** The stubs of all services, with the client's namespace, token, timeouts, retries and errors. */
  readonly stubs: Stubs;
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
    this.stubs = stubsOver(calls);
  }

  /**
   * The steps of a task, what it has done once and for all and what came while it was parked, in the order in which they were
   * recorded.
   *
   * @throws TaskyardError `not_found`; `permission_denied` for a viewer that is shown no payloads.
   */
  async steps(taskId: string, { signal }: GiveUp = {}): Promise<TaskStep[]> {
    return (await this.stubs.steps.listSteps({ taskId }, { signal })).steps.map(stepFrom);
  }

  /**
   * Lists the questions that are open, by the order in which their tasks were submitted. Reads page after page as needed.
   *
   * @param options `agentId`: only questions of tasks of this agent, default all. `pageSize`: tasks in one answer of the
   *   server, at most 1,000, the default. `signal`: gives the calls up.
   */
  questions(options: QuestionsOptions = {}): AsyncGenerator<OpenQuestion, void, undefined> {
    return listQuestions(this.stubs.parks, options);
  }

  /**
   * Answers a question. The first answer wins, and the same again is the same.
   *
   * @param answer The answer, a JSON value.
   * @returns The state of the task: queued where it was parked.
   * @throws TaskyardError `not_found`, `bad_request` for an answer that the question does not allow, `conflict` if it has another
   *   answer or its time is over, `too_large` for more than 64 KiB.
   * @throws TypeError if the answer is not JSON.
   */
  async answer(taskId: string, questionId: string, answer: unknown, { signal }: GiveUp = {}): Promise<TaskState> {
    const request = { taskId, questionId, answer: valueFrom(answer, "answer") };
    return stateOf((await this.stubs.parks.answerQuestion(request, { signal })).state);
  }

  /**
   * Sends an event to all tasks that wait for its name, see `RunningTask.event`.
   *
   * @param name Its name: 1 to 256 letters, digits, `.`, `_` or `-`.
   * @param payload What they get, a JSON value of at most 64 KiB. Default null.
   * @param options `lifeMs`: for how long those get it, too, that begin to wait later, in milliseconds, at most a day, default
   *   a minute. `eventId`: its id; within its life the same id of the same name is the same event, default one is made.
   *   `signal`: gives the call up.
   * @returns How many tasks waited for it when it came.
   * @throws TaskyardError `bad_request` for a name, an id or a life that cannot be, `already_exists` if the id is that of an
   *   event with another payload, `too_large`, `queue_full` if too many events are kept.
   * @throws TypeError if the payload is not JSON.
   */
  async sendEvent(name: string, payload: unknown = null, options: SendEventOptions = {}): Promise<number> {
    const { lifeMs, eventId = randomKey(), signal } = options;
    const lifeSecs = lifeMs === undefined ? undefined : lifeMs / 1000;
    const request = { name, payload: valueFrom(payload, "payload"), lifeSecs, eventId };
    const send = (_: boolean, linked: AbortSignal) => this.stubs.events.sendEvent(request, { signal: linked });
    return (await this.#calls.repeated(send, signal)).waiting ?? 0;
  }
}
