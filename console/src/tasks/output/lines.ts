/**
 * The lines of a task's output, made of its chunks: the last ones of them, so that a page can be left open.
 *
 * A chunk may be a part of a line, as of a model that says one word after the other, or many lines. What a program has
 * overwritten, as the bar of its progress, is not kept.
 */
import { toJson } from "@bufbuild/protobuf";
import { type Timestamp, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ExactJson } from "@client/values";
import type { OutputChunk } from "@v1/output_pb";
import { type Look, lookAfter, PLAIN, plainText } from "./ansi";

/** The most lines that the page holds, and the most characters. Beyond them the oldest go. */
const MOST_LINES = 10_000;
const MOST_CHARACTERS = 4 << 20;
/** A line that is as long as this ends, whatever comes. */
const LONG_LINE = 16 << 10;

type Said =
  | { readonly kind: "text"; readonly text: string; readonly look: Look; readonly isOpen: boolean }
  | { readonly kind: "json"; readonly value: ExactJson; readonly text: string }
  | { readonly kind: "bytes"; readonly size: number }
  /** So many chunks were dropped to make room before they were read. */
  | { readonly kind: "gap"; readonly chunks: number };

export interface Line {
  readonly key: number;
  readonly channel: string;
  readonly attempt: number;
  readonly at: Timestamp | undefined;
  readonly said: Said;
}

export class OutputLines {
  lines: Line[] = [];
  /** How many lines were left out again since they are too many. */
  left = 0;
  /** The number of the last chunk. */
  last = 0;
  readonly channels = new Set<string>();
  /** The look that the next text of a channel begins with. */
  readonly #looks = new Map<string, Look>();
  #key = 0;
  #characters = 0;

  /** Adds chunks, in order. Those that were added before are passed by. */
  add(chunks: readonly OutputChunk[]): void {
    for (const chunk of chunks) this.#add(chunk);
    this.#trim();
  }

  #add({ sequence = 0, channel = "", attempt = 1, takenAt, data }: OutputChunk): void {
    if (sequence <= this.last) return;
    const push = (said: Said) => this.#push({ key: ++this.#key, channel, attempt, at: takenAt, said });
    // What is missing before the first chunk, the page says above the lines.
    if (this.last && sequence > this.last + 1) push({ kind: "gap", chunks: sequence - this.last - 1 });
    this.last = sequence;
    this.channels.add(channel);
    if (data.case === "text") this.#addText(data.value, channel, attempt, push);
    else if (data.case === "json") {
      const value = toJson(ValueSchema, data.value) as ExactJson;
      push({ kind: "json", value, text: oneLine(value) });
    } else push({ kind: "bytes", size: data.value?.length ?? 0 });
  }

  #addText(more: string, channel: string, attempt: number, push: (said: Said) => void): void {
    let text = more;
    let look = this.#looks.get(channel) ?? PLAIN;
    const before = this.lines.at(-1);
    if (before && before.said.kind === "text" && goesOn(before, channel, attempt)) {
      text = before.said.text + more;
      look = before.said.look;
      this.lines.pop();
      this.#characters -= before.said.text.length;
      // It stays the same line, for who looks at it.
      this.#key = before.key - 1;
    }
    const parts = text.split(/\r?\n/);
    parts.forEach((part, at) => {
      const isLast = at === parts.length - 1;
      const end = lookAfter(part, look);
      const over = overwritten(part);
      if (over) look = lookAfter(part.slice(0, over), look);
      const rest = part.slice(over);
      if (!isLast || rest) push({ kind: "text", text: rest, look, isOpen: isLast && rest.length < LONG_LINE });
      look = end;
    });
    this.#looks.set(channel, look);
  }

  #push(line: Line): void {
    this.lines.push(line);
    this.#characters += lengthOf(line);
  }

  #trim(): void {
    let gone = Math.max(0, this.lines.length - MOST_LINES);
    for (let at = 0; at < gone; at++) this.#characters -= lengthOf(this.lines[at]!);
    while (this.#characters > MOST_CHARACTERS && gone < this.lines.length - 1)
      this.#characters -= lengthOf(this.lines[gone++]!);
    this.left += gone;
    if (gone) this.lines.splice(0, gone);
  }
}

/**
 * The lines of a channel, of all if it is empty, as a new list: a part of the page that is given the same one is not drawn.
 * What other channels have said within a line stands no more in it.
 */
export function linesOf(lines: readonly Line[], channel: string): readonly Line[] {
  if (!channel) return [...lines];
  const found: Line[] = [];
  for (const line of lines) {
    if (line.said.kind !== "gap" && line.channel !== channel) continue;
    const before = found.at(-1);
    if (line.said.kind === "text" && before?.said.kind === "text" && goesOn(before, channel, line.attempt)) {
      const said = before.said.text + line.said.text;
      const text = said.slice(overwritten(said));
      found[found.length - 1] = { ...before, said: { ...before.said, text, isOpen: line.said.isOpen } };
    } else found.push(line);
  }
  return found;
}

/** How much of the begin of a line is overwritten. A return that ends it may yet be half of the end of the line. */
function overwritten(line: string): number {
  return line.length < 2 ? 0 : line.lastIndexOf("\r", line.length - 2) + 1;
}

/** What a line says, as it is searched. */
export function textOf({ said }: Line): string {
  if (said.kind === "text") return plainText(said.text);
  return said.kind === "json" ? said.text : "";
}

/** Whether a text of the channel goes on in this line. */
function goesOn({ channel, attempt, said }: Line, next: string, nextAttempt: number): boolean {
  return said.kind === "text" && said.isOpen && channel === next && attempt === nextAttempt;
}

function lengthOf({ said }: Line): number {
  return said.kind === "text" || said.kind === "json" ? said.text.length : 0;
}

/** JSON as one line, with spaces where people want them. */
function oneLine(value: ExactJson): string {
  return JSON.stringify(value, null, 1).replace(/\n */g, " ");
}
