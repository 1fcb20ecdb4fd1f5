/** Text as programs write it to a terminal: its colours and weights by SGR. All other sequences are left out. */

/** How a piece of text looks. Colours are `#rrggbb`; an absent one is that of the page. */
export interface Look {
  readonly ink?: string | undefined;
  readonly ground?: string | undefined;
  readonly isBold?: boolean;
  readonly isFaint?: boolean;
  readonly isItalic?: boolean;
  readonly isUnderlined?: boolean;
  readonly isStruck?: boolean;
  readonly isInverse?: boolean;
}

export interface Piece {
  readonly text: string;
  readonly look: Look;
}

export const PLAIN: Look = {};

const ESC = "\\u001b";
/** A control sequence with its parameters and its end; one that holds a text of its own, such as a title; others. */
const SEQUENCE = new RegExp(
  [
    `${ESC}\\[([0-?]*)[ -/]*([@-~]?)`,
    `${ESC}[\\]PX^_][^\\u0007\\u001b]*(?:\\u0007|${ESC}\\\\)?`,
    `${ESC}[ -/]*[0-~]?`,
    "[\\u0000-\\u0008\\u000a-\\u001f\\u007f-\\u009f]",
  ].join("|"),
  "g",
);

/** The sixteen colours that have numbers of their own. The page makes them lighter or darker as its theme needs it. */
const NAMED = (
  "#3b414c #d0343f #168a4b #a87400 #2a6fdb #9c45c9 #0e8a9a #aab1bd " +
  "#6b7382 #ee5a63 #2fb56c #d39a1c #5a93f0 #bb6fe3 #2bb0c0 #e6e9ee"
).split(" ");

/** The pieces of a text that begins with a look. */
export function piecesOf(text: string, begin: Look = PLAIN): Piece[] {
  const pieces: Piece[] = [];
  lookAfter(text, begin, (piece) => pieces.push(piece));
  return pieces;
}

/** The look at the end of a text that begins with one. `onPiece` is told of each piece on the way. */
export function lookAfter(text: string, begin: Look, onPiece: (piece: Piece) => void = () => {}): Look {
  let look = begin;
  let at = 0;
  for (const found of text.matchAll(SEQUENCE)) {
    if (found.index > at) onPiece({ text: text.slice(at, found.index), look });
    at = found.index + found[0].length;
    if (found[2] === "m") look = changed(look, found[1] ?? "");
  }
  if (at < text.length) onPiece({ text: text.slice(at), look });
  return look;
}

/** A text without its sequences. */
export function plainText(text: string): string {
  return text.replace(SEQUENCE, "");
}

function changed(before: Look, parameters: string): Look {
  let look = before;
  const words = parameters.split(";");
  while (words.length) {
    const [code = 0, ...parts] = words.shift()!.split(":").map(Number);
    if (code === 0) look = PLAIN;
    else if (code === 38 || code === 48) {
      const color = parts.length ? colorOf(parts) : takeColor(words);
      look = { ...look, [code === 38 ? "ink" : "ground"]: color };
    } else if (code === 4 && parts[0] === 0) look = { ...look, isUnderlined: false };
    else look = { ...look, ...simple(code) };
  }
  return look;
}

function simple(code: number): Look {
  if (code >= 30 && code <= 37) return { ink: NAMED[code - 30] };
  if (code >= 90 && code <= 97) return { ink: NAMED[code - 82] };
  if (code >= 40 && code <= 47) return { ground: NAMED[code - 40] };
  if (code >= 100 && code <= 107) return { ground: NAMED[code - 92] };
  return SIMPLE[code] ?? PLAIN;
}

const SIMPLE: Readonly<Record<number, Look>> = {
  1: { isBold: true },
  2: { isFaint: true },
  3: { isItalic: true },
  4: { isUnderlined: true },
  7: { isInverse: true },
  9: { isStruck: true },
  21: { isUnderlined: true },
  22: { isBold: false, isFaint: false },
  23: { isItalic: false },
  24: { isUnderlined: false },
  27: { isInverse: false },
  29: { isStruck: false },
  39: { ink: undefined },
  49: { ground: undefined },
};

/** Takes the words of a color, `5;N` or `2;R;G;B`, from those that follow. */
function takeColor(words: string[]): string | undefined {
  return colorOf(words.splice(0, words[0] === "5" ? 2 : 4).map(Number));
}

/** The color of `5 N`, or of `2 R G B` with what may stand between. */
function colorOf([kind, ...values]: readonly number[]): string | undefined {
  if (kind === 2 && values.length >= 3) return hex(values.slice(-3));
  const number = values[0];
  if (kind !== 5 || number === undefined || !(number >= 0 && number <= 255)) return undefined;
  if (number < 16) return NAMED[number];
  if (number >= 232) return hex(Array<number>(3).fill(8 + 10 * (number - 232)));
  const level = (digit: number) => (digit ? 55 + 40 * digit : 0);
  const place = number - 16;
  return hex([level(Math.floor(place / 36)), level(Math.floor(place / 6) % 6), level(place % 6)]);
}

function hex(values: readonly number[]): string | undefined {
  if (!values.every((value) => value >= 0 && value <= 255)) return undefined;
  return `#${values.map((value) => Math.floor(value).toString(16).padStart(2, "0")).join("")}`;
}
