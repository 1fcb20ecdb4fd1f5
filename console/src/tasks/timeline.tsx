/** The life of a task on a line of time: when it waited, when it ran, and what came when. */
import type { Attempt, Task } from "@client/tasks";
import { State, type Tone, toneOf } from "../parts/state";
import { fullTime, lengthOf, now } from "../parts/time";

interface Span {
  readonly from: number;
  readonly to: number;
  readonly what: string;
  readonly tone: Tone;
}

interface Step {
  readonly at: Date;
  readonly what: preact.ComponentChildren;
  readonly tone: Tone;
}

export function Timeline({ task }: { task: Task }) {
  const spans = spansOf(task, now.value);
  const begin = task.createdAt.getTime();
  const whole = Math.max(1, (spans.at(-1)?.to ?? begin) - begin);
  const share = (ms: number) => `${(ms / whole) * 100}%`;
  return (
    <div class="timeline">
      <div
        class="spans"
        role="img"
        aria-label={spans.map(({ what, from, to }) => `${what} ${lengthOf(to - from)}`).join(", ")}
      >
        {spans.map(({ from, to, what, tone }) => (
          <span
            key={from}
            class={`span tone-${tone} ${what === "waited" ? "waiting" : ""}`}
            title={`${what} ${lengthOf(to - from)}`}
            style={{ left: share(from - begin), width: share(to - from) }}
          />
        ))}
      </div>
      <div class="span-ends dim">
        <span>{task.startedAt ? `waited ${lengthOf(task.startedAt.getTime() - begin)}` : ""}</span>
        <span>{lengthOf(whole)} in all</span>
      </div>
      <ol class="steps">
        {stepsOf(task).map(({ at, what, tone }, index) => (
          <li key={index} class={`tone-${tone}`}>
            <span class="dot" />
            <span>{what}</span>
            <span class="dim figure">
              <Clock at={at} />
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** The time of the day to the millisecond, with the date if it is not today's. */
function Clock({ at }: { at: Date }) {
  const isToday = at.toDateString() === new Date().toDateString();
  const time = at.toLocaleTimeString(undefined, {
    hourCycle: "h23",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
  });
  return (
    <time dateTime={at.toISOString()} title={fullTime(at)}>
      {isToday ? time : `${at.toLocaleDateString()} ${time}`}
    </time>
  );
}

/** The attempts of the current run; a task with one attempt has no list of them. */
function attemptsOf(task: Task): readonly Attempt[] {
  if (task.attempts.length || !task.startedAt) return task.attempts;
  const isOver = !["assigned", "running"].includes(task.state);
  const endedAt = task.completedAt ?? (isOver ? task.startedAt : undefined);
  return [
    { number: 1, startedAt: task.startedAt, ...(endedAt && { endedAt }), ...(task.hostId && { hostId: task.hostId }) },
  ];
}

function spansOf(task: Task, present: number): Span[] {
  const end = task.completedAt?.getTime() ?? present;
  const spans: Span[] = [];
  let at = task.createdAt.getTime();
  for (const { startedAt, endedAt, error, number } of attemptsOf(task)) {
    if (!startedAt) continue;
    const from = Math.max(at, startedAt.getTime());
    const to = Math.max(from, endedAt?.getTime() ?? end);
    if (from > at) spans.push({ from: at, to: from, what: "waited", tone: "calm" });
    const tone = error ? "bad" : endedAt ? toneOf(task.state) : "busy";
    spans.push({ from, to, what: `attempt ${number}`, tone });
    at = to;
  }
  if (end > at) spans.push({ from: at, to: end, what: "waited", tone: "calm" });
  return spans;
}

function stepsOf(task: Task): Step[] {
  const steps: Step[] = [
    {
      at: task.createdAt,
      what: (
        <>
          Submitted by <b>{task.agentId}</b>
        </>
      ),
      tone: "calm",
    },
  ];
  const hasSeveral = task.attempts.length > 1;
  for (const { number, hostId, startedAt, endedAt, error } of attemptsOf(task)) {
    const name = hasSeveral ? `Attempt ${number} began` : "Began";
    if (startedAt)
      steps.push({
        at: startedAt,
        what: (
          <>
            {name}
            {hostId && (
              <>
                {" "}
                at <b>{hostId}</b>
              </>
            )}
          </>
        ),
        tone: "busy",
      });
    if (endedAt && error)
      steps.push({
        at: endedAt,
        what: (
          <>
            Attempt {number} failed: <span class="dim">{error}</span>
          </>
        ),
        tone: "bad",
      });
  }
  if (task.progress?.reportedAt && !task.completedAt) {
    steps.push({ at: task.progress.reportedAt, what: task.progress.message ?? "Progress", tone: "busy" });
  }
  if (task.completedAt) steps.push({ at: task.completedAt, what: <State of={task.state} />, tone: toneOf(task.state) });
  else if (task.notBefore) steps.push({ at: task.notBefore, what: "Due", tone: "wait" });
  if (task.deadline && !task.completedAt)
    steps.push({ at: task.deadline, what: "Fails unless it has ended", tone: "warn" });
  return steps.sort((a, b) => a.at.getTime() - b.at.getTime());
}
