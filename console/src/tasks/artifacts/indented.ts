/** JSON for people to read, of which no digit and no order of names is changed, as parsing it would. */

const INDENTED_LEVELS = 50;

/** The text of JSON over several lines; another text as it is. */
export function indented(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let level = 0;
  const line = () => `\n${"  ".repeat(Math.min(level, INDENTED_LEVELS))}`;
  return text.replace(/"(?:[^"\\]+|\\.)*"|[[{]\s*[\]}]|[[\]{},:]|\s+/g, (token) => {
    switch (token) {
      case "[":
      case "{":
        level += 1;
        return token + line();
      case "]":
      case "}":
        level -= 1;
        return line() + token;
      case ",":
        return token + line();
      case ":":
        return ": ";
      default:
        return token.startsWith('"') ? token : token.replace(/\s+/g, "");
    }
  });
}
