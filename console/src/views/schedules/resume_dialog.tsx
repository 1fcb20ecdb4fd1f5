/** Asks what becomes of the times that a paused schedule has missed, and resumes it. */
import { useState } from "preact/hooks";
import type { Schedule } from "@v1/schedule_pb";
import { act } from "../../acting";
import { api } from "../../api";
import { FormDialog, openDialog } from "../../parts/dialog";
import { SelectField } from "../../parts/fields";
import { CATCH_UPS } from "./draft";

interface Props {
  schedule: Schedule;
  close: () => void;
  onDone: () => void;
}

export function openResume(schedule: Schedule, onDone: () => void): void {
  openDialog((close) => <ResumeDialog schedule={schedule} close={close} onDone={onDone} />);
}

function ResumeDialog({ schedule: { scheduleId, displayName }, close, onDone }: Props) {
  const [catchUp, setCatchUp] = useState("none");
  const name = displayName ?? scheduleId;
  const resume = async () => {
    await api().schedules.resumeSchedule({
      scheduleId,
      catchUp: CATCH_UPS.find((each) => each.value === catchUp)?.policy,
    });
    await act(`${name} is resumed`, async () => onDone());
  };
  return (
    <FormDialog title={`Resume ${name}`} submit="Resume" close={close} onSubmit={resume}>
      <SelectField
        label="Missed times that fire now"
        value={catchUp}
        onChange={setCatchUp}
        options={CATCH_UPS.map(({ value, words }) => [value, words] as const)}
        hint="Times at which it would have been due during the pause."
        autofocus
      />
    </FormDialog>
  );
}
