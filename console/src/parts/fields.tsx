/** Fields of forms: a label, a control, and a hint or what is wrong. */
import { type ExactJson, parseExactly } from "@client/values";
import { useId } from "preact/hooks";

interface Common<T> {
  label: string;
  value: T;
  onChange: (value: T) => void;
  hint?: string | undefined;
  /** What is wrong with the value. */
  error?: string | undefined;
  required?: boolean;
  autofocus?: boolean;
  disabled?: boolean;
}

function Framed({
  id,
  label,
  hint,
  error,
  required,
  children,
}: Omit<Common<never>, "value" | "onChange"> & { id: string; children: preact.ComponentChildren }) {
  return (
    <div class="field">
      <label for={id}>
        {label}
        {required && (
          <span class="required" aria-hidden="true">
            {" "}
            *
          </span>
        )}
      </label>
      {children}
      {(error || hint) && (
        <small id={`${id}-hint`} class={error ? "bad-text" : "dim"}>
          {error || hint}
        </small>
      )}
    </div>
  );
}

function described(
  id: string,
  { hint, error, required, autofocus, disabled }: Partial<Omit<Common<never>, "value" | "onChange">>,
) {
  return {
    id,
    required,
    disabled,
    autofocus,
    "aria-invalid": Boolean(error),
    "aria-describedby": hint || error ? `${id}-hint` : undefined,
  } as const;
}

type TextProps = Common<string> & {
  type?: "text" | "password" | "number" | "search" | "url" | "datetime-local";
  placeholder?: string;
  min?: number;
  max?: number;
  step?: number | "any";
  /** Values to choose from, beside any other. */
  suggestions?: readonly string[];
};

export function TextField({ type = "text", placeholder, min, max, step, suggestions, ...field }: TextProps) {
  const id = useId();
  return (
    <Framed id={id} {...field}>
      <input
        {...described(id, field)}
        type={type as "text"}
        {...{ placeholder, min, max, step }}
        list={suggestions && `${id}-list`}
        value={field.value}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => field.onChange(event.currentTarget.value)}
      />
      {suggestions && (
        <datalist id={`${id}-list`}>
          {suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
    </Framed>
  );
}

export function AreaField({
  rows = 6,
  placeholder,
  ...field
}: Common<string> & { rows?: number; placeholder?: string }) {
  const id = useId();
  return (
    <Framed id={id} {...field}>
      <textarea
        {...described(id, field)}
        rows={rows}
        placeholder={placeholder}
        spellcheck={false}
        value={field.value}
        onInput={(event) => field.onChange(event.currentTarget.value)}
      />
    </Framed>
  );
}

/** One of several. An option is its value, or a value and what it is called. */
export function SelectField({
  options,
  ...field
}: Common<string> & { options: readonly (string | readonly [string, string])[] }) {
  const id = useId();
  return (
    <Framed id={id} {...field}>
      <select
        {...described(id, field)}
        value={field.value}
        onChange={(event) => field.onChange(event.currentTarget.value)}
      >
        {options.map((option) => {
          const [value, text] = typeof option === "string" ? [option, option] : option;
          return (
            <option key={value} value={value}>
              {text}
            </option>
          );
        })}
      </select>
    </Framed>
  );
}

export function CheckField({ label, value, onChange, hint, disabled }: Common<boolean>) {
  const id = useId();
  return (
    <div class="field check">
      <input
        id={id}
        type="checkbox"
        checked={value}
        disabled={disabled}
        aria-describedby={hint && `${id}-hint`}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {hint && (
        <small id={`${id}-hint`} class="dim">
          {hint}
        </small>
      )}
    </div>
  );
}

/** The value of a JSON text, with each digit of its integers: undefined for an empty one. Throws SyntaxError. */
export function jsonIn(text: string): ExactJson | undefined {
  if (!text.trim()) return undefined;
  try {
    return parseExactly(text);
  } catch (thrown) {
    // The words are those of the browser; most tell the place in the same way.
    const place = /line (\d+) column (\d+)/.exec((thrown as Error).message);
    const where = place ? ` from line ${place[1]}, column ${place[2]}` : "";
    throw new SyntaxError(`This is not JSON${where}. Names and texts stand in double quotes, as in {"url": "a"}.`);
  }
}
