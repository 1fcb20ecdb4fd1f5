/** A JSON value as a tree whose parts open and close. */
import type { ExactJson } from "@client/values";
import { useState } from "preact/hooks";
import { Icon } from "./icon";

const FIRST = 100;

/** `depth` levels are open at first. */
export function Tree({ value, name, depth = 2 }: { value: ExactJson; name?: string; depth?: number }) {
  if (value === null || typeof value !== "object") {
    return (
      <div class="leaf">
        {name !== undefined && <Name of={name} />}
        <Leaf value={value} />
      </div>
    );
  }
  return <Branch value={value} name={name} depth={depth} />;
}

function Branch({ value, name, depth }: { value: object; name: string | undefined; depth: number }) {
  const [isOpen, setOpen] = useState(depth > 0);
  const [shown, setShown] = useState(FIRST);
  const entries = Object.entries(value);
  const [left, right] = Array.isArray(value) ? "[]" : "{}";
  return (
    <div class="branch">
      <button type="button" class="twig" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="chevron" size={12} />
        {name !== undefined && <Name of={name} />}
        <span class="dim">
          {left}
          {!isOpen && entries.length > 0 && ` ${entries.length} `}
          {(!isOpen || !entries.length) && right}
        </span>
      </button>
      {isOpen && entries.length > 0 && (
        <>
          <div class="twigs">
            {entries.slice(0, shown).map(([key, each]) => (
              <Tree key={key} name={key} value={each} depth={depth - 1} />
            ))}
            {entries.length > shown && (
              <button type="button" class="link" onClick={() => setShown(shown + 10 * FIRST)}>
                {entries.length - shown} more
              </button>
            )}
          </div>
          <span class="dim closing">{right}</span>
        </>
      )}
    </div>
  );
}

function Name({ of }: { of: string }) {
  return <span class="name">{of}: </span>;
}

function Leaf({ value }: { value: string | number | bigint | boolean | null }) {
  const kind = value === null ? "null" : typeof value;
  return <span class={`value ${kind}`}>{kind === "string" ? `"${value}"` : String(value)}</span>;
}
