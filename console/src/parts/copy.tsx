/** Copying to the clipboard, with a tick where it was pressed. */
import { useState } from "preact/hooks";
import { notify } from "../acting";
import { Icon } from "./icon";

/** Copies a text; `children` say what, or an icon alone with `label`. */
export function Copy({
  text,
  label,
  children,
}: {
  text: string | (() => string);
  label: string;
  children?: preact.ComponentChildren;
}) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await write(typeof text === "string" ? text : text());
      setDone(true);
      setTimeout(() => setDone(false), 1_500);
    } catch {
      notify("The browser does not let this page copy", "bad");
    }
  };
  return (
    <button
      type="button"
      class={children ? "button plain" : "copy"}
      aria-label={children ? undefined : label}
      title={label}
      onClick={copy}
    >
      <Icon name={isDone ? "check" : "copy"} size={14} />
      {children}
    </button>
  );
}

async function write(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without encryption, browsers have the clipboard for the selection alone.
  const area = document.createElement("textarea");
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  if (!isDone) throw new Error("refused");
}

/** An id in the type of machines, with a button that copies it. `short` cuts it to so many characters. */
export function Id({ of, short, href }: { of: string; short?: number; href?: string }) {
  const text = short && of.length > short ? `${of.slice(0, short)}…` : of;
  return (
    <span class="id">
      {href ? (
        <a href={href} title={of}>
          {text}
        </a>
      ) : (
        <code title={of}>{text}</code>
      )}
      <Copy text={of} label={`Copy ${of}`} />
    </span>
  );
}
