/**
 * The rows of an output: when, on which channel and what was said.
 *
 * Only text is made of it: what a program writes never becomes markup.
 */
import { dateOf } from "@client/values";
import type { ComponentChildren, VNode } from "preact";
import { useMemo } from "preact/hooks";
import { bytesOf, countOf } from "../../parts/figures";
import { Tree } from "../../parts/tree";
import { type Look, piecesOf } from "./ansi";
import type { Line } from "./lines";

/** How much is marked in one piece of a line. */
const MOST_MARKS = 200;

type Draw = (line: Line, attemptBefore: number) => VNode;

/** Draws lines. What was drawn before is returned as it is, so that only new lines cost anything. */
export function useDrawing(search: string): Draw {
  return useMemo(() => {
    const drawn = new WeakMap<Line, { row: VNode; before: number }>();
    return (line, before) => {
      const known = drawn.get(line);
      if (known?.before === before) return known.row;
      const row = <Row key={line.key} line={line} isNewAttempt={line.attempt !== before} search={search} />;
      drawn.set(line, { row, before });
      return row;
    };
  }, [search]);
}

function Row({ line, isNewAttempt, search }: { line: Line; isNewAttempt: boolean; search: string }) {
  const date = dateOf(line.at);
  return (
    <>
      {isNewAttempt && <p class="said-mark">Attempt {line.attempt}</p>}
      <div class={`said-line ${line.channel === "stderr" ? "tone-bad" : ""}`}>
        <time class="said-time wide-only" dateTime={date?.toISOString()} title={date?.toISOString()}>
          {date && CLOCK.format(date)}
        </time>
        <span class="said-channel">{line.channel}</span>
        <div class="said-text">
          <SaidText line={line} search={search} />
        </div>
      </div>
    </>
  );
}

/** Made once: to make one takes a hundred times as long as to use it. */
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

function SaidText({ line: { said }, search }: { line: Line; search: string }) {
  switch (said.kind) {
    case "text":
      return (
        <>
          {piecesOf(said.text, said.look).map(({ text, look }, at) => (
            <span key={at} class={classOf(look)} style={styleOf(look)}>
              <Marked text={text} search={search} />
            </span>
          ))}
        </>
      );
    case "json":
      if (typeof said.value !== "object" || said.value === null) return <Tree value={said.value} />;
      return (
        <details class="said-json">
          <summary>
            <Marked text={said.text} search={search} />
          </summary>
          <Tree value={said.value} />
        </details>
      );
    case "bytes":
      return <span class="dim">{bytesOf(said.size)}, bytes</span>;
    case "gap":
      return <span class="warn-text">{countOf(said.chunks)} chunks were dropped here to make room.</span>;
  }
}

/** A text with what is searched in it marked. */
function Marked({ text, search }: { text: string; search: string }) {
  const [within, wanted] = [text.toLowerCase(), search.toLowerCase()];
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (let at = wanted ? within.indexOf(wanted) : -1; at >= 0 && parts.length < MOST_MARKS; ) {
    parts.push(text.slice(end, at), <mark>{text.slice(at, at + wanted.length)}</mark>);
    end = at + wanted.length;
    at = within.indexOf(wanted, end);
  }
  return (
    <>
      {parts}
      {text.slice(end)}
    </>
  );
}

function classOf(look: Look): string | undefined {
  const words = [
    look.ink && !look.ground && !look.isInverse && "inked",
    look.isInverse && "inverse",
    look.isBold && "bold",
    look.isFaint && "faint",
    look.isItalic && "italic",
    look.isUnderlined && "underlined",
    look.isStruck && "struck",
  ].filter(Boolean);
  return words.join(" ") || undefined;
}

/** Colours are set as properties, which the policy of the page allows. */
function styleOf({ ink, ground, isInverse }: Look): Record<string, string> | undefined {
  const [front, back] = isInverse ? [ground, ink] : [ink, ground];
  if (!front && !back) return undefined;
  if (!back && !isInverse) return { "--ink": front! };
  return { ...(back && { background: back }), color: front ?? (back && contrastOf(back)) ?? "" };
}

/** Black or white, whichever is read better on a color. */
function contrastOf(color: string): string {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map(
    (at) => (Number.parseInt(color.slice(at, at + 2), 16) / 255) ** 2.2,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000" : "#fff";
}
