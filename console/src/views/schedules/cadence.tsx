/** When a schedule is due: in words where there are some, with the expression beside them. */
import type { Schedule } from "@v1/schedule_pb";
import { At } from "../../parts/time";
import { cadenceText, cadenceWords } from "./cadence_words";

export function Cadence({ of: { cadence, timeZone } }: { of: Schedule }) {
  if (cadence.case === "at")
    return (
      <span>
        once, <At at={cadence.value} />
      </span>
    );
  const words = cadenceWords(cadence);
  const zone = cadence.case === "cron" && timeZone !== "UTC" ? timeZone : "";
  if (cadence.case === "interval") return <span>{words ?? cadenceText(cadence)}</span>;
  return (
    <span class="two-lines">
      {words ? <span>{words}</span> : <code>{cadenceText(cadence)}</code>}
      <small class="dim">
        {words && <code>{cadenceText(cadence)}</code>} {zone}
      </small>
    </span>
  );
}
