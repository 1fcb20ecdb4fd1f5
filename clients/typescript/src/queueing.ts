/** What tasks say of others: the words of their fields, and the outcomes of waits for a stop. */
import {
  After_Policy,
  Parent_OnEnd,
  Stopping_Outcome,
  Unique_Conflict,
  Unique_While,
} from "./gen/taskyard/v1/task_pb.js";

/** What a task asks of those that it comes after: that they end as done, or that they end. */
export type AfterPolicy = "success" | "ended";

/** For how long a unique key is taken: while its task waits, or until it has ended. */
export type UniqueWhile = "queued" | "live";

/**
 * What a submission does whose unique key is taken: it answers with the task that has the key, it fails with
 * `already_exists`, or it replaces the task that has the key if that waits.
 */
export type OnConflict = "existing" | "reject" | "replaceQueued";

/** What becomes of a task when its parent ends: it goes on, or it is cancelled. */
export type OnParentEnd = "keep" | "cancel";

/** What becomes of the target of a task that fails after its start. */
export type OnTargetFailure = "block" | "continue";

/**
 * Whether anything of a task may still run that was cancelled or paused.
 *
 * - `released`: its host has said that nothing runs any more.
 * - `presumed`: the time of its lease is over, and its host has said nothing: it may still run.
 * - `not_running`: no host had it.
 * - `waiting`: the wait was over before its host said anything.
 */
export type Stopping = "released" | "presumed" | "not_running" | "waiting";

const AFTER_POLICIES: Record<AfterPolicy, After_Policy> = {
  success: After_Policy.success,
  ended: After_Policy.ended,
};
const UNIQUE_WHILES: Record<UniqueWhile, Unique_While> = { queued: Unique_While.queued, live: Unique_While.live };
const CONFLICTS: Record<OnConflict, Unique_Conflict> = {
  existing: Unique_Conflict.existing,
  reject: Unique_Conflict.reject,
  replaceQueued: Unique_Conflict.replaceQueued,
};
const PARENT_ENDS: Record<OnParentEnd, Parent_OnEnd> = { keep: Parent_OnEnd.keep, cancel: Parent_OnEnd.cancel };
const STOPPING: Record<Stopping, Stopping_Outcome> = {
  released: Stopping_Outcome.released,
  presumed: Stopping_Outcome.presumed,
  not_running: Stopping_Outcome.not_running,
  waiting: Stopping_Outcome.waiting,
};

/** The words of a task that are enums on the wire. */
export interface Words {
  /** What the task asks of the tasks in `after`. Default `success`. */
  afterPolicy?: AfterPolicy;
  /** For how long the task has its unique key. Default `live`. */
  uniqueWhile?: UniqueWhile;
  /** What happens when the unique key is taken. Default `existing`. */
  onConflict?: OnConflict;
  /** What becomes of the task when its parent ends; with `cancel` that must not have ended. Default `keep`. */
  onParentEnd?: OnParentEnd;
}

/** The words as the wire has them. Throws TypeError for one that a field does not take. */
export function wordsFrom({ afterPolicy, uniqueWhile, onConflict, onParentEnd }: Words) {
  return {
    afterPolicy: afterPolicy && numberOf("afterPolicy", AFTER_POLICIES, afterPolicy),
    uniqueWhile: uniqueWhile && numberOf("uniqueWhile", UNIQUE_WHILES, uniqueWhile),
    onConflict: onConflict && numberOf("onConflict", CONFLICTS, onConflict),
    onParentEnd: onParentEnd && numberOf("onParentEnd", PARENT_ENDS, onParentEnd),
  };
}

/** The words of a task as the server shows them, those that are set. */
export function wordsOf(message: {
  afterPolicy?: After_Policy;
  uniqueWhile?: Unique_While;
  onParentEnd?: Parent_OnEnd;
}): Omit<Words, "onConflict"> {
  const afterPolicy = wordOf(AFTER_POLICIES, message.afterPolicy);
  const uniqueWhile = wordOf(UNIQUE_WHILES, message.uniqueWhile);
  const onParentEnd = wordOf(PARENT_ENDS, message.onParentEnd);
  return {
    ...(afterPolicy && { afterPolicy }),
    ...(uniqueWhile && { uniqueWhile }),
    ...(onParentEnd && { onParentEnd }),
  };
}

/** The outcome of a wait. One that is not known, since its answer was lost, is as a wait that was too short. */
export function stoppingOf(outcome: Stopping_Outcome | undefined): Stopping {
  return wordOf(STOPPING, outcome) ?? "waiting";
}

function numberOf<W extends string, N extends number>(field: string, numbers: Record<W, N>, word: W): N {
  const number = numbers[word];
  if (number === undefined) {
    throw new TypeError(`${field}: is one of ${Object.keys(numbers).join(", ")}, not ${JSON.stringify(word)}`);
  }
  return number;
}

function wordOf<W extends string>(numbers: Record<W, number>, number: number | undefined): W | undefined {
  return (Object.keys(numbers) as W[]).find((word) => numbers[word] === number);
}
