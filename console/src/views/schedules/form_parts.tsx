/** Parts of the form of a schedule: the task that it submits, and what happens when times collide or are missed. */
import { AreaField, SelectField, TextField } from "../../parts/fields";
import { CATCH_UPS, OVERLAPS } from "./draft";
import type { FormProps } from "./form_dialog";

export function TaskFields({ draft, set, faults }: FormProps) {
  return (
    <fieldset class="group">
      <legend>Task</legend>
      <div class="pair">
        <TextField label="Agent" value={draft.agentId} onChange={set("agentId")} error={faults.agentId} required />
        <TextField label="Action" value={draft.action} onChange={set("action")} error={faults.action} required />
      </div>
      <AreaField
        label="Params as a JSON object"
        value={draft.params}
        onChange={set("params")}
        placeholder="none"
        rows={4}
        error={faults.params}
      />
      <details class="unfold">
        <summary>More of the task</summary>
        <div class="form">
          <div class="pair">
            <TextField
              label="Target"
              value={draft.target}
              onChange={set("target")}
              placeholder="none"
              hint="Its tasks run one at a time."
            />
            <TextField label="Project" value={draft.project} onChange={set("project")} placeholder="none" />
            <TextField label="Requires" value={draft.requires} onChange={set("requires")} placeholder="browser, eu" />
            <TextField
              label="Labels"
              value={draft.labels}
              onChange={set("labels")}
              placeholder="site=shop"
              error={faults.labels}
            />
            <TextField
              label="Concurrency keys"
              value={draft.keys}
              onChange={set("keys")}
              placeholder="site:example.org"
            />
            <TextField
              label="Priority"
              type="number"
              step={1}
              value={draft.priority}
              onChange={set("priority")}
              placeholder="0"
              hint="A lower number is claimed first."
              error={faults.priority}
            />
            <TextField
              label="Deadline in seconds"
              type="number"
              min={1}
              value={draft.deadline}
              onChange={set("deadline")}
              placeholder="the server's"
              error={faults.deadline}
            />
            <TextField
              label="Attempts at most"
              type="number"
              min={1}
              value={draft.attempts}
              onChange={set("attempts")}
              placeholder="1"
              error={faults.attempts}
            />
          </div>
          <TextField
            label="Callback address"
            type="url"
            value={draft.callbackUrl}
            onChange={set("callbackUrl")}
            placeholder="none"
            hint="The ended task is posted to it."
          />
        </div>
      </details>
    </fieldset>
  );
}

export function PolicyFields({ draft, set, faults }: FormProps) {
  return (
    <div class="pair">
      <SelectField
        label="While an earlier one has not ended"
        value={draft.overlap}
        onChange={set("overlap")}
        options={OVERLAPS.map(({ value, words }) => [value, words] as const)}
      />
      <SelectField
        label="Missed times that fire"
        value={draft.catchUp}
        onChange={set("catchUp")}
        options={CATCH_UPS.map(({ value, words }) => [value, words] as const)}
        hint="Times at which the server did not run."
      />
      {draft.catchUp === "all" && (
        <TextField
          label="Of the last seconds"
          type="number"
          min={1}
          value={draft.catchUpWindow}
          onChange={set("catchUpWindow")}
          error={faults.catchUpWindow}
        />
      )}
    </div>
  );
}
