/** Asks how long tasks may still run, and drains the server, which stops then. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useState } from "preact/hooks";
import { notify } from "../../acting";
import { api } from "../../api";
import { FormDialog, openDialog } from "../../parts/dialog";
import { TextField } from "../../parts/fields";
import { fullTime } from "../../parts/time";

/** What must be typed, since a drain cannot be taken back. */
const WORD = "drain";

export function openDrainServer(): void {
  openDialog((close) => <DrainDialog close={close} />);
}

function DrainDialog({ close }: { close: () => void }) {
  const [grace, setGrace] = useState("");
  const [word, setWord] = useState("");
  const drain = async () => {
    const gracePeriodSecs = grace.trim() ? Number(grace) : undefined;
    const { inflight, deadline } = await api().admin.drainServer({ gracePeriodSecs });
    const until = deadline ? ` until ${fullTime(new Date(timestampMs(deadline)))}` : "";
    notify(inflight ? `The server drains: ${inflight} tasks in flight may end${until}` : "The server drains and stops");
  };
  return (
    <FormDialog
      title="Drain the server?"
      submit="Drain and stop"
      danger
      disabled={word.trim().toLowerCase() !== WORD}
      close={close}
      onSubmit={drain}
    >
      <p>
        Nothing is handed out, submitted or fired any more, tasks in flight may end or are kept by the store, and the
        server stops. This cannot be taken back: somebody has to start it again.
      </p>
      <TextField
        label="Grace period in seconds"
        type="number"
        min={0}
        step={1}
        value={grace}
        onChange={setGrace}
        placeholder="as configured"
        hint="What still runs after it is paused."
      />
      <TextField label={`Type ${WORD} to confirm`} value={word} onChange={setWord} required />
    </FormDialog>
  );
}
