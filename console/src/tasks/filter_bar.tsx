/** The filters of the list of tasks: states with their numbers, and whatever else the address asks. */
import type { TaskState } from "@client/tasks";
import { useState } from "preact/hooks";
import { Button } from "../parts/button";
import { FormDialog, openDialog } from "../parts/dialog";
import { TextField } from "../parts/fields";
import { countOf } from "../parts/figures";
import { Icon } from "../parts/icon";
import { toneOf } from "../parts/state";
import { setQuery } from "../route";
import { FIELDS, type Query, STATES, statesOf } from "./filter";
import { selectorOf } from "./label_selector";

export interface FilterBarProps {
  query: Query;
  /** Numbers by state, where they are known. */
  counts?: Readonly<Partial<Record<TaskState, number>>>;
}

export function FilterBar({ query, counts }: FilterBarProps) {
  const chosen = statesOf(query);
  const toggle = (state: TaskState) => {
    const next = chosen.includes(state) ? chosen.filter((each) => each !== state) : [...chosen, state];
    setQuery({ state: next.join(",") });
  };
  const active = FIELDS.filter(({ key }) => query[key]);
  return (
    <div class="filters">
      <fieldset class="chips" aria-label="States">
        {STATES.map((state) => (
          <button
            key={state}
            type="button"
            class={`chip tone-${toneOf(state)}`}
            aria-pressed={chosen.includes(state)}
            onClick={() => toggle(state)}
          >
            <span class="dot" />
            {state}
            {counts && <b>{countOf(counts[state] ?? 0)}</b>}
          </button>
        ))}
      </fieldset>
      <div class="row">
        {active.map(({ key, label, kind }) => (
          <button
            key={key}
            type="button"
            class="chip set"
            aria-label={`Remove the filter ${label}`}
            onClick={() => setQuery({ [key]: "" })}
          >
            <span class="dim">{label}</span> {kind === "time" ? new Date(query[key]!).toLocaleString() : query[key]}
            <Icon name="close" size={12} />
          </button>
        ))}
        <Button
          kind="ghost"
          icon="filter"
          onPress={() => openDialog((close) => <FilterDialog query={query} close={close} />)}
        >
          Filter
        </Button>
        {(active.length > 0 || chosen.length > 0) && (
          <Button
            kind="ghost"
            onPress={() =>
              setQuery(Object.fromEntries(["state", ...FIELDS.map(({ key }) => key)].map((key) => [key, ""])))
            }
          >
            Clear
          </Button>
        )}
      </div>
    </div>
  );
}

function FilterDialog({ query, close }: { query: Query; close: () => void }) {
  const [values, setValues] = useState<Query>(() =>
    Object.fromEntries(
      FIELDS.map(({ key, kind }) => [key, kind === "time" ? localTime(query[key]) : (query[key] ?? "")]),
    ),
  );
  const apply = () => {
    selectorOf(values.labels ?? "");
    setQuery(
      Object.fromEntries(
        FIELDS.map(({ key, kind }) => {
          const value = values[key]?.trim() ?? "";
          return [key, kind === "time" && value ? new Date(value).toISOString() : value];
        }),
      ),
    );
  };
  return (
    <FormDialog title="Filter tasks" submit="Apply" onSubmit={apply} close={close} wide>
      <div class="pair">
        {FIELDS.map(({ key, label, kind, hint }) => (
          <TextField
            key={key}
            label={label}
            type={kind === "time" ? "datetime-local" : "text"}
            step={kind === "time" ? 1 : undefined}
            hint={hint}
            value={values[key] ?? ""}
            onChange={(value) => setValues({ ...values, [key]: value })}
          />
        ))}
      </div>
    </FormDialog>
  );
}

/** A time of the address as a field takes it, in the time zone of the browser. */
function localTime(iso: string | undefined): string {
  const ms = Date.parse(iso ?? "");
  if (Number.isNaN(ms)) return "";
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
