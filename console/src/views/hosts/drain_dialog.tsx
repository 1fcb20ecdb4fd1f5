/** Asks how long a host may finish what it holds, and drains it. */
import { useState } from "preact/hooks";
import type { RuntimeHost } from "@v1/runtime_host_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { FormDialog, openDialog } from "../../parts/dialog";
import { TextField } from "../../parts/fields";

export function openDrain(host: RuntimeHost, onDone: () => void): void {
  openDialog((close) => <DrainDialog host={host} close={close} onDone={onDone} />);
}

function DrainDialog({ host, close, onDone }: { host: RuntimeHost; close: () => void; onDone: () => void }) {
  const [grace, setGrace] = useState("");
  const drain = async () => {
    const gracePeriodSecs = grace.trim() ? Number(grace) : undefined;
    await api().hosts.drainHost({ hostId: host.id, gracePeriodSecs });
    await act(`${host.displayName} drains`, async () => onDone());
  };
  return (
    <FormDialog title={`Drain ${host.displayName}`} submit="Drain" close={close} onSubmit={drain}>
      <p>It is handed nothing new, may finish what it holds, and is told to leave. Registering again ends the drain.</p>
      <TextField
        label="Grace period in seconds"
        type="number"
        min={0}
        step={1}
        value={grace}
        onChange={setGrace}
        placeholder="no limit"
        hint="What still runs after it is paused."
        autofocus
      />
    </FormDialog>
  );
}
