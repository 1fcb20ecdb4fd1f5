/**
 * Label selectors, as the server reads them (docs/rules.md, Label selectors): requirements separated by commas.
 *
 * The live list needs them here, since a watch has no such filter.
 */
type Labels = Readonly<Record<string, string>>;
export type Selector = (labels: Labels) => boolean;

const TOKEN = /\s*(?:"((?:\\.|[^"\\])*)"|(==|!=|[=!,()])|([^\s=!,()<>"]+))/y;

interface Token {
  readonly text: string;
  /** Whether it is one of `= == != ! , ( )`. */
  readonly isSign: boolean;
}

/** Reads a selector. Throws SyntaxError for a malformed one. */
export function selectorOf(text: string): Selector {
  const tokens = tokensOf(text);
  let at = 0;
  const isSign = (sign: string) => tokens[at]?.isSign === true && tokens[at]?.text === sign;
  const take = (sign: string) => isSign(sign) && Boolean(++at);
  const word = () => {
    const token = tokens[at];
    if (!token || token.isSign) throw new SyntaxError(`labels: expected a word, found ${token?.text ?? "the end"}`);
    at += 1;
    return token.text;
  };
  const expect = (sign: string) => {
    if (!take(sign)) throw new SyntaxError(`labels: expected ${sign}, found ${tokens[at]?.text ?? "the end"}`);
  };
  const valueHere = () => (at >= tokens.length || isSign(",") ? "" : word());
  const requirement = (): Selector => {
    if (take("!")) {
      const key = word();
      return (labels) => !Object.hasOwn(labels, key);
    }
    const key = word();
    if (take("=") || take("==")) {
      const value = valueHere();
      return (labels) => labels[key] === value;
    }
    if (take("!=")) {
      const value = valueHere();
      return (labels) => labels[key] !== value;
    }
    if (at >= tokens.length || isSign(",")) return (labels) => Object.hasOwn(labels, key);
    const operator = word();
    if (operator !== "in" && operator !== "notin")
      throw new SyntaxError(`labels: expected in or notin, found ${operator}`);
    expect("(");
    const values = new Set<string>();
    do values.add(isSign(")") || isSign(",") ? "" : word());
    while (take(","));
    expect(")");
    const isWanted = operator === "in";
    return (labels) => (Object.hasOwn(labels, key) ? values.has(labels[key]!) === isWanted : !isWanted);
  };
  if (!tokens.length) return () => true;
  const all: Selector[] = [];
  do all.push(requirement());
  while (take(","));
  if (at < tokens.length) throw new SyntaxError(`labels: expected a comma, found ${tokens[at]!.text}`);
  return (labels) => all.every((each) => each(labels));
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  const end = text.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const from = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    if (!found) throw new SyntaxError(`labels: unexpected character ${from + 1}`);
    const [, quoted, sign, bare] = found;
    tokens.push({ text: quoted?.replace(/\\(.)/g, "$1") ?? sign ?? bare ?? "", isSign: sign !== undefined });
  }
  return tokens;
}
